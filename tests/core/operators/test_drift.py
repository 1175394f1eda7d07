"""Watermark alignment: splits that are ahead of the slowest wait for it; none waits for ever, and
results do not change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    Source,
    Split,
    SplitReader,
)
from rheos.core.errors import ProgramError
from rheos.core.graph.watermark import Watermark
from rheos.core.operators.source import MAX_OPEN_SPLITS, SourceOperator
from rheos.core.operators.source_alignment import DRIFT_PAUSED_MS
from rheos.core.protocol.control import Align, SourceWatermark
from rheos.core.protocol.ids import Attempt, OperatorId
from rheos.runtimes.driver.drift import SourceDrift
from rheos.testing import Faults, simulate
from tests.connectors.ports import ManualClock
from tests.core.operators.test_source import SCHEMA, Script, drain, operator


def aligned(max_drift: str = "10ms", idle_after: str = "50ms") -> Watermark:
    return Watermark.monotonic(on="at", max_drift=max_drift, idle_after=idle_after)


def given(op: SourceOperator, polls: int = 30) -> list[int]:
    """Return the event times of the rows that are emitted before a pause."""
    times: list[int] = []
    for _ in range(polls):
        read = op.poll(1)
        if isinstance(read, list):
            times += [at for out in read for at in out.batch.column("at").to_pylist()]
    return times


def test_a_split_that_is_ahead_waits_and_how_long_is_counted() -> None:
    source = Script(slow=[[100], [101], *[None] * 60, [140]], fast=[[100 + 5 * n] for n in range(9)])
    op, ctx = operator(source, strategy=aligned())
    assert isinstance(ctx.clock, ManualClock)
    first = given(op, 12)
    assert max(first) == 115, "the slowest is at 101: so the next is 14 ahead"
    op.poll(1)
    ctx.clock.us += 7_000
    op.poll(1)
    assert ctx.counters[DRIFT_PAUSED_MS] == 7


def test_the_slowest_split_of_another_subtask_counts_too() -> None:
    source = Script(fast=[[100 + 5 * n] for n in range(9)], other=[[1]])
    op, _ = operator(source, strategy=aligned(), parallelism=2)
    op.alignment.align(100)
    assert max(given(op)) == 115
    op.alignment.align(120)
    assert max(given(op)) == 135
    op.alignment.align(None)
    assert max(given(op)) == 140


def test_an_idle_split_delays_no_other() -> None:
    source = Script(slow=[[100], 1000, *[1000] * 99], fast=[[100 + 5 * n] for n in range(9)])
    op, ctx = operator(source, strategy=aligned())
    assert isinstance(ctx.clock, ManualClock)
    assert max(given(op)) == 115
    ctx.clock.us += 60_000
    assert max(given(op)) == 140


def test_progress_shows_stalled_event_time_and_idle_splits() -> None:
    source = Script(slow=[[100], *[1000] * 99], fast=[[100 + n] for n in range(99)])
    op, ctx = operator(source, strategy=aligned(max_drift="1m"))
    assert isinstance(ctx.clock, ManualClock)
    given(op, 6)
    ctx.clock.us += 60_000
    given(op, 6)
    ctx.clock.us += 5_000
    slow, fast = op.progress(0).splits
    assert (slow.id, slow.idle, slow.stands_ms, slow.watermark_ms) == ("slow", True, 65, None)
    assert (fast.id, fast.idle, fast.stands_ms) == ("fast", False, 5)


def test_unopened_splits_delay_no_other() -> None:
    """Check this because open splits would wait for splits that wait to be opened."""
    many = {f"{n:02d}": [[1000 * n + 5 * i] for i in range(6)] for n in range(2 * MAX_OPEN_SPLITS)}
    op, _ = operator(Script(**many), strategy=aligned())
    assert len(drain(op)) == 6 * len(many)


# --- over all subtasks -------------------------------------------------------------------------------


def test_all_receive_the_minimum_of_active_splits() -> None:
    drift = SourceDrift()
    source = OperatorId("source-1")

    def report(subtask: int, watermark_ms: int | None) -> list[int | None]:
        reached = SourceWatermark(
            attempt=Attempt(1), subtask=subtask, operator=source, watermark_ms=watermark_ms
        )
        heard = drift.reported(reached)
        assert all(
            each == Align(attempt=Attempt(1), operator=source, least_ms=each.least_ms) for each in heard
        )
        return [each.least_ms for each in heard]

    assert report(0, 100) == [100]
    assert report(1, 50) == [50]
    assert report(0, 200) == []
    assert report(1, None) == [200]
    assert report(0, None) == [None]
    assert report(1, 70) == [70]
    drift.begin()
    assert report(0, 90) == [90]


STARTS_US = 100_000


@dataclass(frozen=True)
class Apart(Source):
    """Two splits: one emits a row each 5 ms, the other everything that is requested, a little later."""

    gave: list[tuple[str, int]] = field(default_factory=list, compare=False)
    schema: pa.Schema = SCHEMA
    bounded: bool = True

    def splits(self) -> list[Split]:
        return [Split("slow"), Split("fast")]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return ApartReader(self, split.id, int(position or 0), ctx)


class ApartReader(SplitReader):
    def __init__(self, source: Apart, name: str, row: int, ctx: ReaderContext) -> None:
        self.source, self.name, self.row, self.ctx = source, name, row, ctx
        self.next_us = STARTS_US if name == "fast" else 0

    def poll(self, max_rows: int) -> Polled:
        now_us = self.ctx.clock.monotonic_us()
        if now_us < self.next_us:
            return Pending(self.next_us - now_us)
        if self.row == 200:
            return EndOfSplit()
        at, self.row = 10 * self.row, self.row + 1
        if self.name == "slow":
            self.next_us = now_us + 5_000
        self.source.gave.append((self.name, at))
        return pa.RecordBatch.from_pydict({"at": [at], "n": [at]}, schema=SCHEMA)

    def position(self) -> bytes:
        return b"%d" % self.row


def run(source: Apart, **how: Any) -> tuple[list[Mapping[str, Any]], int, int]:
    """Return the windows, the maximum lead of the fast split, and how long it waited."""

    def build(env: rh.Environment) -> rh.DataStream:
        rows = env.from_source(source, watermark=rh.Watermark.monotonic(on="at", **how))
        return (
            rows.with_columns(k=rh.col("n") % 3)
            .key_by("k")
            .window(rh.Tumbling("70ms"))
            .aggregate(n=rh.agg.count())
        )

    done = simulate(build, parallelism=2, faults=Faults(until_us=0))
    ahead, slow = 0, 0
    for name, at in source.gave:
        slow = at if name == "slow" else slow
        ahead = max(ahead, at - slow)
    paused = sum(each.counters.get(DRIFT_PAUSED_MS, 0) for each in done.status.operators)
    windows = done.out.sort_by([("window_start", "ascending"), ("k", "ascending")])
    return windows.to_pylist(), ahead, paused


def test_the_drift_is_bounded_over_subtasks_and_changes_no_row() -> None:
    freely, far, _ = run(Apart())
    closely, near, paused = run(Apart(), max_drift="200ms", idle_after="10s")
    assert closely == freely
    assert far > 1000
    assert near <= 220
    assert paused > 100


# --- what is refused ---------------------------------------------------------------------------------


def test_a_drift_without_idle_after_is_refused() -> None:
    env = rh.Environment(1)
    with pytest.raises(ProgramError, match="needs idle_after"):
        env.from_source(Apart(), watermark=rh.Watermark.monotonic(on="at", max_drift="1m"))


def test_a_drift_of_zero_is_refused() -> None:
    with pytest.raises(ProgramError, match="greater than 0"):
        rh.Environment(1).from_source(Apart(), watermark=aligned(max_drift="0s"))


def test_a_drift_downstream_of_the_source_is_refused() -> None:
    rows = rh.Environment(1).from_source(Apart())
    with pytest.raises(ProgramError, match="max_drift pauses splits by the event time of their"):
        rows.with_event_time(aligned())
