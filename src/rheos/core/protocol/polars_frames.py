"""Converts batches to Polars frames, and Polars' results to Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from rheos.core.errors import InputError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.time_bounds import MILLISECONDS, refuse_times_outside

_WITH_UNITS = frozenset((pa.timestamp("s").id, pa.duration("s").id))
_MANY_ROWS = 512
"""Minimum number of rows for which a cast by Arrow is faster."""


def polars_frame(batch: Batch) -> pl.DataFrame:
    """Return the batch as a frame, equal to the result of `polars.from_arrow`, but faster.

    `from_arrow` uses Polars' thread pool. For a small batch, waiting for a thread takes longer than the
    work. `from_arrow` is also slow at creating views of strings.

    Raise InputError, with the column, for a count of seconds that exceeds Polars' milliseconds.
    """
    kinds = batch.schema.types
    if any([kind.id in _WITH_UNITS and kind.unit == "s" for kind in kinds]):  # noqa: C419 - faster
        batch = _in_milliseconds(batch)
    if batch.num_rows < _MANY_ROWS or pa.string() not in kinds:
        return pl.DataFrame(batch)
    columns = [_views(column) if column.type == pa.string() else column for column in batch.columns]
    return pl.DataFrame(pa.RecordBatch.from_arrays(columns, names=batch.schema.names))


def _views(column: pa.Array) -> pa.Array:
    """Return a column of strings as views. If all strings are short, views have no buffer of data."""
    views = column.cast(pa.string_view())
    buffers = views.buffers()
    if all(buffer is not None for buffer in buffers[2:]):
        return views
    # Before version 25, Arrow lists a buffer that does not exist, and its export to Polars crashes.
    return pa.Array.from_buffers(views.type, len(views), buffers[:2], offset=views.offset)


def _in_milliseconds(batch: Batch) -> Batch:
    """Convert seconds to milliseconds. Raise an error on overflow, where Polars would wrap around."""
    refuse_times_outside(batch, MILLISECONDS, "Polars")
    columns = [
        _checked_duration(batch.column(at), field.name)
        if field.type == pa.duration("s")
        else batch.column(at)
        for at, field in enumerate(batch.schema)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _checked_duration(column: pa.Array, name: str) -> pa.Array:
    try:
        return column.cast(pa.duration("ms"))
    except pa.ArrowInvalid as error:
        raise InputError(
            f"column {name!r} holds a duration that exceeds the range of Polars in "
            f"milliseconds: {error}",
            hint="filter out such rows first, or read the column in map_batches(..., "
            'form="arrow"), which accepts every value',
        ) from None


def arrow_column(column: pl.Series) -> pa.Array:
    """Return the column as Arrow data, in types that all Arrow implementations support."""
    return column.to_arrow(compat_level=pl.CompatLevel.oldest())


def table_of_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table with this schema. The first use of `pa.Table.from_pylist` would import
    pandas, which takes longer than many a test."""
    return arrow_table(pl.DataFrame(rows, pl.Schema(schema))).cast(schema)


def arrow_table(frame: pl.DataFrame) -> pa.Table:
    """Return the frame as Arrow data, in types that all Arrow implementations support; each column in
    one chunk. Columns are converted one by one: Polars would convert a frame in its thread pool, for
    which a small frame waits longer than the work takes."""
    return pa.Table.from_arrays([arrow_column(column) for column in frame.get_columns()], frame.columns)
