"""A total order of rows, for results that must not depend on arrival."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.protocol.elements import Batch, strip_hidden


def sort_rows(batch: Batch, by: str) -> Batch:
    """The rows sorted by the column `by`, and those that tie by all their visible columns, in order.

    Nulls come last. Columns of nested types are compared by their encoding.
    """
    keys = [by, *(name for name in strip_hidden(batch).schema.names if name != by)]
    first = batch.column(by)
    if batch.num_rows < 2 or pc.count_distinct(first).as_py() == batch.num_rows:
        return batch.take(pc.array_sort_indices(first))
    columns = [_sortable(batch.column(name)) for name in keys]
    names = [str(i) for i in range(len(columns))]
    order = pc.sort_indices(
        pa.RecordBatch.from_arrays(columns, names=names),
        sort_keys=[(name, "ascending") for name in names],
    )
    return batch.take(order)


def _sortable(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8())
    if pa.types.is_nested(column.type):
        encoded = np.array([msgspec.msgpack.encode(value) for value in column.to_pylist()], object)
        return pa.array(encoded, pa.binary())
    return column
