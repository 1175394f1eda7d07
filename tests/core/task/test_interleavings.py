"""Every row counts once in any order of triggers, aborts, backpressure and losses."""

from __future__ import annotations

from random import Random

import pytest

from rheos.core.task.config import TaskConfig
from tests.core.task.cluster import Job, planned
from tests.core.task.programs import (
    JOINED,
    LATE_WINDOWS,
    RUNNING_IN_ORDER,
    TWICE_KEYED,
    WINDOWS,
    build,
    made,
)
from tests.worlds import programs

_PROGRAMS = [
    TWICE_KEYED,
    JOINED,
    WINDOWS,
    LATE_WINDOWS,
    RUNNING_IN_ORDER,
    programs.COUNTED,
    programs.ORDERED,
    programs.REDUCED,
    programs.NARROW,
]


class _Story:
    """Master that triggers, aborts and restarts at random."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.program = _PROGRAMS[seed % len(_PROGRAMS)]
        splits = 1 if self.program is RUNNING_IN_ORDER else rng.randrange(1, 5)
        self.of = made(rows=rng.randrange(100, 300), splits=splits, seed=seed)
        task = TaskConfig(
            batch_rows=rng.choice([1, 4, 16]),
            credits=rng.choice([1, 2, 4]),
            buffer_timeout_us=rng.choice([0, 10_000, None]),
            unaligned_after_us=rng.choice([None, 0, 0, 3_000, 20_000]),
        )
        plan = planned(build(self.program, self.of))
        self.job = Job(plan, task, parallelism=rng.randrange(1, 4), seed=seed)
        self.concurrent = rng.choice([1, 2, 3])
        self.open: list[int] = []
        self.entered = 0
        self.unaligned = 0

    def tell(self) -> None:
        rng, job = self.rng, self.job
        for _ in range(rng.randrange(5, 30)):
            job.cluster.run(rng.choice([1, 10, 100, 300]))
            match rng.choice(["hold", "release", "trigger", "trigger", "trigger", "abort", "lose"]):
                case "hold":
                    job.cluster.network.held = True
                case "release":
                    job.cluster.network.held = False
                case "trigger" if len(self.open) < self.concurrent:
                    savepoint = f"savepoints/{rng.random()}" if rng.random() < 0.15 else None
                    self.open.append(job.trigger(savepoint))
                case "abort" if self.open and rng.random() < 0.5:
                    self.abort(rng.choice(self.open))
                case "lose" if rng.random() < 0.3:
                    self.open.clear()
                    job.restart(rng.randrange(1, 4))
            self.look()
        job.cluster.network.held = False
        for checkpoint in list(self.open):
            self.abort(checkpoint)
        self.program.check(self.of.arrived(), job.finish())

    def abort(self, checkpoint: int) -> None:
        self.open.remove(checkpoint)
        self.job.cluster.abort(checkpoint)

    def look(self) -> None:
        for checkpoint in list(self.open):
            if checkpoint in self.job.cluster.declined:
                self.abort(checkpoint)
            elif self.job.cluster.is_acknowledged(checkpoint):
                for earlier in [c for c in self.open if c < checkpoint]:
                    self.abort(earlier)
                self.open.remove(checkpoint)
                self.job.enter(checkpoint)
                self.entered += 1
                self.unaligned += self.job.cluster.cost(checkpoint).unaligned


@pytest.mark.parametrize("seed", range(27))
def test_rows_count_once(seed: int) -> None:
    _Story(seed).tell()
