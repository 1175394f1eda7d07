"""Exact sums: equal to the last bit in any order and grouping."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rheos.core.aggregates import exact_sum
from rheos.core.aggregates.exact_sum import Limbs

finite = st.floats(allow_nan=False, allow_infinity=False)


def total(values: list[float]) -> Limbs:
    """One sum over all values."""
    limbs = exact_sum.decompose(np.array(values, dtype=np.float64))
    return {bin: limb.sum(keepdims=True) for bin, limb in limbs.items()}


def added(*sums: Limbs) -> Limbs:
    bins = {bin for limbs in sums for bin in limbs}
    nothing = np.zeros(1, dtype=np.int64)
    return {bin: sum((limbs.get(bin, nothing) for limbs in sums), nothing) for bin in bins}


def rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def evaluated(limbs: Limbs) -> float:
    return float(exact_sum.evaluate(limbs, 1)[0])


@given(st.lists(finite, max_size=30))
@example([1e308, 1e308, -1e308])
@example([1.7976931348623157e308, 9.979201547673598e291])
@example([1.7976931348623157e308, 9.979201547673599e291])
@example([5e-324, -1e308, 1e308])
@example([2.0**53, 1.0, 2.0**-1074])
@example([2.0**53, 1.0, -(2.0**-1074)])
@example([-(2.0**32), 2.0**-32, -1.0])
@example([1.0, -(2.0**-54)])
def test_a_sum_is_the_exact_one_rounded_once(values: list[float]) -> None:
    expected = rounded(sum((Fraction(value) for value in values), Fraction(0)))
    assert evaluated(total(values)) == expected


limb = st.integers(-(2**54), 2**54) | st.integers(-3, 3) | st.sampled_from([2**52, 2**53 - 1, 2**20])


@given(st.lists(st.dictionaries(st.integers(-3, 2), limb, min_size=1), min_size=1, max_size=5))
@example([{1: 2**21, -1: 1 << 31}, {1: 2**21, -1: 1 << 31, -3: 1}, {1: 2**21, -1: 1 << 31, -3: -1}])
def test_sums_of_any_limbs_are_rounded_once(sums: list[dict[int, int]]) -> None:
    bins = {bin for limbs in sums for bin in limbs}
    limbs = {bin: np.array([of.get(bin, 0) for of in sums]) for bin in bins}
    exact = [
        sum((Fraction(limb) * Fraction(2) ** (32 * bin) for bin, limb in of.items()), Fraction(0))
        for of in sums
    ]
    assert exact_sum.evaluate(limbs, len(sums)).tolist() == list(map(rounded, exact))


@given(st.lists(finite, min_size=1, max_size=30), st.data())
def test_order_grouping_and_carries_change_nothing(values: list[float], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(values))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    parts = [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(values)], strict=True)]
    carried = [
        exact_sum.carry(total(part)) if data.draw(st.booleans()) else total(part) for part in parts
    ]
    assert evaluated(added(*carried)) == evaluated(total(values))


@given(st.lists(st.lists(finite, max_size=5), min_size=2, max_size=6))
def test_many_sums_are_evaluated_at_once(groups: list[list[float]]) -> None:
    sums = [total(values) for values in groups]
    nothing = np.zeros(1, dtype=np.int64)
    bins = {bin for limbs in sums for bin in limbs}
    together = {bin: np.concatenate([limbs.get(bin, nothing) for limbs in sums]) for bin in bins}
    expected = [evaluated(limbs) for limbs in sums]
    assert exact_sum.evaluate(together, len(groups)).tolist() == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_integers_of_64_bits_are_summed_beyond_int64(values: list[int]) -> None:
    limbs = exact_sum.decompose_integers(np.array(values, dtype=np.int64))
    assert evaluated({bin: limb.sum(keepdims=True) for bin, limb in limbs.items()}) == float(
        sum(values)
    )


def test_unsigned_integers_keep_their_high_bit() -> None:
    limbs = exact_sum.decompose_integers(np.array([2**64 - 1], dtype=np.uint64))
    assert evaluated(limbs) == float(2**64 - 1)


@given(st.dictionaries(st.integers(-34, 31), st.integers(-(2**62), 2**62), max_size=6))
def test_a_carry_keeps_the_sum_and_bounds_the_limbs(limbs: dict[int, int]) -> None:
    carried = exact_sum.carry({bin: np.array([limb]) for bin, limb in limbs.items()})
    value = sum((limb * Fraction(2) ** (32 * bin) for bin, limb in limbs.items()), Fraction(0))
    after = sum(
        (int(limb[0]) * Fraction(2) ** (32 * bin) for bin, limb in carried.items()), Fraction(0)
    )
    assert after == value
    assert all(abs(int(limb[0])) <= 2**31 for limb in carried.values())


def test_a_billion_carried_sums_fit() -> None:
    many = {bin: limb * 2**30 for bin, limb in exact_sum.carry(total([0.1])).items()}
    assert evaluated(many) == float(Fraction(0.1) * 2**30)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, math.inf], math.inf),
        ([math.inf, math.inf], math.inf),
        ([-math.inf, 1e308], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([math.nan, math.inf], math.nan),
    ],
)
def test_infinities_and_nan_follow_ieee(values: list[float], expected: float) -> None:
    for order in (values, values[::-1]):
        assert evaluated(total(order)) == expected or math.isnan(expected)
        assert math.isnan(evaluated(total(order))) == math.isnan(expected)


def test_whole_numbers_need_one_limb() -> None:
    assert list(exact_sum.decompose(np.array([1.0, -3.0, 2.0**31]))) == [0]
    assert exact_sum.decompose(np.array([0.0, -0.0])) == {}
    assert exact_sum.decompose(np.array([])) == {}


def test_no_sum_is_a_negative_zero() -> None:
    assert math.copysign(1.0, evaluated(total([-1.5, 1.5]))) == 1.0
    assert math.copysign(1.0, evaluated(total([-0.0]))) == 1.0
