"""Batches as Polars frames, and what Polars gives as Arrow has it."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from rheos.protocol.elements import Batch

_MANY_ROWS = 512
"""From so many rows on a cast by Arrow pays."""


def polars_frame(batch: Batch) -> pl.DataFrame:
    """The batch as `polars.from_arrow` gives it, for less: it makes frames in Polars' pool of threads,
    for which a small batch waits longer than for the work, and is slow to make views of texts."""
    if batch.num_rows < _MANY_ROWS or pa.string() not in batch.schema.types:
        return pl.DataFrame(batch)
    columns = [
        column.cast(pa.string_view()) if column.type == pa.string() else column
        for column in batch.columns
    ]
    return pl.DataFrame(pa.RecordBatch.from_arrays(columns, names=batch.schema.names))


def arrow_column(column: pl.Series) -> pa.Array:
    """The column as Arrow has it, in types that all know."""
    return column.to_arrow(compat_level=pl.CompatLevel.oldest())


def arrow_table(frame: pl.DataFrame) -> pa.Table:
    """The frame as Arrow has it, in types that all know; each column in one piece. Polars converts
    whole frames in its pool of threads: a small one waits longer for that than for the work."""
    return pa.Table.from_arrays([arrow_column(column) for column in frame.get_columns()], frame.columns)
