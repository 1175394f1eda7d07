"""Loads, highest rates and latencies follow from costs, key skew and splits."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.ops.planning.cost_model import CostModel
from rheos.ops.planning.fitting import fit
from rheos.ops.planning.load import hot_share, load_at, max_rate
from tests.ops.planning.samples import CHAINS, SOURCE_US, grouping, phase

TIMEOUT_US = 10_000
slots = st.integers(1, 128)
rates = st.floats(1, 1e7)


@given(slots, rates, rates)
def test_a_higher_rate_never_makes_a_slot_less_busy(count: int, one: float, other: float) -> None:
    model = fit(grouping())
    low, high = sorted((one, other))
    busy = [load_at(model, count, rate, TIMEOUT_US).busy for rate in (low, high)]
    assert busy[0] <= busy[1] * (1 + 1e-9)


@given(slots)
def test_at_the_highest_rate_the_hottest_slot_is_fully_busy(count: int) -> None:
    model = fit(grouping())
    rate = max_rate(model, count)
    assert load_at(model, count, rate, None).busy == pytest.approx(1.0, rel=1e-6)
    assert load_at(model, count, rate * 1.01, None).busy > 1.0


@given(rates, st.integers(1, 64))
def test_longer_waiting_never_costs_more(rate: float, count: int) -> None:
    model = fit(grouping())
    long, short = (load_at(model, count, rate, us).total_us for us in (TIMEOUT_US, 1_000))
    assert long <= short * (1 + 1e-9)


def test_twice_the_slots_carry_nearly_twice_the_rows() -> None:
    model = fit(grouping())
    assert max_rate(model, 8) == pytest.approx(2 * max_rate(model, 4), rel=0.2)


def test_the_heaviest_key_limits_the_rate() -> None:
    even, skewed = (fit(grouping(heaviest=share)) for share in (0.0, 0.5))
    assert max_rate(skewed, 64) < max_rate(even, 64) / 5
    assert hot_share(skewed, CHAINS[1], 64) == pytest.approx(0.5 + 0.5 / 64)
    assert hot_share(skewed, CHAINS[0], 64) == 1 / 64


def test_splits_and_narrow_chains_limit_the_slots_that_have_rows() -> None:
    model = fit(grouping())
    assert hot_share(model, msgspec.structs.replace(CHAINS[0], splits=4), 8) == 1 / 4
    assert hot_share(model, msgspec.structs.replace(CHAINS[0], splits=4), 3) == 2 / 4
    assert hot_share(model, msgspec.structs.replace(CHAINS[0], widest=1), 8) == 1.0


def test_network_carries_the_rows_for_other_slots() -> None:
    model = fit(grouping())
    assert load_at(model, 1, 1000.0, None).network_bytes_per_s == 0
    assert load_at(model, 4, 1000.0, None).network_bytes_per_s == pytest.approx(1000 * 24 * 3 / 4)


def compiled_source(more_us: float) -> CostModel:
    """Return a model whose source has functions that cost `more_us` more per row by Python."""
    chains = (msgspec.structs.replace(CHAINS[0], compiled=True), CHAINS[1])
    by_python = msgspec.structs.replace(
        phase(2, 16_384),
        interpreted=True,
        chains=tuple(
            msgspec.structs.replace(load, cpu_us=load.cpu_us + (load.chain == 0) * load.rows * more_us)
            for load in phase(2, 16_384).chains
        ),
    )
    return fit(grouping([*grouping().phases, by_python], chains=chains))


def test_functions_whose_compiled_form_is_slower_are_interpreted() -> None:
    model = compiled_source(-0.3)
    assert not load_at(model, 2, 60_000.0, TIMEOUT_US).compiled
    assert load_at(compiled_source(-0.03), 2, 60_000.0, TIMEOUT_US).compiled


def test_functions_are_compiled_only_for_large_batches() -> None:
    model = compiled_source(2.0)
    assert model.chains[0].row_us == pytest.approx(SOURCE_US, rel=0.01)
    assert model.chains[0].interpreted_us == pytest.approx(SOURCE_US + 2.0, rel=0.01)
    small, large = (load_at(model, 2, rate, TIMEOUT_US) for rate in (50_000.0, 60_000.0))
    assert (small.compiled, large.compiled) == (False, True)
    plain = fit(grouping())
    more = [
        (each.total_us - load_at(plain, 2, each.rate, TIMEOUT_US).total_us) / each.rate
        for each in (small, large)
    ]
    assert more == [pytest.approx(2.0, rel=0.01), pytest.approx(0.0, abs=0.01)]
