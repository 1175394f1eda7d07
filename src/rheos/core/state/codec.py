"""Encodes the values of declared state: by msgspec for a declared type, otherwise by pickle.

A dataclass may gain fields with defaults, or lose some, between the versions of a program. A type that
is partly undeclared (`object`, `Any`, a bare `list`) is pickled whole, because msgspec would not return
the original values.
"""

from __future__ import annotations

import dataclasses
import pickle
import typing
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from rheos.core.errors import SchemaError, StateAccessError, UnrestorableError
from rheos.core.protocol.annotations import declared_decimal, declares_decimals, hints_of
from rheos.core.protocol.columns import column_of
from rheos.core.protocol.plain_values import plain_value
from rheos.core.protocol.types import TypeMismatch, arrow_type, is_immutable, without_none
from rheos.core.safe_strings import message_of, named_error
from rheos.core.safe_strings import shown as value_text
from rheos.core.state.binary_columns import BinaryColumn, binary_column
from rheos.core.state.keys import Key

_EXACT = (int, float, str, bytes, bool)
"""Types whose class alone shows that a value can be encoded and decoded unchanged."""
_PLAIN = frozenset((*_EXACT, datetime, date, time, timedelta, Decimal))


class _CheckedPlaceholder:
    """Placeholder class for datetimes, and for decimals with a precision, so that `fit` checks each
    value."""


class ValueCodec:
    """Checks and encodes the values of one state. `name` is for the errors.

    Raise SchemaError if the declared type cannot be stored.
    """

    def __init__(self, name: str, declared: Any) -> None:
        self._name = name
        self.declared = declared
        inner, self.nullable = without_none(declared)
        self.immutable = is_immutable(declared)
        self._decimals = _field_of_decimals(declared)
        self.pickled = self._is_undeclared()
        self.nullable = self.nullable or self.pickled
        self._declared_cls: Any = None if self.pickled else _class_of(inner)
        own_type = self._declared_cls is Decimal and self._decimals is not None
        checked = own_type or self._declared_cls is datetime
        self.cls: Any = _CheckedPlaceholder if checked else self._declared_cls
        """Class of nearly all values; values of other classes go through `fit`."""
        self._exact = self.cls in _EXACT and not self.nullable
        self._encode = msgspec.msgpack.Encoder(enc_hook=_as_plain).encode
        self._decode: Callable[[bytes], Any] = (
            pickle.loads if self.pickled else msgspec.msgpack.Decoder(declared).decode
        )

    def _is_undeclared(self) -> bool:
        if self.declared is object:
            return True
        try:
            kinds = _inside(msgspec.inspect.type_info(self.declared))
        except (TypeError, NameError) as error:
            raise self._unstorable(str(error)) from error
        custom = [info.cls for info in kinds if isinstance(info, msgspec.inspect.CustomType)]
        if any(cls is not object for cls in custom):
            names = ", ".join(sorted(cls.__name__ for cls in custom if cls is not object))
            raise self._unstorable(f"{names} is not a dataclass")
        return bool(custom) or any(isinstance(info, msgspec.inspect.AnyType) for info in kinds)

    def _unstorable(self, why: str) -> SchemaError:
        return SchemaError(
            f"state {self._name!r} is {shown(self.declared)}, which cannot be stored: {why}",
            hint="declare a dataclass, a simple type or a container of these; or `object`, to "
            "pickle the values",
        )

    def fit(self, value: Any) -> Any:
        """Return the value in the declared class, as it would be restored. Values similar to a Python
        type become that type (see `plain_values`). An int becomes a float if that is declared. A
        datetime with a zone is converted to UTC. Raise StateAccessError if the value does not fit.
        Nested values are checked when they are encoded."""
        cls = self._declared_cls
        if cls is None or (value is None and self.nullable):
            return value
        if cls not in _PLAIN:
            if isinstance(value, np.generic):
                value = value.item()
            if isinstance(value, cls):
                return value
            raise self._wrong(value, "")
        try:
            plain = plain_value(value)
            if isinstance(plain, int) and cls in (int, float):
                plain = cls(plain)
            if cls is datetime and isinstance(plain, datetime) and plain.tzinfo not in (None, UTC):
                plain = plain.astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise self._wrong(value, f": {error}") from None
        if cls is Decimal and self._decimals is not None and plain is not None:
            return self._fit_decimal(plain)
        if plain.__class__ is cls or (plain is None and self.nullable):
            return plain
        raise self._wrong(value, "")

    def _fit_decimal(self, value: Any) -> Any:
        assert self._decimals is not None
        try:
            column_of([value], self._decimals)
        except TypeMismatch:
            raise self._wrong(value, "") from None
        return Decimal(value) if isinstance(value, int) else value

    def encode(self, values: Sequence[Any], keys: Sequence[Key]) -> list[bytes]:
        """Return the values as bytes. Raise StateAccessError, with the key, if a type is wrong."""
        if self.pickled:
            return [pickle.dumps(value) for value in values]
        if self._decimals is not None:
            self._check_decimals(values, keys, self._decimals)
        encode, decode = self._encode, self._decode
        try:
            encoded = [encode(value) for value in values]
            if not self._exact:
                # Encoding accepts values of other types; only decoding shows whether the type is right.
                for data in encoded:
                    decode(data)
        except (msgspec.MsgspecError, TypeError, OverflowError):
            for value, key in zip(values, keys, strict=True):
                self._encode_one(value, key)
            raise
        return encoded

    def encode_column(self, values: Sequence[Any], keys: Sequence[Key]) -> BinaryColumn:
        """Return the values as bytes in a binary column. Raise StateAccessError as `encode` does."""
        return binary_column(len(values), lambda some: self.encode(values[some], keys[some]))

    def _check_decimals(self, values: Sequence[Any], keys: Sequence[Key], field: pa.Field) -> None:
        try:
            column_of(values, field)
        except TypeMismatch as mismatch:
            at = mismatch.index
            raise self._wrong(values[at], f": {mismatch}", key=repr(keys[at])) from None

    def _encode_one(self, value: Any, key: Key) -> None:
        try:
            self._decode(self._encode(value))
        except (msgspec.MsgspecError, TypeError, OverflowError) as error:
            raise self._wrong(value, f": {message_of(error)}", key=value_text(key)) from error

    def _wrong(self, value: Any, why: str, key: str | None = None) -> StateAccessError:
        return StateAccessError(
            f"state {self._name!r} is declared as {shown(self.declared)}, but was assigned "
            f"{type(value).__name__} {value_text(value)}{why}",
            key=key,
            hint=f"assign values of the declared type, or change the declaration of {self._name!r}",
        )

    def decode_all(self, data: Sequence[bytes]) -> list[Any]:
        """Return the value of each of the bytes, as `decode` does."""
        try:
            return [*map(self._decode, data)]
        except Exception:
            return [*map(self.decode, data)]

    def decode(self, data: bytes) -> Any:
        """Return the value. Raise UnrestorableError if the bytes are not of the declared type."""
        try:
            return self._decode(data)
        except Exception as error:
            # Unpickling, and a class that checks its own fields, may raise any error.
            raise UnrestorableError(
                f"a stored value of state {self._name!r} cannot be read as {shown(self.declared)}: "
                f"{named_error(error)}",
                hint="the state was written by another version of the program: declare the old type, "
                "or change the operator's uid to start it empty; `rheos check` finds this before the "
                "job starts",
            ) from error


