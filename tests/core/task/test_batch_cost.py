"""The costs of batches and rows, for chains with known costs."""

from __future__ import annotations

from itertools import accumulate
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.task.batch_cost import BatchCosts, IntakeCounts


class Chain:
    """Chain with a fixed cost of a batch and a cost of each row."""

    def __init__(self, fixed_us: int, row_us: int) -> None:
        self.fixed_us, self.row_us = fixed_us, row_us
        self.costs = BatchCosts()
        self.counts = IntakeCounts(0, 0, 0)

    def run(self, rows: int, intervals: int = 1, small_rows: int = 0) -> bool:
        measured = False
        for _ in range(intervals):
            more = IntakeCounts(3 * rows, 3, 3 * (self.fixed_us + rows * self.row_us))
            self.counts = IntakeCounts(*map(sum, zip(self.counts, more, strict=True)))
            measured = self.costs.measure(self.counts, 1.0, small_rows)
        return measured


@given(st.integers(0, 10**6), st.integers(0, 10**4))
def test_two_sizes_separate_the_costs(fixed_us: int, row_us: int) -> None:
    chain = Chain(fixed_us, row_us)
    chain.run(512)
    assert chain.costs.fixed_us == 0
    assert chain.costs.row_us == pytest.approx(fixed_us / 512 + row_us)
    chain.run(1_024)
    assert chain.costs.is_separated
    time_us = chain.costs.fixed_us + chain.costs.row_us * chain.costs.present_rows
    assert time_us == pytest.approx(fixed_us + 1_024 * row_us), "BC2"
    assert chain.costs.fixed_us == pytest.approx(fixed_us, abs=0.01)
    assert chain.costs.row_us == pytest.approx(row_us, abs=0.01)


def test_small_batches_separate_the_costs_of_larger_ones() -> None:
    chain = Chain(500, 2)
    assert chain.run(1_024, small_rows=64)
    assert not chain.run(8, small_rows=64)
    assert chain.costs.present_rows == 1_024
    assert (chain.costs.fixed_us, chain.costs.row_us) == pytest.approx((500, 2))


def test_other_sizes_are_forgotten_when_rows_cost_more() -> None:
    chain = Chain(500, 2)
    chain.run(512)
    chain.run(1_024, 20)
    chain.row_us = 3
    chain.run(1_024, 19)
    assert chain.costs.is_separated
    chain.run(1_024)
    assert not chain.costs.is_separated


def test_a_try_that_brings_no_other_size_is_not_repeated() -> None:
    chain = Chain(500, 2)
    chain.run(1_024)
    assert not chain.costs.begin_try(), "one interval is too short"
    chain.run(1_024, 30)
    assert [chain.costs.begin_try() for _ in range(3)] == [True, False, False]
    chain.row_us = 3
    chain.run(1_024, 20)
    assert chain.costs.begin_try()


COUNTS = st.tuples(st.integers(0, 10**6), st.integers(0, 10**4), st.integers(0, 10**7))


@given(st.lists(COUNTS), st.floats(0, 1), st.integers(0, 1_000))
def test_only_another_size_separates_a_fixed_cost(
    steps: list[tuple[int, int, int]], share: float, small_rows: int
) -> None:
    costs = BatchCosts()
    sizes = {round(log2(rows / max(batches, 1))) for rows, batches, _ in steps if rows}
    for taken in accumulate(steps, lambda a, b: tuple(map(sum, zip(a, b, strict=True)))):
        costs.measure(IntakeCounts(*taken), share, small_rows)
        assert costs.fixed_us >= 0, "BC1"
        assert costs.row_us >= 0, "BC1"
        if len(sizes) == 1:
            assert costs.fixed_us == pytest.approx(0, abs=1e-6)
            assert not costs.is_separated
