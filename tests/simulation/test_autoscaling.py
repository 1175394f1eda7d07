"""A job whose parallelism follows its load, in a simulated world. The master, its checkpoints and
its log are the real ones; the test specifies how busy the slots report to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import pytest

import rheos as rh
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import AttemptStarted
from rheos.core.protocol import control
from rheos.core.protocol.ids import JobId
from rheos.core.task.config import TaskConfig
from rheos.runtimes.driver.scaling import NARROW_AFTER_MS, SETTLE_MS, WIDEN_AFTER_MS
from rheos.runtimes.job import JobConfig, JobState, ScalingBounds
from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.launcher import SimLauncher
from rheos.runtimes.simulated.world import World
from rheos.testing.memory import MemorySink, MemoryTable

ROWS = 600
RATE = 2
"""Rows per second: five minutes."""
SPLITS = 4
COUNTS = sorted((k, n + 1) for k in range(7) for n in range(SPLITS * len(range(k, ROWS // SPLITS, 7))))
"""What is counted of each key: every split counts its own rows from 0."""
STEP_S = (SETTLE_MS + WIDEN_AFTER_MS) / 1000


@dataclass
class Loaded:
    """World with `work` for this many slots at each second; the job does as much of it as it has
    slots."""

    work: Callable[[float], float]
    table: MemoryTable = field(default_factory=MemoryTable)
    spent: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """Of each attempt and subtask: how long it has worked, and until when."""
    widths: list[tuple[float, int]] = field(default_factory=list)

    def world(self, bounds: ScalingBounds, slots: int, faults: Faults | None = None) -> World:
        env = rh.Environment(bounds.least, runtime="simulated")
        numbers = rh.generator(
            lambda b: {"k": b.index() % 7}, count=ROWS, splits=SPLITS, rate_per_s=RATE
        )
        counted = env.from_source(numbers).key_by("k").running(n=rh.agg.count())
        counted.sink_to(MemorySink(self.table))
        config = JobConfig(
            job=JobId("auto"),
            checkpoint=CheckpointConfig(interval_ms=5_000, slots_within_ms=5_000),
            task=TaskConfig(batch_rows=64, progress_interval_us=1_000_000),
            scaling=bounds,
            min_parallelism=bounds.least,
        )
        return World(env.plan("auto"), config, 1, faults, max_turns=None, slots=slots)

    def reported(self, message: control.ToMaster, width: int) -> control.ToMaster:
        """Return the message with the slot's load that the test specifies."""
        if not isinstance(message, control.Progress):
            return message
        who = int(message.attempt), message.subtask
        busy_us, until_us = self.spent.get(who, (0, 0))
        share = min(self.work(message.step_us / 1e6) / width, 1.0)
        busy_us += round(share * (message.step_us - until_us))
        self.spent[who] = busy_us, message.step_us
        return msgspec.structs.replace(
            message,
            busy_us=busy_us,
            blocked_us=0,
            records_out=dict.fromkeys(message.records_out, busy_us // 1000),
            readings=[],
        )

    def run(self, world: World, then: dict[float, Callable[[], Any]] | None = None) -> None:
        """Run to the end; call `then` at each of its seconds."""
        for at_s, happens in sorted((then or {}).items()):
            self._until(world, partial(self._has_reached, world, at_s))
            happens()
        self._until(world, lambda: False)
        assert world.run().status.state is JobState.FINISHED

    def _has_reached(self, world: World, at_s: float) -> bool:
        return world.clock.monotonic_us() >= at_s * 1e6

    def _until(self, world: World, reached: Callable[[], bool]) -> None:
        def looked() -> bool:
            status = world.status()
            if status.state is JobState.RUNNING:
                width = status.parallelism
                if not self.widths or self.widths[-1][1] != width:
                    self.widths.append((world.clock.monotonic_us() / 1e6, width))
            return reached()

        world.run_until(looked)

    @property
    def seen(self) -> list[int]:
        return [width for _, width in self.widths]

    def counts(self) -> list[tuple[int, int]]:
        return sorted((row["k"], row["n"]) for row in self.table.table(None).to_pylist())


Make = Callable[[Callable[[float], float]], Loaded]


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Make:
    made: list[Loaded] = []
    report = SimLauncher._reported

    def reported(self: SimLauncher, message: control.ToMaster) -> None:
        report(self, made[-1].reported(message, len(self.slots)))

    monkeypatch.setattr(SimLauncher, "_reported", reported)

    def make(work: Callable[[float], float]) -> Loaded:
        made.append(Loaded(work))
        return made[-1]

    return make


def test_parallelism_follows_the_load(loaded: Make) -> None:
    job = loaded(lambda s: 2.1 if 60 <= s < 150 else 0.5)
    world = job.world(ScalingBounds(1, 4), slots=8)
    job.run(world)
    assert job.seen == [1, 2, 3, 1]
    (_, up, wide, down) = [at for at, _ in job.widths]
    assert 60 < up < 60 + STEP_S + 5
    assert up + STEP_S <= wide < up + STEP_S + 5
    assert 150 + NARROW_AFTER_MS / 1000 <= down < 150 + NARROW_AFTER_MS / 1000 + 25
    # No failure is counted, and no row lost or duplicated.
    assert world.status().restarts == 0
    assert job.counts() == COUNTS


def test_status_and_decisions_show_the_reason_of_a_rescale(loaded: Make) -> None:
    job = loaded(lambda s: 3.0)
    world = job.world(ScalingBounds(1, 2), slots=8)
    job.run(world)
    scaling = world.status().scaling
    assert scaling is not None
    assert (scaling.state, str(scaling.bounds)) == ("at_bound", "1 to 2")
    assert scaling.last_change == "1 to 2: its load was 100%"
    asked = [line for line in world.master.decisions() if "SavepointRequested" in line]
    assert len(asked) == 1
    assert "parallelism=2" in asked[0]
    assert "why=its load was 100%" in asked[0]


def test_parallelism_follows_lost_and_returning_slots(loaded: Make) -> None:
    job = loaded(lambda s: 2.6)
    world = job.world(ScalingBounds(1, None), slots=4)
    job.run(world, {120: lambda: world.lose_slots(2), 200: lambda: world.lose_slots(0)})
    assert job.seen == [1, 2, 3, 4, 2, 3, 4]
    assert world.status().restarts == 1


def test_the_next_driver_keeps_the_parallelism(loaded: Make) -> None:
    """Invariant CP40."""
    job = loaded(lambda s: 1.2)
    world = job.world(ScalingBounds(1, 4), slots=4)
    job.run(world, {100: world._give_up_driver})
    claims = [
        entry
        for number in range(1, JobLog(world.store, JobId("auto")).read().next_number)
        if isinstance(entry := JobLog(world.store, JobId("auto"))._get(number).entry, AttemptStarted)
    ]
    assert [claim.parallelism for claim in claims] == [1, 2, 2]
    assert world.drivers == 2


@pytest.mark.parametrize("seed", range(2))
def test_autoscaling_under_faults_loses_no_row(loaded: Make, seed: int) -> None:
    job = loaded(lambda s: 3.5 if s % 100 < 50 else 0.4)
    faults = Faults(until_us=200_000_000, crash_slot=0.03, crash_driver=0.01, lose_slot=0.01)
    world = job.world(ScalingBounds(1, 4), 4, faults)
    job.run(world)
    assert job.counts() == COUNTS