def _field_of_decimals(declared: Any) -> pa.Field | None:
    """Return the column that the values fit, if their type declares decimals of its own."""
    if not _declares_decimals(declared):
        return None
    return pa.field("value", arrow_type(declared), nullable=without_none(declared)[1])


def _declares_decimals(declared: Any, within: frozenset[type] = frozenset()) -> bool:
    """Return whether a decimal with a declared precision is part of the type.

    `within` are the enclosing classes; a recursive class is examined once.
    """
    if declares_decimals(declared):
        return True
    of = without_none(declared)[0]
    if dataclasses.is_dataclass(of) and isinstance(of, type):
        inner = within | {of}
        return of not in within and any(
            _declares_decimals(hint, inner) for hint in hints_of(of).values()
        )
    return any(_declares_decimals(part, within) for part in typing.get_args(of))


def _class_of(declared: Any) -> Any:
    """Return the class of the values; None if they have no single class."""
    origin = typing.get_origin(declared) or declared
    return origin if isinstance(origin, type) else None


def _as_plain(value: Any) -> Any:
    try:
        plain = plain_value(value)
    except ValueError as error:
        raise TypeError(f"{type(value).__name__} cannot be stored: {error}") from None
    if plain is value:
        raise TypeError(f"{type(value).__name__} cannot be stored")
    return plain


def _inside(info: Any) -> list[Any]:
    """Return the type and all types inside it."""
    found: dict[int, Any] = {}
    left = [info]
    while left:
        here = left.pop()
        if isinstance(here, tuple):
            left.extend(here)
        elif isinstance(here, msgspec.Struct) and id(here) not in found:
            found[id(here)] = here
            if not isinstance(here, msgspec.inspect.EnumType):
                left.extend(getattr(here, name) for name in here.__struct_fields__)
    return list(found.values())


def shown(declared: Any) -> str:
    if isinstance(declared, type) and not typing.get_args(declared):
        return declared.__qualname__.rpartition("<locals>.")[2]
    kind = declared_decimal(declared)
    return str(declared).replace("typing.", "") if kind is None else str(kind)
