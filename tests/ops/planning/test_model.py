"""A plan has the fewest slots that reach the target, and what they need."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.errors import ConfigurationError
from rheos.ops.planning.fitting import fit
from rheos.ops.planning.load import load_at
from rheos.ops.planning.measurement import OperatorState, decode_measurement, encode_measurement
from rheos.ops.planning.model import PlanTarget, plan_for, plan_with, state_bytes
from tests.ops.planning.samples import CHAINS, grouping
from tests.ops.planning.test_fitting import PACED
from tests.ops.planning.test_latency import SAMPLE as VARIED

HOUR_MS = 3_600_000


@given(st.floats(1, 2e7))
def test_one_slot_less_would_not_reach_the_rate(rate: float) -> None:
    model = fit(grouping())
    plan = plan_for(model, PlanTarget(rate))
    if plan.feasible:
        assert plan.load.busy <= 0.7
        if plan.slots > 1:
            fewer = load_at(model, plan.slots - 1, rate, None)
            assert fewer.busy > 0.7


@given(st.floats(1, 1e7), st.floats(1, 1e7))
def test_a_higher_rate_never_needs_fewer_slots(one: float, other: float) -> None:
    model = fit(grouping())
    low, high = (plan_for(model, PlanTarget(rate)) for rate in sorted((one, other)))
    if high.feasible:
        assert low.feasible
        assert low.slots <= high.slots


def test_a_rate_beyond_one_key_is_not_feasible_and_says_why() -> None:
    plan = plan_for(fit(grouping(heaviest=0.5)), PlanTarget(5e6))
    assert not plan.feasible
    assert "count -> out (job.py:7)" in plan.limit
    assert "whose heaviest key has 50% of the rows" in plan.limit
    assert plan.max_rate < 5e6


def test_a_source_with_few_splits_is_named() -> None:
    chains = (msgspec.structs.replace(CHAINS[0], splits=1), CHAINS[1])
    plan = plan_for(fit(grouping(chains=chains)), PlanTarget(1.6e6))
    assert "numbers (job.py:5)" in plan.limit
    assert "which has only 1 splits" in plan.limit


def test_a_short_latency_shortens_the_buffer_timeout() -> None:
    model = fit(grouping())
    calm = plan_for(model, PlanTarget(1e5))
    quick = plan_for(model, PlanTarget(1e5, latency_ms=8.0))
    assert calm.load.timeout_us == 10_000
    assert quick.load.timeout_us == 5_000
    assert quick.latency.total_ms <= 8.0
    assert quick.slots >= calm.slots
    assert not plan_for(model, PlanTarget(1e5, latency_ms=0.1)).feasible


def test_state_with_a_lifetime_stops_growing_and_other_state_does_not() -> None:
    state = OperatorState("count", 1e6, growth_bytes_per_row=2.0)
    mortal = msgspec.structs.replace(state, lifetime_ms=HOUR_MS)
    for hours, endless, bounded in ((1, 7.3e6, 7.2e6), (10, 73e6, 7.2e6)):
        target = PlanTarget(1000.0, after_ms=hours * HOUR_MS)
        assert state_bytes(grouping(states=[state]), target) == pytest.approx(endless, rel=0.15)
        assert state_bytes(grouping(states=[mortal]), target) == pytest.approx(bounded)


def test_memory_or_disk_has_the_state_and_the_store_has_all_checkpoints() -> None:
    state = OperatorState("count", 8e9)
    in_memory = plan_with(fit(grouping(states=[state])), PlanTarget(1e5), 8)
    on_disk = plan_with(fit(grouping(states=[state], on_disk=True)), PlanTarget(1e5), 8)
    assert in_memory.memory_bytes_per_slot == pytest.approx(200e6 + 2 * 1e9, rel=0.05)
    assert in_memory.disk_bytes_per_slot == 0
    assert on_disk.memory_bytes_per_slot < 600e6
    # A checkpoint rewrites all state, in runs of 64 MB. Merging needs as much again.
    assert 2e9 <= on_disk.disk_bytes_per_slot <= 4e9
    assert in_memory.checkpoint_store_bytes == 3 * 8e9
    assert in_memory.checkpoint_bytes_per_s == pytest.approx(8e8)


def test_a_plan_beyond_the_sample_names_its_slots() -> None:
    far = plan_with(fit(grouping()), PlanTarget(1e5), 64)
    assert any("the plan has 64" in doubt for doubt in far.doubts)


def test_each_quantity_is_inside_its_interval() -> None:
    plan = plan_with(fit(grouping()), PlanTarget(1e5, after_ms=10_000), 2)
    for name, interval in vars(plan.intervals).items():
        if name not in ("busy", "processor_us", "latency_ms"):
            assert interval.contains(getattr(plan, name)), name
    assert plan.intervals.busy.contains(plan.load.busy)
    assert plan.intervals.latency_ms.contains(plan.latency.total_ms)


def test_memory_that_grows_while_a_slot_works_belongs_to_plans_with_busy_slots() -> None:
    measurement = msgspec.structs.replace(
        grouping(states=()), paced_phases=PACED, waiting_memory_bytes=150e6
    )
    calm, busy = (
        plan_with(fit(measurement), PlanTarget(rate), 2).memory_bytes_per_slot for rate in (1e4, 1e6)
    )
    assert calm == 150e6
    assert busy == pytest.approx(200e6, rel=0.05)


def test_a_plan_whose_latency_may_be_exceeded_reports_it() -> None:
    model = fit(VARIED)
    sure, unsure = (
        plan_with(model, PlanTarget(20_000.0, latency_ms=limit), 2) for limit in (1_000.0, 25.0)
    )
    assert sure.feasible
    assert unsure.feasible
    assert not any("may be exceeded" in doubt for doubt in sure.doubts)
    assert any("25 ms may be exceeded" in doubt for doubt in unsure.doubts)


def test_a_measurement_survives_its_file() -> None:
    measurement = grouping()
    assert decode_measurement(encode_measurement(measurement), "m.json") == measurement


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        encode_measurement(msgspec.structs.replace(grouping(), phases=())),
        encode_measurement(msgspec.structs.replace(grouping(), chains=CHAINS[:1])),
    ],
)
def test_another_file_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"m\.json is not a"):
        decode_measurement(data, "m.json")


def test_a_busy_machine_makes_a_plan_less_certain() -> None:
    calm, busy = (
        plan_with(
            fit(
                msgspec.structs.replace(
                    grouping(),
                    paced_phases=tuple(msgspec.structs.replace(each, core_wait=wait) for each in PACED),
                )
            ),
            PlanTarget(1000.0),
            2,
        )
        for wait in (0.0, 2.0)
    )
    assert busy.intervals.busy.high > 2 * calm.intervals.busy.high
    assert any("machine was busy" in doubt for doubt in busy.doubts)
    assert not any("machine was busy" in doubt for doubt in calm.doubts)
