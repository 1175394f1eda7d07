"""Conversion of rows to documents, and of documents to rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from rheos.connectors.mongodb.session import bson
from rheos.core.connectors.schemas import shorten, shown_row
from rheos.core.errors import InputError, SchemaError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.moments import in_utc
from rheos.core.protocol.time_bounds import PYTHON, refuse_times_outside

_MOST_INT64 = (1 << 63) - 1
_MILLISECOND_US = 1000


def check_writable(schema: pa.Schema) -> None:
    """Raise SchemaError if rows of a schema cannot be stored unchanged."""
    for field in schema:
        if not field.name or field.name.startswith("$") or "." in field.name or "\0" in field.name:
            raise SchemaError(
                f"a document cannot have a field named {field.name!r}",
                hint="rename the column: no '$' at the begin, and no '.'",
            )
        _check_type(field.name, field.type)


def _check_type(name: str, kind: pa.DataType) -> None:
    t = pa.types
    if t.is_list(kind) or t.is_large_list(kind):
        _check_type(name, kind.value_type)
    elif t.is_struct(kind):
        check_writable(pa.schema(list(kind)))
    elif not (
        *(t.is_boolean(kind), t.is_integer(kind), t.is_floating(kind), t.is_date32(kind)),
        *(t.is_string(kind), t.is_large_string(kind), t.is_binary(kind), t.is_large_binary(kind)),
        (t.is_decimal(kind) and kind.precision <= 34),
        t.is_timestamp(kind),
    ).count(True):
        raise SchemaError(
            f"column {name!r} is or has {kind}, which the sink cannot write",
            hint="cast it to a string, or leave it out: select(...)",
        )


def documents(rows: Batch) -> list[dict[str, Any]]:
    """Return rows as documents. Raises InputError, with the row, if a value would be changed."""
    refuse_times_outside(rows, PYTHON, "a document")
    converters = {field.name: _converter(field.type) for field in rows.schema}
    columns = {name: _in_utc(rows.column(name)).to_pylist() for name in converters}
    for name, convert in converters.items():
        if convert is not None:
            columns[name] = _converted(rows, name, columns[name], convert)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _in_utc(column: pa.Array) -> pa.Array:
    """Return times with a zone in UTC: in their own zone, Python may have no such year."""
    zoned = pa.types.is_timestamp(column.type) and column.type.tz is not None
    return column.cast(pa.timestamp(column.type.unit, "UTC")) if zoned else column


def _converted(
    rows: Batch, name: str, values: Sequence[Any], convert: Callable[[Any], Any]
) -> list[Any]:
    found: list[Any] = []
    for row, value in enumerate(values):
        try:
            found.append(None if value is None else convert(value))
        except ValueError as error:
            raise InputError(
                f"column {name!r} is {shorten(str(value))}, which a document cannot store unchanged: "
                f"{error}",
                record=shown_row(rows, row),
                hint="convert the value, or filter such rows out first",
            ) from None
    return found


def _converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return the conversion of a type's values; None if they are stored as they are."""
    t = pa.types
    if t.is_uint64(kind):
        return _checked_integer
    if t.is_decimal(kind):
        return bson().Decimal128  # type: ignore[no-any-return]
    if t.is_date32(kind):
        return lambda day: datetime.combine(day, time(), UTC)
    if t.is_timestamp(kind):
        return _checked_time
    if t.is_list(kind) or t.is_large_list(kind):
        inner = _converter(kind.value_type)
        if inner is not None:
            return lambda items: [None if each is None else inner(each) for each in items]
    if t.is_struct(kind):
        fields = {field.name: made for field in kind if (made := _converter(field.type)) is not None}
        if fields:
            return lambda value: {
                name: each if each is None or name not in fields else fields[name](each)
                for name, each in value.items()
            }
    return None


def _checked_integer(value: int) -> int:
    if value > _MOST_INT64:
        raise ValueError(f"whole numbers end at {_MOST_INT64}")
    return value


def _checked_time(value: datetime) -> datetime:
    if value.microsecond % _MILLISECOND_US or getattr(value, "nanosecond", 0):
        raise ValueError("times have whole milliseconds")
    return in_utc(value)


def rows_of(found: Sequence[Mapping[str, Any]], schema: pa.Schema, of: str) -> Batch:
    """Return documents as rows.

    Args:
        found: The documents. A missing field is null.
        schema: Columns of the rows.
        of: Name of the collection, for messages.

    Returns:
        The rows.

    Raises:
        InputError: A value does not fit its column. It shows the document's `_id`.
    """
    columns = []
    for field in schema:
        values = [each.get(field.name) for each in found]
        try:
            columns.append(pa.array([_read(each, field.type) for each in values], field.type))
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            columns.append(_fitting(found, field, of))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fitting(found: Sequence[Mapping[str, Any]], field: pa.Field, of: str) -> pa.Array:
    """Raise the error of the first document whose value does not fit."""
    for each in found:
        value = each.get(field.name)
        try:
            pa.array([_read(value, field.type)], field.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise InputError(
                f"the field {field.name!r} of a document of {of} is {shorten(repr(value))}, which is "
                f"not {field.type}: {error}",
                record=f"_id={shorten(repr(each.get('_id')))}",
                hint="declare another type in schema=, such as str, or correct the document",
            ) from None
    raise AssertionError("a single value of the column does not fit")


def _read(value: Any, kind: pa.DataType) -> Any:
    """Return a value of a document as Arrow takes it for a type. Raises ValueError."""
    if value is None:
        return None
    t = pa.types
    if t.is_string(kind) or t.is_large_string(kind):
        return value if isinstance(value, str) else _text(value)
    if isinstance(value, bson().Decimal128):
        value = value.to_decimal()
    if t.is_list(kind) or t.is_large_list(kind):
        return [_read(each, kind.value_type) for each in _checked(value, list)]
    if t.is_struct(kind):
        fields = _checked(value, Mapping)
        return {field.name: _read(fields.get(field.name), field.type) for field in kind}
    if isinstance(value, bool) and not t.is_boolean(kind):
        raise ValueError("it is a boolean")
    if t.is_date32(kind):
        if _checked(value, datetime).timetz() != time(tzinfo=UTC):
            raise ValueError("it has a time of day")
        return value.date()
    if t.is_integer(kind) and isinstance(value, float) and value.is_integer():
        return int(value)
    if t.is_floating(kind) and isinstance(value, int) and int(float(value)) != value:
        raise ValueError("it has too many digits")
    return _checked(value, *(types for check, types in _PYTHON if check(kind)))


_PYTHON: Sequence[tuple[Callable[[pa.DataType], bool], Any]] = (
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, int),
    (pa.types.is_floating, (int, float)),
    (pa.types.is_decimal, (Decimal, int)),
    (pa.types.is_timestamp, datetime),
    (pa.types.is_binary, bytes),
    (pa.types.is_large_binary, bytes),
)
"""Types of the values of documents that a column takes."""


def _checked(value: Any, *types: Any) -> Any:
    """Return a value of one of the types. Raises ValueError for another one."""
    if not any(isinstance(value, each) for each in types):
        raise ValueError(f"it is a {type(value).__name__}")
    return value


def _text(value: Any) -> str:
    """Return a value as a string: an ObjectId or a UUID by its digits, others as extended JSON."""
    kinds = (bson().ObjectId, bson().Decimal128, Decimal, int, float)
    if isinstance(value, kinds) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    codec = bson().json_util
    text: str = codec.dumps(value, json_options=codec.RELAXED_JSON_OPTIONS)
    return text
