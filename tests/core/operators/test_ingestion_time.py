"""Ingestion time: the event time of a row is when its source read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.contract import (
    EndOfSplit,
    Polled,
    ReaderContext,
    Split,
    SplitReader,
    TimeReached,
)
from rheos.core.errors import ProgramError
from rheos.core.operators.ingestion_time import INGESTED
from rheos.core.operators.source import EndOfInput, SourceOperator
from rheos.core.operators.source_split import SPLITS
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, TS, WM
from rheos.core.protocol.ids import CheckpointId
from rheos.testing import Faults, simulate
from tests.connectors.ports import ManualClock
from tests.core.operators.test_source import Script, drain, operator

INGESTION = rh.Watermark.ingestion_time()
Restored = Mapping[str, list[pa.Table]]


def opened(
    source: Script, restored: Restored | None = None, **place: Any
) -> tuple[SourceOperator, ManualClock]:
    made, ctx = operator(source, strategy=INGESTION, restored=restored, **place)
    assert isinstance(ctx.clock, ManualClock)
    return made, ctx.clock


def saved(*operators: SourceOperator) -> dict[str, list[pa.Table]]:
    found: dict[str, list[pa.Table]] = {}
    for one in operators:
        for part in one.snapshot(CheckpointId(1)).parts:
            found.setdefault(part.state, []).append(part.write())
    assert found.keys() == {SPLITS, INGESTED}
    return found


def rows_of(op: SourceOperator, max_rows: int = 100) -> list[dict[str, Any]]:
    read = op.poll(max_rows)
    assert isinstance(read, list)
    return [row for out in read for row in out.batch.to_pylist()]


def test_rows_have_the_time_at_which_they_are_read() -> None:
    op, clock = opened(Script(a=[[40, 10], None, [5]], b=[[99]]))
    first_ms = clock.now_ms()
    assert [(row["n"], row[TS]) for row in rows_of(op)] == [(n, first_ms) for n in (40, 10, 99)]
    assert op.watermark() == first_ms - 1
    clock.us += 3_000
    assert [(row["n"], row[TS]) for row in drain(op)] == [(5, first_ms + 3)]
    assert op.watermark() == MAX_TIMESTAMP_MS


def test_time_advances_without_rows() -> None:
    op, clock = opened(Script(a=[[1], *[None] * 9]))
    rows_of(op)
    assert op.watermark() == clock.now_ms() - 1
    clock.us += 60_000_000
    assert not isinstance(op.poll(10), EndOfInput | list)
    assert op.watermark() == clock.now_ms() - 1
    assert not op.idle()


def test_unopened_splits_do_not_hold_the_watermark() -> None:
    op, clock = opened(Script(**{f"s{i:02}": [[i], None, [i]] for i in range(40)}))
    rows_of(op, max_rows=1)
    assert op.watermark() == clock.now_ms() - 1


def test_a_clock_that_is_set_back_is_waited_for() -> None:
    op, clock = opened(Script(a=[[1], [2], [3]]))
    first_ms = clock.now_ms()
    rows_of(op, max_rows=1)
    clock.us -= 4_000_000
    assert [row[TS] for row in drain(op)] == [first_ms, first_ms]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_after_a_restore_time_continues_from_the_latest(parallelism: int) -> None:
    """Check a new machine whose clock is slow, and other assignments of splits."""
    source = Script(a=[[1], [2]], b=[[3], [4]])
    before = [opened(source, subtask=i, parallelism=2) for i in range(2)]
    before[1][1].us += 7_000_000
    for op, _ in before:
        rows_of(op, max_rows=1)
    latest_ms = before[1][1].now_ms()
    state = saved(*(op for op, _ in before))
    after = [opened(source, state, subtask=i, parallelism=parallelism)[0] for i in range(parallelism)]
    rows = [row for op in after for row in drain(op)]
    assert sorted((row["n"], row[TS]) for row in rows) == [(2, latest_ms), (4, latest_ms)]
    assert all(row[WM] < row[TS] for row in rows)


def test_without_splits_there_is_no_time() -> None:
    op, _ = opened(Script(a=[[1]]), subtask=1, parallelism=2)
    assert op.watermark() == MAX_TIMESTAMP_MS
    assert isinstance(op.poll(10), EndOfInput)


def test_a_program_may_change_from_event_time_to_ingestion_time() -> None:
    """Check a column that was far ahead of the clock: no row is late."""
    source = Script(a=[[9_000_000_000_000], [2]])
    before, _ = operator(source, strategy=rh.Watermark.monotonic(on="at"))
    rows_of(before, max_rows=1)
    parts = before.snapshot(CheckpointId(1)).parts
    op, clock = opened(source, {part.state: [part.write()] for part in parts})
    (row,) = drain(op)
    assert row[WM] < row[TS] == clock.now_ms()


class Announcing(SplitReader):
    """Source that declares a later event time than that of its rows."""

    polled = 0

    def poll(self, max_rows: int) -> Polled:
        self.polled += 1
        if self.polled == 1:
            return TimeReached(MAX_TIMESTAMP_MS - 1)
        if self.polled == 2:
            return pa.RecordBatch.from_pydict({"at": [1], "n": [1]}, schema=Script.schema)
        return EndOfSplit()

    def position(self) -> bytes:
        return b""


class Announced(Script):
    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return Announcing()


def test_declared_event_time_of_a_split_is_ignored() -> None:
    op, clock = opened(Announced(a=[]))
    (row,) = drain(op)
    assert row[WM] < row[TS] == clock.now_ms()


SCHEMA = pa.schema([("i", pa.int64())])


def numbered(block: rh.Block) -> pa.RecordBatch:
    rows = range(block.start, block.start + block.rows)
    return pa.RecordBatch.from_pylist([{"i": 3 * n + block.split} for n in rows], SCHEMA)


def windows(env: rh.Environment) -> Mapping[str, rh.DataStream]:
    source = rh.generator(numbered, count=300, schema=SCHEMA, rate_per_s=300, splits=3)
    rows = env.from_source(source, INGESTION).with_columns(k=rh.col("i") % 5)
    counts = (
        rows.key_by("k")
        .window(rh.Tumbling("50ms"))
        .aggregate(n=rh.agg.count(), rows=rh.agg.collect("i"))
    )
    return {"counts": counts, "late": counts.side_output("late")}


@pytest.mark.parametrize("faults", [Faults(), Faults(crash_after_checkpoint=0.6, until_us=500_000)])
def test_each_row_counts_once_after_any_failure(faults: Faults) -> None:
    done = simulate(windows, seed=4, faults=faults, parallelisms=(2, 3, 1))
    assert bool(done.crashes) == bool(faults.crash_after_checkpoint)
    counted = [i for rows in done.rows["counts"]["rows"].to_pylist() for i in rows]
    assert sorted(counted) == list(range(300))
    assert done.rows["late"].num_rows == 0
    assert done.rows["counts"].num_rows > 5  # Windows of 50 ms, in a second of five keys.


# --- what is refused, and what is said ----------------------------------------------------------------


def test_a_batch_job_refuses_ingestion_time() -> None:
    env = rh.Environment(runtime="batch")
    env.from_source(rh.collection([{"i": 1}]), INGESTION).collect("out")
    with pytest.raises(ProgramError, match="ingestion time is not available in a batch job") as caught:
        env.execute("job")
    assert caught.value.site is not None
    assert caught.value.site.file == __file__


def test_ingestion_time_selects_the_continuous_runtime() -> None:
    env = rh.Environment()
    env.from_source(rh.collection([{"i": 1}]), INGESTION, name="taps").collect("out")
    text = env.explain()
    assert "continuous (as 'taps' uses ingestion time)" in text
    assert "event time: when a row is read" in text


def test_ingestion_time_must_be_set_at_the_source() -> None:
    rows = rh.Environment().from_source(rh.collection([{"i": 1}]))
    with pytest.raises(ProgramError, match="ingestion time is assigned where the source") as caught:
        rows.with_event_time(INGESTION)
    assert caught.value.site is not None
    assert caught.value.site.file == __file__
