"""A checkpoint writes nothing of state that has not changed since the previous one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.operators.buffered_rows import HELD_WATERMARKS
from rheos.core.operators.window.progress import FIRED
from rheos.core.protocol.ids import CheckpointId
from rheos.testing.harness import OperatorExample, ReplayMode, Transform, _Run

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.float64()), ("at", pa.int64())])


@dataclass
class Row:
    k: str
    v: float
    at: int


class Keeping(rh.KeyedProcessFunction):
    last = rh.ValueState(Row)
    seen = rh.ListState(Row)
    by_time = rh.MapState(int, Row)
    never = rh.ValueState(int)

    def process_element(self, row: Row, ctx: rh.KeyedContext) -> Iterator[Row]:
        self.last.value = row
        self.seen.append(row)
        self.by_time[row.at] = row
        ctx.timers.register(1000)
        return iter(())

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Row]:
        return iter(())


def _larger(a: Row, b: Row) -> Row:
    return a if a.v >= b.v else b


class Middle(rh.WindowFunction):
    def process(self, rows: list[Row], ctx: rh.WindowContext) -> Iterator[Row]:
        yield rows[len(rows) // 2]


_OPERATORS: dict[str, Transform] = {
    "process": lambda rows: rows.key_by("k").process(Keeping()),
    "process in order": lambda rows: rows.key_by("k").process(Keeping(), order="event_time"),
    "reduce": lambda rows: rows.key_by("k").reduce(_larger),
    "running": lambda rows: rows.key_by("k").running(n=rh.agg.count(), s=rh.agg.sum("v")),
    "windows": lambda rows: (
        rows.key_by("k")
        .window(rh.Tumbling("1s"))
        .aggregate(s=rh.agg.sum("v"), m=rh.agg.quantile("v", 0.5), d=rh.agg.count_distinct("v"))
    ),
    "windows of rows": lambda rows: rows.key_by("k").window(rh.Tumbling("1s")).process(Middle()),
}


@pytest.mark.parametrize("name", _OPERATORS)
def test_state_that_does_not_change_is_not_written(name: str) -> None:
    run = _Run(OperatorExample(_OPERATORS[name], SCHEMA, (), on="at"), ReplayMode("whole"))
    rows: list[dict[str, Any]] = [{"k": f"key {i % 9}", "v": i * 0.1, "at": i} for i in range(30)]
    run._feed(0, rows)
    [operator] = run._subtasks
    [writer] = run._writers
    id = run._planned.id

    def checkpoint(number: int) -> tuple[set[str], list[Any]]:
        """Return the written states, and the content of the checkpoint."""
        snapshot = operator.snapshot(CheckpointId(number))
        written = {part.state for part in snapshot.parts if not part.unchanged}
        return written, writer.begin(CheckpointId(number), [(id, snapshot)]).handles()

    apart = {HELD_WATERMARKS, FIRED}
    first, _ = checkpoint(1)
    assert first - apart
    for number in range(2, 70):
        written, handles = checkpoint(number)
        assert written <= apart
        assert {handle.state for handle in handles} == first
    # A row that comes is written, and it alone.
    run._feed(0, rows[:1])
    written, handles = checkpoint(70)
    assert written - apart
    assert max(handle.rows for handle in handles[1:] if handle.mode.value == "delta") <= 3
    # After a snapshot that was not kept, even what has not changed is written whole.
    operator.snapshot_failed(CheckpointId(70))
    assert checkpoint(71)[0] == first
