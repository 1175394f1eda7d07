"""Buffered rows with the same time are emitted in order of arrival, whatever the batches."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.operators.buffered_rows import BufferedRows
from rheos.core.operators.sorting import sort_by_time
from rheos.core.protocol.elements import TS

SCHEMA = pa.schema([("key", pa.int64()), ("n", pa.int64()), (TS, pa.int64())])


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 2)), min_size=65, max_size=200))
def test_rows_of_one_time_keep_their_order(batches: list[tuple[int, int]]) -> None:
    held = BufferedRows(SCHEMA, ("key",), range(128), 128)
    expected, n = [], 0
    for size, at in batches:
        rows = [{"key": 1, "n": n + i, TS: at} for i in range(size)]
        expected += [(at, row["n"]) for row in rows]
        n += size
        held.add(pa.RecordBatch.from_pylist(rows, SCHEMA))
    due = held.take(2)
    assert due is not None
    found = sort_by_time(due, TS)
    assert list(zip(found[TS].to_pylist(), found["n"].to_pylist(), strict=True)) == sorted(expected)
