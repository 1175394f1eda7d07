"""Annotations of fields, parameters and results, and the decimal types that they declare.

price: Annotated[Decimal, rh.decimal(18, 2)]
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Final

import pyarrow as pa

from rheos.core.errors import SchemaError

DECIMAL: Final = pa.decimal128(38, 18)
"""Type of a `Decimal` without a declared type."""
_MOST_DIGITS: Final = 38


def decimal(precision: int, scale: int = 0) -> pa.DataType:
    """Return the type of decimals with up to `precision` digits, `scale` of them after the point.

    Annotate a field, a parameter, a result or a state with it: `Annotated[Decimal, rh.decimal(18, 2)]`.
    It can also be passed wherever a column's type is expected.

    ```python
    Price = Annotated[Decimal, rh.decimal(18, 2)]
    ```

    Args:
        precision: Number of digits, from 1 to 38.
        scale: Number of digits after the point, from 0 to `precision`.

    Returns:
        The pyarrow type.

    Raises:
        SchemaError: No such type exists.
    """
    whole = all(isinstance(each, int) and not isinstance(each, bool) for each in (precision, scale))
    if not whole or not 1 <= precision <= _MOST_DIGITS or not 0 <= scale <= precision:
        raise SchemaError(
            f"decimal({precision!r}, {scale!r}) is not a valid decimal type",
            hint=f"pass 1 to {_MOST_DIGITS} digits, which include the scale, as in decimal(18, 2)",
        )
    return pa.decimal128(precision, scale)


def without_none(annotation: Any) -> tuple[Any, bool]:
    """Return the annotation without `| None` and `Annotated`, and whether it allows None."""
    if typing.get_origin(annotation) is Annotated:
        return without_none(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        rest = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        if len(rest) == 1:
            return without_none(rest[0])[0], True
    return annotation, False


def declared_decimal(annotation: Any) -> pa.DataType | None:
    """Return the decimal type that `Annotated[Decimal, ...]` declares; None for other annotations.

    Raises:
        SchemaError: The annotated type is not `Decimal`.
    """
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [arg for arg in args if arg is not type(None)]
        return declared_decimal(rest[0]) if len(rest) == 1 else None
    if origin is not Annotated:
        return None
    for kind in args[1:]:
        if isinstance(kind, pa.DataType):
            of = without_none(args[0])[0]
            if of is not Decimal or not pa.types.is_decimal(kind):
                raise SchemaError(
                    f"{annotation} declares {kind} for {getattr(of, '__name__', of)}",
                    hint="write Annotated[Decimal, rh.decimal(18, 2)]",
                )
            return kind
    return declared_decimal(args[0])


def declares_decimals(annotation: Any) -> bool:
    """Return whether the annotation, or one within it, declares the type of its decimals."""
    if typing.get_origin(annotation) is Annotated and declared_decimal(annotation) is not None:
        return True
    return any(map(declares_decimals, typing.get_args(annotation)))


def hints_of(annotated: Any, names: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the resolved annotations of a class or function, without foreign metadata.

    Of the metadata in `Annotated`, only declarations of decimal types are kept.

    Args:
        annotated: The class or the function.
        names: Further names that annotations may use, with their meanings.

    Raises:
        NameError: An annotation cannot be resolved.
    """
    local = None if names is None else dict(names)
    found = typing.get_type_hints(annotated, localns=local, include_extras=True)
    if not any("Annotated[" in str(hint) for hint in found.values()):
        return found
    plain = typing.get_type_hints(annotated, localns=local)
    return {name: hint if declares_decimals(hint) else plain[name] for name, hint in found.items()}
