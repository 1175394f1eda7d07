"""Conversion of values from the server's string form to Arrow columns."""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import InputError
from rheos.formats.decimal_text import cast_text

_TYPES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "oid": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp without time zone": pa.timestamp("us"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
    "time without time zone": pa.time64("us"),
}
_NAMES: Mapping[int, str] = {
    16: "boolean",
    17: "bytea",
    20: "bigint",
    21: "smallint",
    23: "integer",
    25: "text",
    26: "oid",
    114: "json",
    700: "real",
    701: "double precision",
    1042: "character",
    1043: "character varying",
    1082: "date",
    1083: "time without time zone",
    1114: "timestamp without time zone",
    1184: "timestamp with time zone",
    1186: "interval",
    2950: "uuid",
    3802: "jsonb",
}
_NUMERIC_ID, _MODIFIER_BASE = 1700, 4
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_DIGITS = 38


def read_as(column_type: str) -> pa.DataType:
    """Return the default Arrow type for a column type. Numbers of any length, and types without an
    Arrow equivalent, become strings."""
    bare = re.sub(r"\(\d+\)", "", column_type)
    numeric = _NUMERIC.fullmatch(column_type)
    if numeric is not None and int(numeric[1]) <= _DIGITS:
        return pa.decimal128(int(numeric[1]), int(numeric[2]))
    return _TYPES.get(bare, pa.string())


def type_name(type_id: int, modifier: int) -> str:
    """Return the name of a type in the log, as `format_type` writes it, without lengths."""
    if type_id != _NUMERIC_ID:
        return _NAMES.get(type_id, f"type {type_id}")
    if modifier < _MODIFIER_BASE:
        return "numeric"
    digits = modifier - _MODIFIER_BASE
    return f"numeric({digits >> 16 & 0xFFFF},{digits & 0x7FF})"


def from_text(values: pa.Array, type: pa.DataType, place: str) -> pa.Array:
    """Convert strings, as the type's output function writes them. Raises InputError."""
    kinds = pa.types
    try:
        if kinds.is_boolean(type):
            return pc.equal(values, "t")
        if kinds.is_binary(type) or kinds.is_large_binary(type):
            text = pl.Series(pl.from_arrow(values))
            return text.str.slice(2).str.decode("hex").to_arrow().cast(type)
        if kinds.is_time(type):
            clock = pl.Series(pl.from_arrow(values)).str.to_time("%H:%M:%S%.f")
            return clock.to_arrow().cast(type)
        return cast_text(values, type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"{place} has a value that does not fit {type}: {error}",
            hint="declare a suitable type in schema=, such as str",
        ) from None
