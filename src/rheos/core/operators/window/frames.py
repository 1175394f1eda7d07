"""Conversion between the Arrow batches of streams and the Polars frames of window state.

In frames the user's columns have a prefix that names their role, so that none of them can clash with
an internal column: "key.country", "in.price" (`aggregates/contract.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.operators.window.arrays import has_nan
from rheos.core.operators.window.contract import PaneAssignment
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.polars_frames import arrow_column, arrow_table, polars_frame
from rheos.core.state.key_groups import groups_of_columns

KEY = "key."
KEY_GROUP = "key_group"

_SAMPLE = 256
"""Number of rows by which sorting guesses whether the values of a column differ."""


def key_names(keys: Sequence[str]) -> list[str]:
    """Return the names of key columns in frames."""
    return [KEY + key for key in keys]


def frame_of(
    batch: Batch, columns: Mapping[str, str], assigned: PaneAssignment, pane: Sequence[str]
) -> pl.DataFrame:
    """Return the columns of a batch under new names (new to old). If the rows have different panes, add
    these as columns with the names `pane`."""
    arrays = [_plain(batch.column(old)) for old in columns.values()]
    names = list(columns)
    if len(assigned.panes[0]) > 1:
        arrays += [pa.array(values) for values in assigned.panes]
        names += pane
    return _by_value(polars_frame(pa.RecordBatch.from_arrays(arrays, names=names)))


def key_frame(batch: Batch, keys: Mapping[str, str]) -> pl.DataFrame:
    """Return the key columns of a batch under new names (new to old)."""
    arrays = [_plain(batch.column(old)) for old in keys.values()]
    return _by_value(polars_frame(pa.RecordBatch.from_arrays(arrays, names=list(keys))))


def _by_value(frame: pl.DataFrame) -> pl.DataFrame:
    # Keys are equal by value, so one of the equal keys represents all. Adding 0.0 turns -0.0 into 0.0,
    # but not in an expression: Polars optimises such a sum away.
    floats = [
        pl.Series(name, frame[name].to_numpy() + 0.0)
        for name in frame.columns
        if name.startswith(KEY) and frame[name].dtype.is_float()
    ]
    return frame.with_columns(floats) if floats else frame


def empty_frame(schema: pa.Schema, columns: Mapping[str, str]) -> pl.DataFrame:
    """Return the result of `frame_of` for no rows of `schema`, which shows the types of its columns."""
    nothing = [_plain(pa.array([], schema.field(old).type)) for old in columns.values()]
    return pl.DataFrame(pa.RecordBatch.from_arrays(nothing, names=list(columns)))


def paned(frame: pl.DataFrame, assigned: PaneAssignment, pane: Sequence[str]) -> pl.DataFrame:
    """Return a result of `frame_of` with the columns of the pane, even if all rows share one pane."""
    if pane[0] in frame.columns:
        return frame
    # Stacking skips the query engine, which costs more than a small batch.
    return frame.hstack(
        [
            pl.Series(name, np.full(frame.height, values[0]))
            for name, values in zip(pane, assigned.panes, strict=True)
        ]
    )


def _plain(column: pa.Array) -> pa.Array:
    """Return the column as plain values: without dictionary, run-end encoding or extension type."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(column.storage)
    if pa.types.is_dictionary(kind):
        return column.dictionary_decode()
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_decode(column)
    return column


def batches_of(frame: pl.DataFrame, schema: pa.Schema, batch_rows: int) -> Iterator[Batch]:
    """Yield the frame as batches of `schema` with at most `batch_rows` rows, with columns reordered."""
    columns = [arrow_column(frame[name]) for name in schema.names]
    yield from pa.table(columns, schema.names).cast(schema).to_batches(max_chunksize=batch_rows)


def keyed_table(
    frame: pl.DataFrame, keys: Sequence[str], order: Sequence[str] | None, max_parallelism: int
) -> pa.Table:
    """Return keyed state as a snapshot stores it: with key groups, sorted by group, key and `order`. If
    `order` is None, sort by group alone."""
    arrays = [arrow_column(frame[key]) for key in keys]
    groups = (
        groups_of_columns(arrays, max_parallelism) if frame.height else np.zeros(0, dtype=np.uint16)
    )
    grouped = frame.select(pl.Series(KEY_GROUP, groups), pl.all())
    by = [KEY_GROUP] if order is None else [KEY_GROUP, *keys, *order]
    return arrow_table(grouped.sort(by))


def in_order(
    frame: pl.DataFrame, by: Sequence[str], falling: Sequence[bool] | None = None
) -> pl.DataFrame:
    """Return the frame sorted by columns, each descending if `falling`, nulls last. Numbers without
    nulls are sorted much faster than Polars sorts several columns of arbitrary types."""
    falling = [False] * len(by) if falling is None else falling
    keys: list[Any] = []
    for name, falls in zip(by, falling, strict=True):
        column = frame[name]
        whole = column.dtype.is_integer()
        if column.null_count() or not (whole or (column.dtype.is_float() and not has_nan(column))):
            return frame.sort(by, descending=falling, nulls_last=True)
        numbers = column.to_numpy()
        if len(numbers) and numbers.min() < numbers.max():
            keys.append((~numbers if whole else -numbers) if falls else numbers)
    return frame[_order(keys)] if keys else frame


def _order(keys: Sequence[Any]) -> Any:
    """Return the order of rows by several keys, none of which is constant. Rows that are equal in all
    keys keep their order."""
    sample = keys[0][:_SAMPLE]
    if len(np.unique(sample)) == len(sample):
        # If no values of the first key are equal, it alone decides.
        order = pl.Series(keys[0]).arg_sort().to_numpy()
        values = keys[0][order]
        if not (values[1:] == values[:-1]).any():
            return order
    return np.lexsort(keys[::-1])
