"""Columns of a table of Cassandra, and the values that rows have for them."""

from __future__ import annotations

import ipaddress
import re
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.connectors.schemas import shown_row
from rheos.core.errors import InputError, SchemaError
from rheos.core.protocol.elements import Batch

IsKind: TypeAlias = Callable[[pa.DataType], bool]


class CqlColumn(NamedTuple):
    """Column that both the table and the stream have."""

    name: str
    kind: str
    """Type of the column in CQL: "bigint"."""


def _is_text(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))


def _is_bytes(type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type) or pa.types.is_large_binary(type))


def _fits(bits: int) -> IsKind:
    """Return a test for integers that fit into this number of bits."""

    def is_kind(type: pa.DataType) -> bool:
        if not pa.types.is_integer(type):
            return False
        return bool(type.bit_width + pa.types.is_unsigned_integer(type) <= bits)

    return is_kind


def _is_float(type: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type))


_KINDS: Mapping[str, IsKind] = {
    "ascii": _is_text,
    "text": _is_text,
    "varchar": _is_text,
    "uuid": _is_text,
    "timeuuid": _is_text,
    "inet": _is_text,
    "blob": _is_bytes,
    "boolean": pa.types.is_boolean,
    "tinyint": _fits(8),
    "smallint": _fits(16),
    "int": _fits(32),
    "bigint": _fits(64),
    "varint": pa.types.is_integer,
    "float": lambda type: _is_float(type) and type.bit_width <= 32,
    "double": _is_float,
    "decimal": pa.types.is_decimal,
    "timestamp": pa.types.is_timestamp,
    "date": pa.types.is_date32,
}
"""Tests whether a column of the stream may be written, by type of the table's column."""
_MILLISECONDS = pa.timestamp("ms", "UTC")
_EPOCH_DAYS = 1 << 31
"""Number that CQL uses for the day 1970-01-01; dates are unsigned."""


def check_any_fits(field: pa.Field) -> None:
    """Raise SchemaError if no column type of Cassandra accepts the field's values."""
    if not any(is_kind(field.type) for is_kind in _KINDS.values()):
        raise SchemaError(
            f"column {field.name!r} is {field.type}, which the sink cannot write",
            hint="cast it to a string or bytes, or leave it out: select(...)",
        )


def check_fits(field: pa.Field, column: CqlColumn, table: str) -> None:
    """Raise SchemaError if the table's column does not accept values of the field."""
    is_kind = _KINDS.get(column.kind)
    if is_kind is None:
        raise SchemaError(
            f"column {column.name!r} of {table} is {column.kind}, which the sink cannot write",
            hint=f"it writes {', '.join(_KINDS)}",
        )
    if not is_kind(field.type):
        raise SchemaError(
            f"column {column.name!r} is {field.type}, but {column.kind} in {table}",
            hint="cast it first: select(...)",
        )


def values(rows: Batch, columns: Sequence[CqlColumn]) -> list[tuple[Any, ...]]:
    """Return each row's values of the columns, as the client expects them. Raises InputError, with the
    row, for a value that the column cannot hold."""
    return list(zip(*(_values(rows, column) for column in columns), strict=True))


def _values(rows: Batch, column: CqlColumn) -> list[Any]:
    given = rows.column(column.name)
    if column.kind == "timestamp":
        try:
            # CQL's timestamps have a precision of milliseconds.
            given = given.cast(_zoned(given.type)).cast(_MILLISECONDS).cast(pa.int64())
        except pa.ArrowInvalid:
            row = next(row for row, at in enumerate(given) if at.is_valid and _is_finer(at))
            raise _refused(rows, row, column, "can only store whole milliseconds") from None
    if column.kind == "date":
        given = pc.add(given.cast(pa.int32()).cast(pa.int64()), _EPOCH_DAYS)
    listed: list[Any] = given.to_pylist()
    read = _READERS.get(column.kind)
    if read is not None:
        for row, text in enumerate(listed):
            try:
                listed[row] = None if text is None else read(text)
            except ValueError:
                raise _refused(rows, row, column, f"{text!r} is not valid") from None
    return listed


_UUID = re.compile(r"[0-9a-f]{8}(-?)([0-9a-f]{4}\1){3}[0-9a-f]{12}", re.IGNORECASE)


def _uuid(text: str) -> uuid.UUID:
    # Python's UUID also accepts underscores and spaces between digits.
    if not _UUID.fullmatch(text):
        raise ValueError(text)
    return uuid.UUID(text)


def _timeuuid(text: str) -> uuid.UUID:
    found = _uuid(text)
    if found.version != 1:
        raise ValueError(text)
    return found


def _inet(text: str) -> str:
    # The client would read "1" as 0.0.0.1 and 010.0.0.1 as 8.0.0.1.
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise ValueError(text)
    return str(address)


def _ascii(text: str) -> str:
    if not text.isascii():
        raise ValueError(text)
    return text


_READERS: Mapping[str, Callable[[str], Any]] = {
    "ascii": _ascii,
    "inet": _inet,
    "timeuuid": _timeuuid,
    "uuid": _uuid,
}
"""Function that checks and converts a string, for column types that do not accept every string. It
raises ValueError."""


def identity(key: Sequence[Any]) -> tuple[Any, ...]:
    """Return a value that identifies a primary key. Floats are compared by their bits, as in
    Cassandra."""
    return tuple(struct.pack(">d", value) if isinstance(value, float) else value for value in key)


def _zoned(type: pa.DataType) -> pa.DataType:
    return pa.timestamp(type.unit, "UTC")


def _is_finer(at: pa.Scalar) -> bool:
    try:
        at.cast(_zoned(at.type)).cast(_MILLISECONDS)
    except pa.ArrowInvalid:
        return True
    return False


def _refused(rows: Batch, row: int, column: CqlColumn, what: str) -> InputError:
    return InputError(
        f"a row cannot be written: column {column.name!r} is {column.kind}, and {what}",
        record=shown_row(rows, row),
        hint="correct such rows upstream, or filter them out",
    )
