"""Arrow's types and PostgreSQL's: which column accepts which type, and how values are written as
strings."""

from __future__ import annotations

import re

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from rheos.connectors.postgres.exact_times import OUR_ERA, exact_times, with_era
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.time_bounds import has_times_outside

_INTEGERS = ("bigint", "integer", "smallint", "numeric", "double precision", "real")
_FLOATS = ("double precision", "real", "numeric")
_DECIMALS = ("numeric", "double precision", "real")
_NUMERIC = re.compile(r"numeric\(\d+,\s*(?P<scale>-?\d+)\)")
_NOT_OF_TEXT = frozenset(
    (
        *_INTEGERS,
        "boolean",
        "bytea",
        "date",
        "interval",
        "time without time zone",
        "timestamp with time zone",
        "timestamp without time zone",
    )
)


def column_types(type: pa.DataType) -> tuple[str, ...] | None:
    """Return the PostgreSQL types that accept values of the Arrow type, by name without parameters; the
    first is the type for a new table. None if no type does. Strings are also accepted by all types that
    are not listed elsewhere, such as uuid and jsonb."""
    kinds = pa.types
    if kinds.is_dictionary(type):
        return column_types(type.value_type)
    if kinds.is_boolean(type):
        return ("boolean",)
    if kinds.is_uint64(type):
        return "numeric", "bigint"
    if kinds.is_int64(type) or kinds.is_uint32(type):
        return _INTEGERS
    if kinds.is_int32(type) or kinds.is_uint16(type):
        return "integer", *(each for each in _INTEGERS if each != "integer")
    if kinds.is_integer(type):
        return "smallint", *(each for each in _INTEGERS if each != "smallint")
    if kinds.is_float64(type):
        return _FLOATS
    if kinds.is_floating(type):
        return "real", "double precision", "numeric"
    if kinds.is_decimal(type):
        return _DECIMALS
    if kinds.is_string(type) or kinds.is_large_string(type) or kinds.is_string_view(type):
        return "text", "character varying", "character"
    if kinds.is_binary(type) or kinds.is_large_binary(type) or kinds.is_fixed_size_binary(type):
        return ("bytea",)
    if kinds.is_date(type):
        return ("date",)
    if kinds.is_timestamp(type):
        return ("timestamp without time zone" if type.tz is None else "timestamp with time zone",)
    if kinds.is_time(type):
        return ("time without time zone",)
    if kinds.is_duration(type):
        return ("interval",)
    return None


def takes(column_type: str, type: pa.DataType) -> bool:
    """Return whether a column type (as `format_type` writes it) accepts values of the Arrow type."""
    names = column_types(type)
    assert names is not None, "validate lets through what has a column type"
    bare = column_type.split("(")[0].strip() + column_type.partition(")")[2]
    return bare in names or (names[0] == "text" and bare not in _NOT_OF_TEXT)


def rounds(column_type: str, type: pa.DataType) -> bool:
    """Return whether a column of the type rounds decimals of the Arrow type."""
    numeric = _NUMERIC.fullmatch(column_type)
    return bool(
        numeric is not None and pa.types.is_decimal(type) and int(numeric["scale"]) < type.scale
    )


def new_type(type: pa.DataType) -> str:
    """Return the column type for a new table."""
    names = column_types(type)
    assert names is not None, "validate lets through what has a column type"
    if pa.types.is_decimal(type):
        return f"numeric({type.precision}, {type.scale})" if type.scale >= 0 else "numeric"
    return names[0]


def as_csv(rows: Batch, numbers: pa.Array) -> pa.Buffer:
    """Convert rows to COPY (FORMAT csv), each after its number: nulls are bare, all other values are
    quoted. Raises InputError, naming column and record, for a time that PostgreSQL would truncate."""
    columns = [numbers, *map(_as_text, exact_times(rows).columns)]
    names = [str(place) for place in range(len(columns))]
    out = pa.BufferOutputStream()
    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    csv.write_csv(pa.RecordBatch.from_arrays(columns, names), out, options)
    return out.getvalue()


def _as_text(column: pa.Array) -> pa.Array:
    """Return the column in a form that the CSV writer writes as PostgreSQL reads it."""
    kinds, type = pa.types, column.type
    if kinds.is_dictionary(type):
        return _as_text(column.dictionary_decode())
    if kinds.is_binary(type) or kinds.is_large_binary(type) or kinds.is_fixed_size_binary(type):
        bare = pl.Series(pl.from_arrow(column.cast(pa.large_binary()))).bin.encode("hex").to_arrow()
        return pc.binary_join_element_wise(pa.scalar("\\x"), bare.cast(pa.string()), "")
    if kinds.is_duration(type):
        micros = column.cast(pa.duration("us")).cast(pa.int64())
        return pc.binary_join_element_wise(micros.cast(pa.string()), "microseconds", " ")
    if kinds.is_float16(type):
        return column.cast(pa.float32())
    if kinds.is_string_view(type):
        return column.cast(pa.string())
    if has_times_outside(column, OUR_ERA):
        return with_era(column)
    return column


def as_strings(column: pa.Array) -> pa.Array:
    """Return values as strings that PostgreSQL parses. Raises InputError as `as_csv` does."""
    [exact] = exact_times(pa.RecordBatch.from_arrays([column], names=["key"])).columns
    return _as_text(exact).cast(pa.string())
