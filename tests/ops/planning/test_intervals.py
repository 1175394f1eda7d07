"""Intervals of a few measured values contain nine of ten further ones."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest

from rheos.ops.planning.intervals import ExpectedRange, around, log_interval, spread, sum_of


@pytest.mark.parametrize("count", [2, 3, 5, 20])
def test_nine_of_ten_further_values_are_inside(count: int) -> None:
    rng = np.random.default_rng(count)
    inside = 0
    for _ in range(2_000):
        values = [exp(each) for each in rng.normal(3.0, 0.4, count)]
        middle = exp(sum(np.log(values)) / count)
        inside += log_interval(middle, values).contains(exp(rng.normal(3.0, 0.4)))
    assert 0.87 < inside / 2_000 < 0.93


def test_a_single_value_shows_nothing_about_others() -> None:
    assert spread([5.0]) == float("inf")
    assert log_interval(5.0, [5.0]) == ExpectedRange(0.0, float("inf"))
    assert around(5.0, float("inf")) == ExpectedRange(0.0, float("inf"))


def test_values_without_any_difference_have_a_narrow_interval() -> None:
    assert log_interval(5.0, [5.0] * 4) == ExpectedRange(5.0, 5.0)


def test_intervals_of_a_sum_have_the_sums_of_their_ends() -> None:
    assert sum_of([ExpectedRange(1, 2), ExpectedRange(10, 30)]).times(2, 3) == ExpectedRange(22, 96)
