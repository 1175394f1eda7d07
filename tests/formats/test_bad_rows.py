"""Bad rows among many are found with little more work than for good ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.protocol.elements import Batch
from rheos.formats.bad_rows import RowsError, sift

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])


class Counting:
    """Rows whose number is their value; the bad ones fail, the null ones are null."""

    def __init__(self, bad: set[int], nulls: frozenset[int] = frozenset()) -> None:
        self.bad, self.nulls = bad, nulls
        self.calls = self.rows = 0

    def __call__(self, i: int, j: int) -> Batch:
        self.calls += 1
        self.rows += j - i
        if self.bad.intersection(range(i, j)):
            raise RowsError("bad")
        values = [None if n in self.nulls else n for n in range(i, j)]
        return pa.RecordBatch.from_pydict({"n": pa.array(values, pa.int64())})


def test_one_bad_row_in_a_million_costs_the_rows_three_times_at_most() -> None:
    decode = Counting({777_777})
    rows, good, bad = sift(1 << 20, decode, SCHEMA)
    assert rows.num_rows == (1 << 20) - 1
    assert good is not None
    assert bad == [(777_777, "bad")]
    assert decode.rows < 3 << 20
    assert decode.calls <= 41


def test_each_suspected_bad_row_costs_one_call() -> None:
    wrong = set(range(0, 10_000, 100))
    decode = Counting(wrong)
    rows, _, bad = sift(10_000, decode, SCHEMA, suspects=lambda: np.array(sorted(wrong)))
    assert (rows.num_rows, len(bad)) == (9_900, 100)
    assert decode.rows == 20_000
    assert decode.calls == 201


@given(
    rows=st.integers(0, 40),
    bad=st.sets(st.integers(0, 39)),
    nulls=st.frozensets(st.integers(0, 39)),
    suspected=st.none() | st.sets(st.integers(0, 39)),
)
def test_good_rows_are_found_for_any_suspected_rows(
    rows: int, bad: set[int], nulls: frozenset[int], suspected: set[int] | None
) -> None:
    def suspects() -> npt.NDArray[np.int64]:
        assert suspected is not None
        return np.array(sorted(n for n in suspected if n < rows), np.int64)

    batch, good, found = sift(
        rows, Counting(bad, nulls), SCHEMA, suspects=None if suspected is None else suspects
    )
    fine = [n for n in range(rows) if n not in bad | nulls]
    assert batch.column(0).to_pylist() == fine
    assert (list(range(rows)) if good is None else good.tolist()) == fine
    assert [row for row, _ in found] == [n for n in range(rows) if n in bad | nulls]


@pytest.mark.parametrize("first", [0, 3, 7])
def test_the_first_bad_row_is_found_if_one_is_enough(first: int) -> None:
    _, _, bad = sift(8, Counting({first, 7}), SCHEMA, all_bad=False)
    assert bad[0] == (first, "bad")
