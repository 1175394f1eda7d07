"""`process(order="event_time")`: rows are held until the watermark passes, then delivered in order.

The order is by event time; rows of one time by the whole row, column by column. Event-time timers
stand in the same order: one at T fires after all rows at or before T and before all later ones. So what
a key's function sees depends on the data alone.

A row is late when its timestamp is at or before the watermark that its own split had reached. Late rows
are not delivered; they are counted, and go to the side output `late`. So do rows whose own split was
idle while the watermark passed them; they are counted as `late_purged`.

A batch runtime has all rows before it delivers any, so it can do the same for functions that take
them as they come: with `keeps_late` no row is late, and rows of one time stay in the order of arrival.
No watermark that such a function sees has passed the row it is called for.

```python
class Pauses(rh.KeyedProcessFunction):
    last = rh.ValueState(int)

    def process_element(self, click, ctx: rh.KeyedContext):
        if self.last.value is not None:
            yield {"user": ctx.key, "at": click.at, "pause": click.at - self.last.value}
        self.last.value = click.at


def pauses(clicks):
    found = clicks.key_by("user").process(
        Pauses(), order="event_time", returns={"user": str, "at": int, "pause": int}
    )
    return {"pauses": found, "late": found.side_output("late")}


check_example(
    OperatorExample(
        pauses,
        pa.schema([("user", pa.string()), ("at", pa.int64())]),
        [
            {"user": "a", "at": 20},
            {"user": "a", "at": 10},
            {"user": "a", "at": 13},
            WatermarkMark(13),
            {"user": "a", "at": 12},
        ],
        on="at",
    ),
    {
        "pauses": [{"user": "a", "at": 13, "pause": 3}, {"user": "a", "at": 20, "pause": 7}],
        "late": [{"user": "a", "at": 12}],
    },
)
```
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pyarrow as pa

from rheos.graph.nodes import ProcessSpec
from rheos.operators.contract import OperatorContext, Out, Restored
from rheos.operators.held import HELD, HELD_WATERMARKS, HeldRows
from rheos.operators.process import ProcessOperator
from rheos.operators.records import hidden_column, with_hidden
from rheos.operators.sorting import sort_by_time, sort_rows
from rheos.protocol.elements import MIN_TIMESTAMP_MS, SWM, TS, WM, Batch, strip_hidden
from rheos.protocol.ids import CheckpointId
from rheos.protocol.snapshots import Snapshot, SnapshotPart

LATE = "late"


class OrderedProcessOperator(ProcessOperator):
    """Holds rows as Arrow batches; only what the watermark has passed is sorted and made records of."""

    def __init__(self, ctx: OperatorContext, spec: ProcessSpec, *, keeps_late: bool = False) -> None:
        super().__init__(ctx, spec)
        self._keeps_late = keeps_late
        port = ctx.ports[0]
        # What the stream had reached before a row is of no account once the row waits.
        self._columns = pa.schema([field for field in port.schema if field.name != SWM])
        self._held = HeldRows(self._columns, port.keys, ctx.key_groups, ctx.max_parallelism)

    def open(self, restored: Restored) -> None:
        super().open(restored)
        self._held.restore(restored.get(HELD, ()), restored.get(HELD_WATERMARKS, ()))

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        self._core.codec.refuse_nulls(batch)
        if not self._keeps_late:
            batch = yield from self._in_time(batch)
        self._held.add(batch.select(self._columns.names))

    def _in_time(self, batch: Batch) -> Generator[Out, None, Batch]:
        """The rows that are not late; emits the others."""
        stamps = batch.column(TS).to_numpy()
        marks = hidden_column(batch, WM)
        late = stamps <= (MIN_TIMESTAMP_MS if marks is None else marks)
        passed = late | self._held.passed(batch, self._core.watermark_ms)
        if passed.any():
            for name, rows in (("late", late), ("late_purged", passed & ~late)):
                if rows.any():
                    self.ctx.count(name, int(rows.sum()))
            yield from self._emit_late(batch.filter(pa.array(passed)))
            batch = batch.filter(pa.array(~passed))
        return batch

    def _emit_late(self, rows: Batch) -> Iterator[Out]:
        output = self.ctx.outputs.get(LATE)
        if output is not None:
            hidden = hidden_column(rows, TS), hidden_column(rows, WM)
            yield Out(with_hidden(strip_hidden(rows), output.schema, *hidden), LATE)

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        if not self._keeps_late:
            self._core.watermark_ms = timestamp_ms
        due = self._held.take(timestamp_ms)
        if due is not None:
            due = sort_by_time(due, TS) if self._keeps_late else sort_rows(due, TS)
            marks = hidden_column(due, WM) if self._keeps_late else None
            stamps = hidden_column(due, TS)
            assert stamps is not None
            yield from self._core.deliver_batch(0, due, stamps, marks, stamps - 1)
        self._core.watermark_ms = timestamp_ms
        yield from self._core.fire_event_timers(timestamp_ms)

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        snapshot = super().snapshot(checkpoint)
        snapshot.parts += self._held.parts(self._core.watermark_ms)
        return snapshot

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        return [*super().savepoint(snapshot), self._held.savepoint()]

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        super().snapshot_failed(checkpoint)
        self._held.force_full()
