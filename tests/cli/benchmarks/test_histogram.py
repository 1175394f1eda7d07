"""Quantiles of the histogram compared with those of the sorted values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.cli.benchmarks.recorder import RELATIVE_ERROR, Histogram

latencies = st.lists(st.integers(min_value=1, max_value=2**62), min_size=1, max_size=200)


def histogram(values: list[int]) -> Histogram:
    made = Histogram()
    made.record(np.array(values, np.int64))
    return made


@given(latencies, st.floats(min_value=0.001, max_value=1.0))
def test_a_quantile_is_close_to_the_value_of_its_rank(values: list[int], share: float) -> None:
    exact = sorted(values)[max(math.ceil(share * len(values)), 1) - 1]
    found = histogram(values).quantile(share)
    assert found == pytest.approx(exact, rel=RELATIVE_ERROR * 1.02)


@given(latencies, latencies)
def test_adding_the_sparse_form_counts_as_recording(left: list[int], right: list[int]) -> None:
    added = histogram(left)
    added.add(*histogram(right).sparse())
    assert added.sparse() == histogram(left + right).sparse()
    assert added.count == len(left) + len(right)


def test_values_below_one_count_as_one() -> None:
    assert histogram([-5, 0, 1]).sparse() == ([0], [3])


def test_the_largest_value_has_a_bucket() -> None:
    assert histogram([2**63 - 1]).count == 1


def test_an_empty_histogram_has_no_quantile() -> None:
    empty = Histogram()
    empty.record(np.array([], np.int64))
    assert empty.quantile(0.5) is None
    assert empty.sparse() == ([], [])


def test_a_cleared_histogram_counts_from_zero() -> None:
    used = histogram([1, 10, 100])
    used.clear()
    assert used.count == 0
