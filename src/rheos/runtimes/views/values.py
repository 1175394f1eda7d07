"""Values that a reader compares with columns: those of a key, and literals of conditions."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from rheos.core.errors import ConfigurationError
from rheos.core.safe_strings import shown

_TRUTHS = {"true": True, "false": False}


def key_values(table: str, key: str, columns: Mapping[str, pa.DataType]) -> list[pa.Scalar]:
    """Return the values of a key.

    Args:
        table: Kind and name of the table, for errors.
        key: The value of the only key column as it is; or JSON, as an array in the order of the key's
            columns or as an object by their names.
        columns: Columns of the key with their types.

    Raises:
        ConfigurationError: The text is not a key of the table, or a value has another type.
    """
    if not columns:
        raise ConfigurationError(f"{table} has no key", hint="scan it, with a condition: where")
    if not key.lstrip().startswith(("[", "{")):
        if len(columns) > 1:
            raise _not_a_key(table, key, columns)
        [(name, kind)] = columns.items()
        return [scalar(key, kind, f"the key {name!r} of {table}", written=True)]
    try:
        parsed = msgspec.json.decode(key)
    except (msgspec.DecodeError, RecursionError):
        raise _not_a_key(table, key, columns) from None
    if isinstance(parsed, dict):
        if parsed.keys() != columns.keys():
            raise _not_a_key(table, key, columns)
        parsed = [parsed[name] for name in columns]
    if len(parsed) != len(columns):
        raise _not_a_key(table, key, columns)
    return [
        scalar(value, kind, f"the key {name!r} of {table}")
        for value, (name, kind) in zip(parsed, columns.items(), strict=True)
    ]


def _not_a_key(table: str, key: str, names: Sequence[str] | Mapping[str, Any]) -> ConfigurationError:
    listed = ", ".join(names)
    return ConfigurationError(
        f"{shown(key)} is not a key of {table}, whose key is ({listed})",
        hint="pass a JSON array with a value for each of these columns, or a JSON object by column",
    )


def scalar(value: Any, kind: pa.DataType, what: str, *, written: bool = False) -> pa.Scalar:
    """Return a value of JSON in the type of a column.

    Args:
        value: The value; None is null.
        kind: Type of the column.
        what: What has the value, for errors.
        written: Whether the value is a string that spells a value of any type.

    Raises:
        ConfigurationError: The value has another type.
    """
    wanted, convert = _conversion(kind)
    if convert is None:
        raise ConfigurationError(
            f"{what} is {wanted}, which cannot be compared", hint="compare other columns"
        )
    try:
        plain = None if value is None else convert(_parse_written(value, kind) if written else value)
        return pa.scalar(plain, kind)
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException, msgspec.MsgspecError):
        raise ConfigurationError(
            f"{what} is {wanted}, not {shown(value)}", hint=f"pass {wanted}"
        ) from None


def _parse_written(value: str, kind: pa.DataType) -> Any:
    """Return the value of JSON that a plain string spells."""
    types = pa.types
    if types.is_boolean(kind):
        return _TRUTHS.get(value.lower(), value)
    if types.is_integer(kind):
        return int(value)
    return float(value) if types.is_floating(kind) else value


def _conversion(kind: pa.DataType) -> tuple[str, Callable[[Any], Any] | None]:
    """Return the description of a type, and the conversion of values of JSON to it, if any."""
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return "a string", lambda value: _checked_value(value, str)
    if types.is_boolean(kind):
        return "true or false", lambda value: _checked_value(value, bool)
    if types.is_integer(kind):
        return "an integer", lambda value: _checked_value(value, int)
    if types.is_floating(kind):
        return "a number", lambda value: float(_checked_value(value, int, float))
    if types.is_decimal(kind):
        return "a decimal", lambda value: Decimal(str(_checked_value(value, int, float, str)))
    if types.is_timestamp(kind):
        zoned = kind.tz is not None
        return "a time such as 2026-03-01T09:30:00Z", lambda value: _time(
            _checked_value(value, str), zoned
        )
    if types.is_date(kind):
        return "a date such as 2026-03-01", lambda value: date.fromisoformat(_checked_value(value, str))
    if types.is_time(kind):
        return "a time of day such as 09:30:00", lambda value: time.fromisoformat(
            _checked_value(value, str)
        )
    if types.is_duration(kind):
        return "a duration such as PT1.5S", lambda value: msgspec.convert(
            _checked_value(value, str), timedelta
        )
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "bytes in Base64", lambda value: base64.b64decode(
            _checked_value(value, str), validate=True
        )
    return str(kind), None


def _checked_value(value: Any, *classes: type) -> Any:
    """Return the value if its class is one of these; raise TypeError otherwise."""
    if type(value) not in classes:
        raise TypeError(type(value).__name__)
    return value


def _time(text: str, zoned: bool) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        return found.replace(tzinfo=UTC) if zoned else found
    return found if zoned else found.astimezone(UTC).replace(tzinfo=None)
