"""Sums and extremes per key, compared with a loop over the rows: equal to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.aggregates.segments import Segments

SLOTS = st.lists(st.integers(0, 6), min_size=1, max_size=60)
FLOATS = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-5, 5).map(float)


def scalar_sums(slots: list[int], values: list[float], carry: dict[int, float]) -> list[float]:
    sums = dict(carry)
    result = []
    with np.errstate(all="ignore"):
        for slot, value in zip(slots, values, strict=True):
            sums[slot] = sums.get(slot, 0.0) + value
            result.append(sums[slot])
    return result


@given(SLOTS, st.data())
def test_float_sums_are_those_of_a_loop(slots: list[int], data: st.DataObject) -> None:
    values = data.draw(st.lists(FLOATS, min_size=len(slots), max_size=len(slots)))
    carry = {slot: data.draw(st.sampled_from([0.0, 0.1, 7.0, 2.0**53])) for slot in set(slots)}
    rows = Segments(np.array(slots, np.int32), 7)
    base = np.array([carry[slot] for slot in rows.slots.tolist()])
    sums = rows.scatter(rows.float_sums(rows.gather(np.array(values)), base))
    np.testing.assert_array_equal(sums, scalar_sums(slots, values, carry))


@pytest.mark.parametrize("keys", [1, 3, 40, 700, 100_000])
@pytest.mark.parametrize("zipf", [False, True])
def test_any_number_of_keys_agrees_with_a_loop(keys: int, zipf: bool) -> None:
    rng = np.random.default_rng(keys)
    slots = np.minimum(rng.zipf(1.3, 5000), keys) - 1 if zipf else rng.integers(0, keys, 5000)
    values = rng.normal(size=5000) * 10.0 ** rng.integers(-12, 12, 5000)
    rows = Segments(slots.astype(np.int32), keys)
    zeros = np.zeros(len(rows.slots))
    sums = rows.scatter(rows.float_sums(rows.gather(values), zeros))
    assert sums.tolist() == scalar_sums(slots.tolist(), values.tolist(), {})


def test_values_of_other_keys_have_no_influence() -> None:
    rows = Segments(np.array([0, 1, 0, 1], np.int32), 2)
    sums = rows.float_sums(rows.gather(np.array([1e300, 0.1, np.inf, 0.2])), np.zeros(2))
    assert rows.scatter(sums).tolist() == [1e300, 0.1, np.inf, 0.1 + 0.2]


@given(SLOTS)
def test_rows_keep_their_order_within_a_segment(slots: list[int]) -> None:
    for size in (7, 2**31 - 1):
        rows = Segments(np.array(slots, np.int32), size)
        expected = sorted(range(len(slots)), key=lambda row: (slots[row], row))
        assert rows.order.tolist() == expected
        assert rows.slots.tolist() == sorted(set(slots))
        assert rows.spread(rows.slots).tolist() == sorted(slots)
        assert rows.scatter(rows.gather(np.array(slots))).tolist() == slots


@given(SLOTS)
def test_counts_continue_from_their_carry(slots: list[int]) -> None:
    rows = Segments(np.array(slots, np.int32), 7)
    counts = rows.scatter(rows.counts(rows.slots * 10))
    assert counts.tolist() == [slot * 10 + slots[: i + 1].count(slot) for i, slot in enumerate(slots)]
