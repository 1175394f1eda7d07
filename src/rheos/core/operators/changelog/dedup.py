"""`dedup`: the first rows of each key, or the last one.

With `keep="first"`, the operator emits a row when it arrives. It then drops rows of the same key whose
event time is less than `within` later. The first row at least `within` later is emitted again. With
`keep="last"`, the output is upserts. The operator emits a row if it is not earlier than the last one,
and the row replaces that one.

With `order="event_time"`, rows are buffered until the watermark has passed them (`rows_by_time`), and
then taken in the order of event time. So the result does not depend on the order of arrival. Late rows
go to the side output `"late"`.

State is one time per key, in columns. The operator drops a time once no later row depends on it. With
`within`, a row that its split's watermark had passed goes to the side output `"late"`, because the time
of its key may have been dropped. The same holds for a row whose split was idle while the time was
dropped; such rows are counted as `late_purged`.

```python
check_example(
    OperatorExample(
        lambda clicks: clicks.key_by("id").dedup(within="10ms"),
        pa.schema([("id", pa.int64()), ("at", pa.int64())]),
        [
            {"id": 1, "at": 0},
            {"id": 1, "at": 4},
            {"id": 2, "at": 4},
            WatermarkMark(3),
            {"id": 1, "at": 10},
            {"id": 1, "at": 12},
        ],
        on="at",
    ),
    {"out": [{"id": 1, "at": 0}, {"id": 2, "at": 4}, {"id": 1, "at": 10}]},
)
```
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.aggregates.cells import Cell, SlotArray
from rheos.core.aggregates.contract import Agg, RunningForm, State
from rheos.core.aggregates.segments import Ints, Segments
from rheos.core.graph.changelog import INSERT, OP, UPDATE_AFTER
from rheos.core.graph.nodes import MAIN, Order
from rheos.core.operators.contract import (
    Operator,
    OperatorContext,
    Out,
    PortType,
    Restored,
    RowOrder,
    SplitSpec,
)
from rheos.core.operators.group_progress import GroupProgress
from rheos.core.operators.keyed_state import keyed_shape
from rheos.core.operators.late_rows import LATE, emit_late
from rheos.core.operators.records import HiddenColumns, hidden_column, with_hidden
from rheos.core.operators.rows_by_time import RowsByTime, held_shapes
from rheos.core.operators.running import STATE, RunningStateOperator
from rheos.core.operators.running_disk import DiskRunningState
from rheos.core.operators.running_state import AGG, KeptAggregates, MemoryRunningState, running_shape
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, SWM, TS, WM, Batch, strip_hidden
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart, StateKind
from rheos.core.state.key_groups import refuse_null_keys

Keep = Literal["first", "last"]

FORGOTTEN = "forgotten"
"""Name of the state with the time, for each key group, up to which its keys were dropped."""
_UNTIL = "until"
_PART = f"{AGG}{_UNTIL}.best"
_NEVER, _ALWAYS = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_DROPPED, _NEW, _AGAIN = 0, 1, 2
_FEWEST = 1 << 10
"""Minimum number of keys before any is forgotten."""


@dataclass(frozen=True)
class DedupSpec(SplitSpec):
    keep: Keep
    within_ms: int | None
    by_time: bool
    """Whether the stream has event time."""
    order: Order = "arrival"

    kind: ClassVar[str] = "dedup"
    prepares_state: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return DedupOperator(ctx, self)

    def looks_at(self, column: str) -> bool | None:
        if self.order == "event_time":
            return {WM: True, SWM: False}.get(column)
        return True if column == WM and self.within_ms is not None else None

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        states = {STATE: running_shape(ports[0], self.kept, ports[0].schema)}
        if self.order == "event_time":
            states |= held_shapes(ports)
        elif self.within_ms is not None:
            states[FORGOTTEN] = keyed_shape(
                ports[0], StatePurpose.PROGRESS, TypeShape(name="watermark")
            )
        return states

    @property
    def kept(self) -> dict[str, Agg]:
        return {_UNTIL: KeptTime(TS if self.by_time else None, self.keep, self.within_ms)}

    def summary(self) -> str:
        within = "" if self.within_ms is None else f" within {self.within_ms} ms"
        order = " by event time" if self.order == "event_time" else ""
        return f"keeps the {self.keep} of each key{order}{within}"

    def row_order(self) -> RowOrder:
        return RowOrder.OF_SPLIT if self.by_time else RowOrder.OF_ARRIVAL


class DedupOperator(RunningStateOperator):
    def __init__(self, ctx: OperatorContext, spec: DedupSpec) -> None:
        port = ctx.ports[0]
        super().__init__(ctx, {STATE: KeptAggregates(port.schema, port.keys, spec.kept)})
        self._spec = spec
        self._watermark = MIN_TIMESTAMP_MS
        self._looked_at = MIN_TIMESTAMP_MS
        """Time up to which expired keys are already dropped."""
        self._forgotten = GroupProgress(ctx.key_groups, ctx.max_parallelism)
        self._waiting = RowsByTime(ctx) if spec.order == "event_time" else None

    def open(self, restored: Restored) -> None:
        super().open(restored)
        self._forgotten.restore(restored.get(FORGOTTEN, ()))
        if self._waiting is not None:
            self._waiting.restore(restored)
        self._watermark = self._looked_at = MIN_TIMESTAMP_MS

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if self._waiting is not None:
            self._waiting.add(port, (yield from self._waiting.in_time(port, batch)))
            return
        if batch.num_rows and self._spec.within_ms is not None:
            batch = yield from self._in_time(batch)
        if batch.num_rows:
            yield from self._without_duplicates(batch)

    def _without_duplicates(self, batch: Batch) -> Iterator[Out]:
        """Yield the rows that are not duplicates, with the columns of the output."""
        codes = self.state.run(self.slots_of(batch), batch)[_UNTIL].to_numpy()
        output = self.ctx.outputs.get(MAIN)
        kept = codes != _DROPPED
        if output is None or not kept.any():
            return
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        if self._spec.keep == "last":
            columns[OP] = pc.if_else(pa.array(codes == _NEW), INSERT, UPDATE_AFTER)
        arrays = [columns[name] for name in output.schema.names]
        rows = pa.RecordBatch.from_arrays(arrays, schema=output.schema)
        yield Out(rows if kept.all() else rows.filter(pa.array(kept)))

    def _in_time(self, batch: Batch) -> Generator[Out, None, Batch]:
        """Return the rows that are not late, and emit the late ones."""
        refuse_null_keys(batch, self._keys, self.ctx.ports[0].keyed_at)
        marks = hidden_column(batch, WM)
        late = batch.column(TS).to_numpy() <= (MIN_TIMESTAMP_MS if marks is None else marks)
        passed = late | self._forgotten.passed(batch, self._keys, self._looked_at)
        if not passed.any():
            return batch
        for name, rows in (("late", late), ("late_purged", passed & ~late)):
            if rows.any():
                self.ctx.count(name, int(rows.sum()))
        yield from emit_late(self.ctx, LATE, batch.filter(pa.array(passed)))
        return batch.filter(pa.array(~passed))

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        within = self._spec.within_ms
        if self._waiting is not None:
            for _, due in self._waiting.take(timestamp_ms):
                hidden = HiddenColumns(due.column(TS).to_numpy())
                rows = with_hidden(strip_hidden(due), self.ctx.ports[0].schema, hidden)
                yield from self._without_duplicates(rows)
        self._watermark = max(timestamp_ms, self._watermark)
        if within is not None and self._watermark - self._looked_at >= within:
            self._looked_at = self._watermark
            self._forget(self._watermark + 1)

    def next_keys(self) -> None:
        super().next_keys()
        self._watermark = self._looked_at = MIN_TIMESTAMP_MS
        if self._waiting is not None:
            self._waiting.next_keys()

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        snapshot = super().snapshot(checkpoint)
        if self._waiting is not None:
            snapshot.parts += self._waiting.parts()
        elif self._spec.within_ms is not None:
            snapshot.parts.append(self._progress())
        return snapshot

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        parts = super().savepoint(snapshot)
        if self._waiting is not None:
            return [*parts, *self._waiting.savepoint()]
        return parts if self._spec.within_ms is None else [*parts, self._progress()]

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        super().snapshot_failed(checkpoint)
        if self._waiting is not None:
            self._waiting.force_full()

    def _progress(self) -> SnapshotPart:
        forgotten = self._forgotten.table(self._looked_at)
        return SnapshotPart(FORGOTTEN, StateKind.KEYED, lambda: forgotten)

    def _forget(self, through: int) -> None:
        """Drop the keys that end at or before `through`. Later rows are after the watermark, or late,
        so they do not depend on these keys."""
        if isinstance(self.state, DiskRunningState):
            self.state.drop(lambda parts: parts[_PART].to_numpy() <= through)
            return
        assert isinstance(self.state, MemoryRunningState)
        if len(self.state) < _FEWEST:
            return
        until = self.state.freeze().parts[_PART]().to_numpy()
        left = np.flatnonzero(until > through)
        if 2 * len(left) <= len(until):
            self.state.keep(left)


@dataclass(frozen=True)
class KeptTime(Agg):
    """Selection of emitted rows, as a running aggregate of their times. State is a time per key, whose
    shape is that of a maximum."""

    kind: ClassVar[str] = "max"

    keep: Keep = "first"
    within_ms: int | None = None

    def __str__(self) -> str:
        return f"max({_UNTIL})"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        return pa.int8()

    def windowed(self, schema: pa.Schema) -> State:
        raise NotImplementedError

    def running(self, schema: pa.Schema) -> RunningForm:
        within = _ALWAYS if self.within_ms is None else self.within_ms
        cell = FirstCell if self.keep == "first" else LastCell
        return RunningForm(partial(cell, within), pa.int64())


class _TimeCell(Cell):
    """A time per key, until which the key affects later rows."""

    def __init__(self, within: int) -> None:
        self._within = within
        self._until = SlotArray(np.int64, _NEVER)
        self.parts = {"best": self._until}

    def _span_ends(self, times: Ints) -> Ints:
        """Return the ends of the span `within` after these times."""
        room = _ALWAYS - np.maximum(times, 0)
        after: Ints = np.where(room < self._within, _ALWAYS, times + np.minimum(self._within, room))
        return after


class FirstCell(_TimeCell):
    """The time per key at which duplicates end."""

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        until = self._until.values[rows.slots]
        kept = np.zeros(rows.rows, dtype=np.int8)
        if column is None:
            # Without times a key is new once.
            kept[rows.starts[until == _NEVER]] = _NEW
            self._until.values[rows.slots] = _ALWAYS
            return pa.array(rows.scatter(kept))
        times: Ints = rows.gather(column.to_numpy())
        segment = np.repeat(np.arange(len(rows.starts)), rows.lengths)
        left: Ints = np.arange(rows.rows)
        while True:
            # The first row of each key that is not a duplicate is emitted; later rows are compared with
            # it.
            left = left[times[left] >= until[segment[left]]]
            if not len(left):
                break
            of = segment[left]
            first = left[np.flatnonzero(np.r_[True, of[1:] != of[:-1]])]
            kept[first] = _NEW
            until[segment[first]] = self._span_ends(times[first])
            if self._within == _ALWAYS:
                break
        self._until.values[rows.slots] = until
        return pa.array(rows.scatter(kept))


class LastCell(_TimeCell):
    """The time per key of its last row, plus `within`."""

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        before = self._until.values[rows.slots]
        if column is None:
            kept = np.full(rows.rows, _AGAIN, dtype=np.int8)
            kept[rows.starts[before == _NEVER]] = _NEW
            self._until.values[rows.slots] = _ALWAYS
            return pa.array(rows.scatter(kept))
        times: Ints = rows.gather(column.to_numpy())
        latest = rows.accumulate(np.maximum, times.copy(), self._time(before))
        carry: Ints = np.empty_like(latest)
        carry[1:] = latest[:-1]
        carry[rows.starts] = self._time(before)
        new = (carry == _NEVER) | (times >= self._span_ends(carry))
        codes = np.where(times < carry, _DROPPED, np.where(new, _NEW, _AGAIN)).astype(np.int8)
        self._until.values[rows.slots] = self._ending(latest[rows.ends])
        return pa.array(rows.scatter(codes))

    def _time(self, until: Ints) -> Ints:
        if self._within == _ALWAYS:
            return until
        times: Ints = np.where(until == _NEVER, _NEVER, until - self._within)
        return times

    def _ending(self, times: Ints) -> Ints:
        return times if self._within == _ALWAYS else self._span_ends(times)
