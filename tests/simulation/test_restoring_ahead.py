"""Random worlds in which slots restore each checkpoint ahead, next to the running attempt (UP12).

Workers, prepared slots, both and the driver die at any moment, and results stay correct."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest

from rheos.core.checkpoint.savepoint import Restore
from rheos.core.protocol.ids import CheckpointId
from rheos.core.task.prepared_slot import PreparedSlot, TakenState
from rheos.runtimes.simulated.faults import Faults, Requests
from rheos.runtimes.simulated.invariants import InvariantError
from rheos.runtimes.simulated.launcher import SimLauncher
from tests.core.task.test_prepared_slot import FUNCTIONS, MANY_KEYS
from tests.worlds import programs
from tests.worlds.programs import CheckedProgram
from tests.worlds.worlds import RandomWorld, draw_world

FAULTS = Faults(
    crash_slot=4.0,
    crash_driver=0.3,
    die_in_slot_io=0.003,
    read_error=0.02,
    store_error=0.01,
    zombie=0.5,
    until_us=1_500_000,
)
"""Prepared slots die as often as those of the attempt, and both within their reads, too."""


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[TakenState]:
    """Return the states that attempts take from prepared slots, as they do."""
    states: list[TakenState] = []
    take = PreparedSlot.take

    def noted(self: PreparedSlot, restore: Any) -> TakenState:
        states.append(take(self, restore))
        return states[-1]

    monkeypatch.setattr(PreparedSlot, "take", noted)
    return states


def world(program: CheckedProgram, seed: int, **requests: float) -> RandomWorld:
    drawn = draw_world(seed).of(program)
    rng = Random(f"{seed}/ahead")
    return replace(
        drawn,
        inputs=tuple(replace(of, rows=400 // len(drawn.inputs)) for of in drawn.inputs),
        parallelisms=(rng.randrange(1, 4),),
        checkpoint=replace(
            drawn.checkpoint, interval_ms=rng.choice([10, 20]), restore_ahead=True, timeout_ms=1_500
        ),
        faults=FAULTS,
        requests=Requests(**requests),
        forks=False,
    )


@pytest.mark.parametrize(
    ("program", "seed"),
    [
        (MANY_KEYS, 1),
        (FUNCTIONS, 2),
        pytest.param(MANY_KEYS, 3, marks=pytest.mark.slow),
        pytest.param(programs.REDUCED, 2, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_restarts_on_prepared_slots_change_no_result(
    program: CheckedProgram, seed: int, taken: list[TakenState]
) -> None:
    world(program, seed).run_and_check()
    assert any(state.applied for state in taken), "no attempt took any state"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4, 5])
def test_rescaling_a_job_with_prepared_slots_changes_no_result(seed: int) -> None:
    world(FUNCTIONS, seed, rescale=6.0, savepoint=1.0).run_and_check()


@pytest.mark.slow
def test_prepared_slots_that_take_too_much_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    take = PreparedSlot.take

    def broken(self: PreparedSlot, restore: Any) -> TakenState:
        found = take(self, restore)
        return replace(found, applied={key: count + 1 for key, count in found.applied.items()})

    monkeypatch.setattr(PreparedSlot, "take", broken)
    with pytest.raises(AssertionError):
        _run_often()


def test_prepared_slots_ahead_of_the_log_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = SimLauncher.prepare_state

    def broken(self: SimLauncher, restore: Restore, parallelism: int) -> None:
        later = CheckpointId(restore.entry.checkpoint + 1_000)
        entry = msgspec.structs.replace(restore.entry, checkpoint=later)
        prepare(self, Restore(entry=entry), parallelism)

    monkeypatch.setattr(SimLauncher, "prepare_state", broken)
    with pytest.raises(InvariantError, match="UP12"):
        _run_often()


def _run_often() -> None:
    for seed in range(20):
        world(MANY_KEYS, seed).run_and_check()
