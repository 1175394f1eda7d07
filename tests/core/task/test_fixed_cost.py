"""The fixed cost of runs, from models of chains whose durations are random."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.task.fixed_cost import FixedCosts, RunCost, fixed_cost_us
from rheos.core.task.traffic import RunOutcome, SpentTime


def runs(fixed_us: float, row_us: float, most_rows: int, seed: int = 1) -> list[tuple[int, int]]:
    """Return rows and durations: up to a tenth longer or shorter, and one in a hundred with a pause."""
    random = Random(seed)
    made = []
    for _ in range(256):
        rows = random.randint(1, most_rows)
        took_us = (fixed_us + row_us * rows) * random.uniform(0.9, 1.1)
        made.append((rows, round(took_us + (5_000 if random.random() < 0.01 else 0))))
    return made


@given(st.floats(50, 500), st.floats(0.05, 2), st.integers(2, 64), st.integers(0, 1_000))
def test_the_fixed_cost_of_small_runs_is_most_of_their_cost(
    fixed_us: float, row_us: float, most_rows: int, seed: int
) -> None:
    found_us = fixed_cost_us(runs(fixed_us, row_us, most_rows, seed))
    assert 0.5 * fixed_us < found_us < 1.15 * (fixed_us + row_us)


@given(st.floats(500, 20_000), st.integers(2, 64), st.integers(0, 1_000))
def test_expensive_rows_are_no_fixed_cost(row_us: float, most_rows: int, seed: int) -> None:
    found_us = fixed_cost_us(runs(100, row_us, most_rows, seed))
    assert found_us < 100 + 0.25 * row_us * most_rows / 2


def test_runs_that_all_have_the_same_rows_tell_nothing() -> None:
    assert fixed_cost_us([(1, took_us) for took_us in range(100, 200)]) == 0.0


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 10**6)), max_size=600))
def test_the_fixed_cost_is_between_zero_and_the_duration(made: list[tuple[int, int]]) -> None:
    """Invariant FC1."""
    cost = RunCost()
    for rows, took_us in made:
        cost.ran(rows, took_us)
        assert 0 <= cost.take_us() <= took_us


class Chain:
    """The count of a chain that this module reads."""

    rows_taken = 0


LOOP_US = 20


def total_us(batches: list[tuple[int, int]], batch_rows: int) -> list[int]:
    """Return the total at each of ten reports, between which a chain has had these batches."""
    chain, spent, now_us = Chain(), SpentTime(), 0
    costs = FixedCosts([(chain, spent)])  # type: ignore[list-item]
    totals = []
    for _ in range(10):
        for rows, took_us in batches:
            chain.rows_taken += rows
            spent.turn(RunOutcome.SETTLED, now_us, now_us + took_us)
            now_us += took_us
            costs.turned(took_us + LOOP_US)
        totals.append(costs.total_us(batch_rows))
    return totals


def test_the_total_grows_with_small_runs() -> None:
    batches = runs(200, 1, 16)
    busy_us = sum(took_us + LOOP_US for _, took_us in batches)
    totals = total_us(batches, 16_384)
    assert totals == sorted(totals)
    assert 0.6 * busy_us < totals[-1] - totals[-2] < busy_us


@pytest.mark.parametrize("batch_rows", [16, 20])
def test_large_batches_have_no_fixed_cost(batch_rows: int) -> None:
    """Invariant FC2."""
    assert set(total_us([(rows, 200 + rows) for rows in (10, 16)] * 200, batch_rows)) == {0}
