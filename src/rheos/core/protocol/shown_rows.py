"""Rows and values as strings for people, for use in errors about any row.

An error about a row must not fail because of the row itself. A time beyond Python's years, or one in
nanoseconds, is shown as Arrow writes it.
"""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

from rheos.core.protocol.elements import Batch, strip_hidden


class ShownAsString(str):
    """The string form of a value that Python cannot represent. Its `repr` has no quotes, as the value
    is not a string."""

    def __repr__(self) -> str:
        return str(self)


def row_values(rows: Batch, row: int) -> dict[str, Any]:
    """Return the values of one row by the names of its visible columns."""
    one = strip_hidden(rows).slice(row, 1)
    return {
        name: value_of(column, 0) for name, column in zip(one.schema.names, one.columns, strict=True)
    }


def rows_values(rows: Batch) -> list[dict[str, Any]]:
    """Return the values of all rows by the names of their visible columns."""
    shown = strip_hidden(rows)
    columns = map(values_of, shown.columns)
    if not shown.num_columns:
        return [{} for _ in range(rows.num_rows)]
    return [dict(zip(shown.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return all values of a column as Python objects, or as `ShownAsString` if Python cannot represent
    them."""
    try:
        return cast("list[Any]", column.to_pylist())
    except (ValueError, OverflowError, pa.ArrowException):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return [value_of(chunk, row) for chunk in chunks for row in range(len(chunk))]


def shown_record(rows: Batch, row: int, limit: int = 500) -> str:
    """Return one row as a string of at most `limit` characters."""
    text = repr(row_values(rows, row))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shown_value(column: pa.Array, row: int) -> str:
    """Return one value as a string."""
    return repr(value_of(column, row))


def value_of(column: pa.Array, row: int) -> Any:
    """Return one value as a Python object, or as `ShownAsString` if Python cannot represent it."""
    try:
        return column[row].as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return ShownAsString(_text(column.slice(row, 1)))


def _text(one: pa.Array) -> str:
    kind = one.type
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        zoned = pa.types.is_timestamp(kind) and kind.tz is not None
        plain = one.cast(pa.timestamp(kind.unit, "UTC")).view(pa.timestamp(kind.unit)) if zoned else one
        text: str = plain.cast(pa.string())[0].as_py()
        if not text.startswith("<"):
            return f"{text}Z" if zoned else text
        integers = pa.int32() if kind.bit_width == 32 else pa.int64()
        unit = {"date32[day]": "days", "date64[ms]": "ms"}.get(str(kind)) or kind.unit
        return f"{one.view(integers)[0].as_py()} {unit} since 1970"
    return " ".join(one.to_string().split())
