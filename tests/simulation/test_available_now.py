"""Successive runs that read until now: each stops with the rows that existed at its start, and the
next resumes after them. Over all runs each row counts once, even if processes die."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.contract import Pending, Polled, ReaderContext, Source, Split, SplitReader
from rheos.core.errors import ConfigurationError
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import JobId
from rheos.runtimes.job import JobConfig, JobState, JobStatus
from rheos.runtimes.simulated.faults import Requests
from rheos.runtimes.simulated.runtime import SimulatedJob
from rheos.runtimes.simulated.world import World
from rheos.testing import Faults
from rheos.testing.drawn_settings import CHECKPOINTS
from rheos.testing.memory import MemorySink, MemoryTable

SCHEMA = pa.schema([("split", pa.string()), pa.field("n", pa.int64(), nullable=False)])
WINDOW = 10
DRIVERS = 4


@dataclass(frozen=True)
class Growing(Source):
    """Endless splits of numbers that grow while they are read. `begins` is called when a driver
    starts."""

    there: dict[str, int]
    """How many rows each split has."""
    begins: Callable[[Mapping[str, int]], None]
    now: Mapping[str, int] | None = None
    schema: pa.Schema = SCHEMA
    bounded: bool = False

    def as_of_now(self) -> Source:
        self.begins(self.there)
        return replace(self, now=dict(self.there))

    def __reduce__(self) -> tuple[Any, ...]:
        return Growing, ({}, None)  # The simulated runtime does not send the source anywhere.

    def splits(self) -> Sequence[Split]:
        return [Split(name) for name in self.there]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        assert self.now is not None
        return _Reader(self, split.id, int(position or 0), self.now[split.id])


class _Reader(SplitReader):
    def __init__(self, source: Growing, name: str, row: int, end: int) -> None:
        self.source, self.name, self.row, self.end = source, name, row, end
        self.rests = False

    def poll(self, max_rows: int) -> Polled:
        self.rests = not self.rests
        if self.rests or self.has_caught_up():
            return Pending(None if self.has_caught_up() else 2_000)
        self.source.there[self.name] += 1
        self.row += 1
        return pa.RecordBatch.from_pydict({"split": [self.name], "n": [self.row - 1]}, schema=SCHEMA)

    def position(self) -> bytes:
        return b"%d" % self.row

    def has_caught_up(self) -> bool:
        return self.row >= self.end


class Runs:
    """Runtime that restarts the job each time it has stopped, as cron does."""

    def __init__(self, seed: int, faults: Faults, parallelisms: Sequence[int]) -> None:
        self.seed, self.faults, self.parallelisms = seed, faults, parallelisms
        self.counts, self.windows = MemoryTable(), MemoryTable()
        self.source = Growing({"a": 27, "b": 12, "c": 11}, self.begins)
        self.begun: list[dict[str, int]] = []
        """What was there when each driver began."""
        self.found: list[dict[str, list[int]]] = []
        """What had been committed by then."""

    def begins(self, there: Mapping[str, int]) -> None:
        self.begun.append(dict(there))
        self.found.append(self.committed())
        if len(self.begun) == DRIVERS:
            self.world.requests = Requests(leave=1.0)

    def committed(self) -> dict[str, list[int]]:
        """Return the numbers of each split, as they were counted."""
        found: dict[str, list[int]] = {name: [] for name in self.source.there}
        rows = self.counts.table().to_pylist()
        for row in sorted(rows, key=lambda row: int(row["count"])):
            assert row["count"] == len(found[row["split"]]) + 1
            found[row["split"]].append(row["last"])
        return found

    def submit(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        listener: Callable[[JobStatus], None] | None = None,
    ) -> SimulatedJob:
        config = replace(config, job=JobId("cron"), checkpoint=CHECKPOINTS, until_now=True)
        self.world = World(plan, config, self.seed, self.faults, self.parallelisms)
        self.counts.on_commit = self.windows.on_commit = self.world.on_commit
        return SimulatedJob(self.world)

    def run(self) -> None:
        env = rh.Environment(2, runtime=self)  # type: ignore[arg-type]
        rows = env.from_source(self.source, rh.Watermark.monotonic(on="n", unit="ms"))
        keyed = rows.key_by("split")
        counts = keyed.running(last=rh.agg.max("n"), count=rh.agg.count())
        counts.sink_to(MemorySink(self.counts))
        windows = keyed.window(rh.Tumbling(f"{WINDOW}ms")).aggregate(n=rh.agg.count())
        windows.sink_to(MemorySink(self.windows))
        assert env.execute("cron").status.state is JobState.STOPPED
        # The last run has read the rows that existed at its start; windows stay open between runs.
        assert self.committed() == {name: list(range(n)) for name, n in self.begun[-1].items()}
        fired = [(row["split"], row["window_start"]) for row in self.windows.table().to_pylist()]
        assert {row["n"] for row in self.windows.table().to_pylist()} == {WINDOW}
        assert len(set(fired)) == len(fired)
        assert not [*self.counts.violations, *self.windows.violations]


def test_each_run_reads_the_rows_added_since_the_last() -> None:
    runs = Runs(1, Faults(until_us=0), [2])
    runs.run()
    assert len(runs.begun) == DRIVERS
    for then, found in zip(runs.begun, runs.found[1:], strict=False):
        assert found == {name: list(range(n)) for name, n in then.items()}
    assert runs.begun[-1]["a"] > runs.begun[0]["a"]


@pytest.mark.parametrize("seed", range(3))
def test_each_row_counts_once_over_all_runs_despite_faults(seed: int) -> None:
    rng = Random(seed)
    faults = Faults(
        crash_slot=6.0,
        crash_driver=2.0,
        crash_after_checkpoint=0.3,
        zombie=0.5,
        store_error=0.02,
        until_us=400_000,
    )
    Runs(seed, faults, [rng.randrange(1, 4) for _ in range(3)]).run()


def test_a_source_that_cannot_stop_now_is_refused() -> None:
    runs = Runs(1, Faults(until_us=0), [1])
    env = rh.Environment(1, runtime=runs)  # type: ignore[arg-type]
    endless = rh.generator(lambda block: {"n": block.index()}, rate_per_s=10, splits=1)
    env.from_source(endless).sink_to(MemorySink())
    with pytest.raises(ConfigurationError, match=r"test_available_now\.py:\d+: .*until now"):
        env.execute("cron")
