"""Sources that cannot continue with the program stop the job exactly where they are (CP47), also if
processes die."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.contract import Pending, Polled, ReaderContext, Source, Split, SplitReader
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import JobId
from rheos.runtimes.job import JobConfig, JobState, JobStatus
from rheos.runtimes.simulated.runtime import SimulatedJob
from rheos.runtimes.simulated.world import World
from rheos.testing import Faults
from rheos.testing.drawn_settings import CHECKPOINTS
from rheos.testing.memory import MemorySink, MemoryTable

SCHEMA = pa.schema([("split", pa.string()), ("n", pa.int64())])
ROWS = {"a": 23, "b": 5, "c": 40}


@dataclass(frozen=True)
class Altered(Source):
    """Endless splits of numbers. The reader of "a" cannot continue after its last row."""

    schema: pa.Schema = SCHEMA
    bounded: bool = False
    may_stop: bool = True

    def splits(self) -> Sequence[Split]:
        return [Split(name) for name in ROWS]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return _Reader(split.id, int(position or 0))


class _Reader(SplitReader):
    def __init__(self, name: str, row: int) -> None:
        self.name, self.row, self.rests = name, row, False

    def poll(self, max_rows: int) -> Polled:
        self.rests = not self.rests
        if self.rests or self.row >= ROWS[self.name]:
            return Pending(2_000)
        self.row += 1
        return pa.RecordBatch.from_pydict({"split": [self.name], "n": [self.row - 1]}, schema=SCHEMA)

    def position(self) -> bytes:
        return b"%d" % self.row

    def stop_reason(self) -> str | None:
        return "the table a was altered" if self.name == "a" and self.row >= ROWS["a"] else None


class Simulated:
    """Runtime of one world."""

    def __init__(self, seed: int, faults: Faults, table: MemoryTable) -> None:
        self.seed, self.faults, self.table = seed, faults, table

    def submit(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        listener: Callable[[JobStatus], None] | None = None,
    ) -> SimulatedJob:
        config = replace(config, job=JobId("altered"), checkpoint=CHECKPOINTS)
        world = World(plan, config, self.seed, self.faults, [1 + self.seed % 3])
        self.table.on_commit = world.on_commit
        return SimulatedJob(world)


CRASHES = Faults(crash_slot=6.0, crash_driver=2.0, crash_after_checkpoint=0.3, until_us=400_000)


@pytest.mark.parametrize(("seed", "faults"), [(1, Faults(until_us=0)), (2, CRASHES), (3, CRASHES)])
def test_the_job_stops_with_all_rows_before_the_reason_and_none_after(
    seed: int, faults: Faults, caplog: Any
) -> None:
    table = MemoryTable()
    env = rh.Environment(2, runtime=Simulated(seed, faults, table))  # type: ignore[arg-type]
    env.from_source(Altered()).sink_to(MemorySink(table))
    result = env.execute("altered")
    assert result.status.state is JobState.STOPPED
    assert result.status.stop_reason == "the table a was altered"
    assert "continues when it is started again: the table a was altered" in caplog.text
    found = [row["n"] for row in table.table().to_pylist() if row["split"] == "a"]
    assert sorted(found) == list(range(ROWS["a"]))
    assert not table.violations
