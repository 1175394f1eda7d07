"""The cost of slots that wait for rows is what they use in addition to the costs of chains."""

from __future__ import annotations

import msgspec
import pytest

from rheos.ops.planning.cost_model import NO_PAUSES, WakingCost
from rheos.ops.planning.fitting import fit
from rheos.ops.planning.load import load_at
from rheos.ops.planning.measurement import Phase
from tests.ops.planning.samples import grouping, phase

TIMEOUT_US = 10_000
WAKING = WakingCost(poll_us=800.0, batch_us=60.0, slot_us=20_000.0)
SECONDS = 2.0


def paced(slots: int, rate: float) -> Phase:
    """A phase in which each slot polls 100 times per second, or as often as rows are due."""
    model = fit(grouping())
    rows = rate * SECONDS
    steady = load_at(model, slots, rate, TIMEOUT_US)
    polls = min(rate, slots * 100.0)
    batches = rate / max(1.0, rate / slots**2 / 100)
    idle = 1 - steady.total_us / slots / 1e6
    waking = WAKING.poll_us * polls + WAKING.batch_us * batches + WAKING.slot_us * slots
    cpu_us = (steady.total_us + waking * idle) * SECONDS
    return msgspec.structs.replace(phase(slots, 16_384, rows), seconds=SECONDS, cpu_us=cpu_us)


PACED = (paced(4, 20_000.0), paced(2, 20_000.0), paced(4, 40.0))
MODEL = fit(msgspec.structs.replace(grouping(), paced_phases=PACED))


def test_costs_of_polls_batches_and_slots_are_told_apart() -> None:
    assert MODEL.waking.poll_us == pytest.approx(WAKING.poll_us)
    assert MODEL.waking.batch_us == pytest.approx(WAKING.batch_us)
    assert MODEL.waking.slot_us == pytest.approx(WAKING.slot_us)


def test_a_low_rate_costs_what_the_slow_phases_used() -> None:
    load = load_at(MODEL, 4, 20_000.0, TIMEOUT_US)
    assert load.total_us == pytest.approx(PACED[0].cpu_us / SECONDS)
    assert load.waking_us * 4 > 0.4 * load.total_us
    assert load.busy < 1


def test_a_slot_that_is_always_busy_has_no_pauses() -> None:
    assert load_at(MODEL, 4, 20_000.0, None).waking == NO_PAUSES
    busy = [load_at(MODEL, 4, rate, TIMEOUT_US) for rate in (1e5, 1e6, 1e7)]
    assert busy[0].waking_us > busy[1].waking_us > busy[2].waking_us == 0


def test_without_slow_phases_pauses_cost_nothing() -> None:
    assert fit(grouping()).waking == WakingCost()
