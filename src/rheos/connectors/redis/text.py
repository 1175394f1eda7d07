"""Values as Redis stores them: strings and bytes unchanged, other types as strings.

    true    -7    0.1    2026-03-01    12:30:15.123456    2026-03-01 12:30:15.123456Z

HINCRBY and HINCRBYFLOAT accept the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.connectors.schemas import is_bytes
from rheos.core.errors import SchemaError
from rheos.core.protocol.elements import Batch
from rheos.formats.bad_rows import RowsError, sift
from rheos.formats.decimal_text import cast_text
from rheos.formats.times_as_text import with_writable_times

_HELD = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_decimal128,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_date32,
    pa.types.is_time,
    pa.types.is_timestamp,
)


def check_fields(schema: Iterable[pa.Field]) -> None:
    """Raises SchemaError where a column has no text."""
    for field in schema:
        if not any(is_a(field.type) for is_a in _HELD):
            raise SchemaError(
                f"column {field.name!r} of type {field.type} cannot be a field in Redis",
                hint="make it a number, a string or a time, or use a format with nested values: "
                "format=rh.formats.json()",
            )


def to_bytes(column: pa.Array) -> pa.Array:
    """The column as `binary`; null stays null."""
    if not is_bytes(column.type):
        column = column.cast(pa.string())
    return column.cast(pa.binary())


def as_fields(rows: Batch) -> dict[str, pa.Array]:
    """Returns the columns of the rows as the fields of a hash: columns of `binary` by their names.
    Raises InputError, naming column and record, for a time that has no text."""
    writable = with_writable_times(rows, "text for Redis")
    return {name: to_bytes(writable.column(name)) for name in writable.schema.names}


def from_bytes(
    columns: dict[str, pa.Array], rows: int, schema: pa.Schema
) -> tuple[Batch, npt.NDArray[np.int64] | None, list[tuple[int, str]]]:
    """Rows of the schema, of columns of `binary`: those that fit, which they are (None for all), and
    those that do not, with what is wrong."""

    def decode(i: int, j: int) -> Batch:
        arrays = []
        for field in schema:
            given = columns[field.name].slice(i, j - i)
            try:
                arrays.append(_cast(given, field.type))
            except pa.ArrowInvalid:
                what = f"column {field.name!r} must be {field.type}, and is {_shown(given)}"
                raise RowsError(what) from None
        nullable = pa.schema([field.with_nullable(True) for field in schema])
        return pa.RecordBatch.from_arrays(arrays, schema=nullable)

    return sift(rows, decode, schema)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast values of type `binary`. Raises ArrowInvalid."""
    if is_bytes(kind):
        return values.cast(kind)
    text = values.cast(pa.string())
    if pa.types.is_time(kind):  # Arrow has no such cast from text, but one of times of a day.
        text = pc.binary_join_element_wise("1970-01-01", text, " ").cast(pa.timestamp(kind.unit))
    return cast_text(text, kind)


def _shown(values: pa.Array) -> str:
    return repr(values[0].as_py())[:80]
