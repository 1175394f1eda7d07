"""The size of a batch, computed without calls of Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.protocol.wire import BatchDecoder, encode_batch
from rheos.core.task.traffic import BatchSizes

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("t", pa.string()),
        ("b", pa.large_binary()),
        ("s", pa.int16()),
        ("at", pa.timestamp("us")),
    ]
)
ROWS = st.lists(st.tuples(st.text(max_size=9), st.binary(max_size=9)), max_size=20)


def batch_of(rows: list[tuple[str, bytes]]) -> pa.RecordBatch:
    numbers = range(len(rows))
    return pa.record_batch(
        [
            pa.array(numbers, pa.int64()),
            pa.array([text for text, _ in rows], pa.string()),
            pa.array([data for _, data in rows], pa.large_binary()),
            pa.array(numbers, pa.int16()),
            pa.array(numbers, pa.timestamp("us")),
        ],
        schema=SCHEMA,
    )


@given(ROWS, st.integers(0, 20), st.integers(0, 20))
def test_the_size_of_a_batch_counts_values_and_offsets(
    rows: list[tuple[str, bytes]], first: int, count: int
) -> None:
    batch, sizes = batch_of(rows).slice(min(first, len(rows)), count), BatchSizes()
    shown = rows[first : first + count]
    texts = sum(len(text.encode()) + len(data) for text, data in shown)
    expected = len(shown) * (8 + 4 + 8 + 2 + 8) + texts
    assert sizes.of(batch) == expected
    assert sizes.of(BatchDecoder(SCHEMA).decode(encode_batch(batch))) == expected
    assert sizes.of(pa.concat_batches([batch, batch])) == 2 * expected
    if shown:
        whole = batch_of(rows)
        assert abs(sizes.of(whole) - whole.nbytes) <= 4 + 8, "Arrow may count one offset more"


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.bool_(), pa.string_view(), pa.null()])
def test_the_size_of_other_columns_is_arrows(kind: pa.DataType) -> None:
    batch = pa.record_batch([pa.nulls(10, kind), pa.array(range(10))], names=["a", "b"])
    assert BatchSizes().of(batch) == batch.nbytes
