"""The health of whole jobs in the simulated world, second by second of virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.contract import (
    Committer,
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    Sink,
    SinkContext,
    SinkWriter,
    Source,
    Split,
    SplitReader,
)
from rheos.core.errors import TransportError, UnavailableError
from rheos.core.metrics.health import FindingKind, HealthState, JobHealth, Severity
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.runtimes.job import JobStatus
from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.runtime import SimulatedJob, SimulatedRuntime

SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.int64())])
END_S = 150


@dataclass
class Target(Sink, Committer):
    """Sink whose target is unreachable while `away` is set, and whose writer fails while `breaks` is
    set."""

    away: ClassVar[bool] = False
    breaks: ClassVar[bool] = False

    def open(self, ctx: SinkContext) -> SinkWriter:
        return Writer()

    def committer(self) -> Committer:
        return self

    def commit(self, committables: Sequence[bytes]) -> None:
        if Target.away:
            raise UnavailableError("the target does not answer")

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        pass


class Writer(SinkWriter):
    def write(self, batch: Batch) -> None:
        if Target.breaks:
            raise TransportError("the connection is lost")

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        return [b"staged"]


Rows = Callable[[int, int], list[int] | None]
"""Of a split and a second: event times of the rows that come in it; None ends the split."""


@dataclass
class Timed(Source):
    """Source whose rows arrive at seconds of virtual time, as a function specifies."""

    rows: Rows
    splits_: int = 1
    schema: pa.Schema = field(default_factory=lambda: SCHEMA)
    bounded: bool = True

    def splits(self) -> Sequence[Split]:
        return [Split(str(n), b"") for n in range(self.splits_)]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return TimedReader(self.rows, int(split.id), 0 if position is None else int(position), ctx)


class TimedReader(SplitReader):
    def __init__(self, rows: Rows, split: int, second: int, ctx: ReaderContext) -> None:
        self._rows, self._split, self._second, self._ctx = rows, split, second, ctx

    def poll(self, max_rows: int) -> Polled:
        now_us = self._ctx.clock.monotonic_us()
        while self._second * 1_000_000 <= now_us:
            times = self._rows(self._split, self._second)
            if times is None:
                return EndOfSplit()
            self._second += 1
            if times:
                columns = [pa.array([self._second] * len(times)), pa.array(times)]
                return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        return Pending(self._second * 1_000_000 - now_us)

    def position(self) -> bytes:
        return str(self._second).encode()


class Watched:
    """Health of a job at each second."""

    def __init__(self, at_second: Callable[[float], None] = lambda _: None) -> None:
        self._at_second = at_second
        self.seen: list[tuple[float, JobHealth]] = []

    def hear(self, status: JobStatus) -> None:
        self._at_second(status.running_s)
        if status.health is not None:
            self.seen.append((status.running_s, status.health))

    def between(self, begin_s: float, end_s: float) -> Iterator[JobHealth]:
        found = [health for at_s, health in self.seen if begin_s <= at_s < end_s]
        assert found
        return iter(found)

    def kinds(self, begin_s: float, end_s: float) -> set[FindingKind]:
        return {each.kind for health in self.between(begin_s, end_s) for each in health.findings}

    def states(self, begin_s: float, end_s: float) -> set[HealthState]:
        return {health.state for health in self.between(begin_s, end_s)}


def each_second(_split: int, second: int) -> list[int] | None:
    return [second * 1000] if second < END_S else None


def run(
    rows: Rows,
    watched: Watched,
    build: Callable[[Any], Any] = lambda stream: stream.sink_to(Target(), name="out"),
    splits: int = 1,
    faults: Faults | None = None,
) -> None:
    env = rh.Environment(
        1,
        runtime=SimulatedRuntime(1, faults),
        checkpoint_interval="1s",
    )
    watermark = rh.Watermark.bounded_out_of_orderness("1s", on="at")
    build(env.from_source(Timed(rows, splits), name="rows", watermark=watermark))
    job = env.execute_async("watched")
    assert isinstance(job, SimulatedJob)
    job.world.run(watched.hear)


@pytest.fixture(autouse=True)
def _answers() -> None:
    Target.away = Target.breaks = False


def test_a_calm_job_is_healthy_all_the_time() -> None:
    watched = Watched()
    run(each_second, watched)
    assert watched.states(0, END_S) == {HealthState.HEALTHY}
    assert watched.kinds(0, END_S) == set()


def test_an_unreachable_target_is_shown_until_it_is_back() -> None:
    def strike(at_s: float) -> None:
        Target.away = 20 <= at_s < 60

    watched = Watched(strike)
    run(each_second, watched)
    assert watched.states(0, 20) == watched.states(66, END_S) == {HealthState.HEALTHY}
    assert watched.kinds(30, 60) == {FindingKind.PUBLISHING}
    for health in watched.between(30, 60):
        (one,) = health.findings
        assert health.state is HealthState.STUCK
        assert "the sink 'out' has published nothing" in one.what
        begin_ms = watched.seen[0][1].at_ms
        assert 19_000 <= one.since_ms - begin_ms <= 23_000


def test_a_silent_source_is_shown_and_a_pausing_one_not() -> None:
    def silent(_split: int, second: int) -> list[int] | None:
        if second >= END_S:
            return None
        return [second * 1000] if second < 20 or second >= 120 else []

    watched = Watched()
    run(silent, watched)
    assert watched.kinds(0, 79) == watched.kinds(125, END_S) == set()
    assert watched.kinds(84, 120) == {FindingKind.NO_INPUT}
    assert watched.states(84, 120) == {HealthState.DEGRADED}

    def paused(_split: int, second: int) -> list[int] | None:
        return None if second >= END_S else [second * 1000] if second % 70 == 0 else []

    watched = Watched()
    run(paused, watched)
    assert watched.kinds(75, END_S) == set(), "it has paused for as long before"


def test_a_split_that_delays_the_watermark_is_shown() -> None:
    def one_stands(split: int, second: int) -> list[int] | None:
        if second >= END_S:
            return None
        return [second * 1000] if split == 0 or second < 30 or second >= 90 else []

    watched = Watched()
    run(one_stands, watched, splits=2)
    assert watched.kinds(0, 30) == watched.kinds(95, END_S) == set()
    assert watched.kinds(45, 90) == {FindingKind.WATERMARK}
    (held,) = next(watched.between(60, 90)).findings
    assert held.what.startswith("split '1' of 'rows' (subtask 0) has not advanced for")


def test_a_rise_of_late_rows_is_shown() -> None:
    def rows(_split: int, second: int) -> list[int] | None:
        if second >= END_S:
            return None
        late = [0] * 20 if 80 <= second < 110 else []
        return [second * 1000 + n for n in range(20)] + late

    def windowed(stream: Any) -> None:
        counts = stream.key_by("n").window(rh.Tumbling("1s")).aggregate(count=rh.agg.count())
        counts.sink_to(Target(), name="out")

    watched = Watched()
    run(rows, watched, windowed)
    assert watched.kinds(0, 80) == set()
    assert watched.kinds(95, 125) == {FindingKind.LATE}


def test_a_restart_is_a_headline_for_two_minutes_and_then_a_note() -> None:
    def strike(at_s: float) -> None:
        Target.breaks = 10 <= at_s < 11

    watched = Watched(strike)
    run(each_second, watched)
    assert watched.kinds(0, 9) == set()
    assert FindingKind.RESTARTS in watched.kinds(14, 130)
    assert watched.states(16, 125) == {HealthState.DEGRADED}
    assert watched.states(135, END_S) == {HealthState.HEALTHY}
    (note,) = next(watched.between(135, END_S)).findings
    assert (note.kind, note.severity) == (FindingKind.RESTARTS, Severity.NOTE)
