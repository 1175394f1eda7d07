"""Watermark that a function sees which processes rows on arrival, if all of them exist before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.graph.functions import KeyedContext, KeyedProcessFunction
from rheos.core.operators.process import ProcessOperator, ProcessSpec
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, TS
from tests.core.operators.contexts import context

IN = pa.schema([pa.field("user", pa.string()), pa.field(TS, pa.int64(), nullable=False)])
STAMPED = pa.schema(
    [
        pa.field("what", pa.string()),
        pa.field("at", pa.int64()),
        pa.field("watermark", pa.int64()),
        pa.field(TS, pa.int64(), nullable=False),
    ]
)


@dataclass
class Visit:
    user: str


@dataclass
class Seen:
    what: str
    at: int
    watermark: int


class Look(KeyedProcessFunction):
    def process_element(self, record: Visit, ctx: KeyedContext) -> Iterator[Seen]:
        ctx.timers.register(ctx.timestamp + 5)
        yield Seen("row", ctx.timestamp, ctx.watermark)

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterator[Seen]:
        yield Seen("timer", timestamp, ctx.watermark)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), min_size=1, max_size=30))
def test_released_rows_and_timers_follow_the_watermark(given: list[tuple[str, int]]) -> None:
    spec = ProcessSpec(fn=Look(), order="arrival", record=Visit)
    ctx = context(IN, STAMPED, keys=("user",))
    operator = ProcessOperator(ctx, spec, in_batch=True)
    operator.open({})
    for _ in range(2):  # The next keys start over.
        rows = [{"user": user, TS: at} for user, at in given]
        assert not list(operator.on_batch(0, pa.RecordBatch.from_pylist(rows, IN)))
        seen = [row for out in operator.on_watermark(MAX_TIMESTAMP_MS) for row in out.batch.to_pylist()]
        of_rows = [row for row in seen if row["what"] == "row"]
        assert sorted(row["at"] for row in of_rows) == sorted(at for _, at in given)
        assert all(row["watermark"] < row["at"] for row in of_rows)
        assert all(row["watermark"] >= row["at"] for row in seen if row["what"] == "timer")
        marks = [row["watermark"] for row in seen]
        assert marks == sorted(marks)
        operator.next_keys()
