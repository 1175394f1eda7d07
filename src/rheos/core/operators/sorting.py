"""A total order of rows, for results that must not depend on arrival."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.protocol.columns import columns_to_python
from rheos.core.protocol.elements import Batch, strip_hidden


def sort_rows(batch: Batch, by: str, then: str | None = None) -> Batch:
    """Return the rows sorted by the int64 column `by`. Rows that tie are sorted by the column `then`,
    if the batch has it, and by all their visible columns.

    Nulls come last, -0.0 before 0.0, and NaN after all numbers. Columns of nested types are compared by
    their encoding. Rows that still tie have the same visible columns.
    """
    first = batch.column(by).to_numpy()
    order = np.argsort(first, kind="stable")
    in_order = first[order]
    same = in_order[:-1] == in_order[1:]
    if same.any():
        # Only rows that tie are compared in full. Sorted, they fill the same places.
        tied = np.concatenate([[False], same]) | np.concatenate([same, [False]])
        rows = order[tied]
        order[tied] = rows[_full_order(batch.take(pa.array(rows)), by, then)]
    return batch.take(pa.array(order))


def sort_by_time(batch: Batch, by: str) -> Batch:
    """Return the rows sorted by the int64 column `by`; rows that tie keep their order."""
    stamps = batch.column(by).to_numpy()
    if bool(np.all(stamps[:-1] <= stamps[1:])):
        return batch
    return batch.take(pa.array(np.argsort(stamps, kind="stable")))


def _full_order(batch: Batch, by: str, then: str | None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    shown = strip_hidden(batch)
    first = [shown.column(then)] if then in shown.schema.names else []
    columns = [batch.column(by), *(_sortable(column) for column in [*first, *shown.columns])]
    names = [str(i) for i in range(len(columns))]
    order: np.ndarray[tuple[int], np.dtype[np.int64]] = pc.sort_indices(
        pa.RecordBatch.from_arrays(columns, names=names),
        sort_keys=[(name, "ascending") for name in names],
    ).to_numpy()
    return order


def _sortable(column: pa.Array) -> pa.Array:
    """Return a column with the same order, in a type for which Arrow's sort is total."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _sortable(column.storage)
    if pa.types.is_dictionary(kind):
        return _sortable(column.dictionary_decode())
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return column.cast(pa.int8())
    if pa.types.is_duration(kind):
        return column.view(pa.int64())
    if pa.types.is_floating(kind):
        bits = column.cast(pa.float64()).view(pa.int64()).fill_null(0).to_numpy()
        # The bits of negative numbers are in descending order.
        bits = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
        return pa.array(bits, mask=column.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_nested(kind):
        values = columns_to_python(column)
        encode = msgspec.msgpack.Encoder().encode
        return pa.array([None if value is None else encode(value) for value in values], pa.binary())
    return column
