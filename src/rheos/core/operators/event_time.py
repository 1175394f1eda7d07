"""`with_event_time`: assigns a new event time to rows downstream of a source.

Requirement: as in the source itself, the hidden columns of a row depend only on its split. Each row has
the number of its split (`__split`). The operator keeps the latest time of each split, and computes a
row's `__wm` from the rows of the split that arrived before it.

    split a   rows at   10   12        11   20          bound 3
    split b   rows at             40
              __wm       -    6    -    8    8          (- is MIN_TIMESTAMP_MS)

The operator is in the chain of its source, which reports the splits that are not read to their ends.
The operator's watermark is the least watermark of these splits. Downstream operators receive this
watermark instead of the source's.

```python
came = check_example(
    OperatorExample(
        lambda clicks: clicks.with_event_time(
            rh.Watermark.bounded_out_of_orderness("3ms", on="sent")
        ),
        pa.schema([("page", pa.string()), ("sent", pa.int64())]),
        [{"page": "home", "sent": 10}, {"page": "cart", "sent": 12}, {"page": "home", "sent": 11}],
    )
)
assert sorted((row["__ts"], row["page"]) for row in came["out"]) == [
    (10, "home"),
    (11, "home"),
    (12, "cart"),
]
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.graph.nodes import MAIN
from rheos.core.graph.render import spell_watermark
from rheos.core.graph.types import without
from rheos.core.graph.watermark import Watermark
from rheos.core.operators.contract import (
    Needed,
    Operator,
    OperatorContext,
    Out,
    PortType,
    Restored,
    RowSpec,
)
from rheos.core.operators.event_times import split_watermarks
from rheos.core.operators.origins import Origin, SameRow
from rheos.core.operators.source import SourceOperator
from rheos.core.operators.source_split import NO_ORDER
from rheos.core.operators.watermarks import progress_shapes, reach_of
from rheos.core.protocol.elements import (
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    SPLIT,
    SWM,
    TS,
    WM,
    Batch,
    visible,
)
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.polars_frames import table_of_rows
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart, StateKind

LATEST = "event time"
"""Name of the state."""

_STATE = pa.schema(
    [
        pa.field("split", pa.int64(), nullable=False),
        pa.field("max_ts", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class AssignedTimeSpec(RowSpec):
    """Assigns to each row the event time in one of its columns."""

    watermark: Watermark

    @property
    def stamps(self) -> Watermark | None:
        return self.watermark

    def columns_read(self, port: int, columns: pa.Schema, needed: Needed) -> frozenset[str] | None:
        return needed[MAIN] | self.watermark.columns_read(columns)

    def narrowed(self, tag: str, columns: pa.Schema, gone: frozenset[str]) -> pa.Schema:
        return without(columns, gone)

    def origin(self) -> Origin:
        return SameRow()

    def summary(self) -> str:
        return spell_watermark(self.watermark)


@dataclass(frozen=True)
class EventTimeSpec(AssignedTimeSpec):
    """Assigns a new event time to the rows of a source, and watermarks that follow from it."""

    kind: ClassVar[str] = "with_event_time"
    keeps_splits: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return EventTimeOperator(ctx, self)

    def looks_at(self, column: str) -> bool | None:
        return {WM: False, SWM: False, SPLIT: True}.get(column)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        value = TypeShape(name="event time", label=self.watermark.read_from)
        latest = StateShape(kind=StateKind.UNION, holds=StatePurpose.PROGRESS, value=value)
        return {LATEST: latest, **progress_shapes(self.watermark)}


class EventTimeOperator(Operator):
    """Assigns event times and watermarks to the batches of a source. A batch belongs to one split:
    batches of a source do, and no operator of the chain merges batches.

    Every subtask restores the state of all splits, as in the source.
    """

    def __init__(self, ctx: OperatorContext, spec: EventTimeSpec) -> None:
        super().__init__(ctx)
        self._bound_ms = spec.watermark.bound_ms
        self._reach = reach_of(ctx, spec.watermark)
        self._periodic_us = 0
        idle_after_ms = spec.watermark.idle_after_ms
        self._idle_after_us = None if idle_after_ms is None else idle_after_ms * 1000
        output = ctx.outputs.get(MAIN)
        self._schema = None if output is None else output.schema
        self._columns = visible(ctx.ports[0].schema).names
        self._latest: dict[int, int] = {}
        self._watermark = MIN_TIMESTAMP_MS
        self._source: SourceOperator | None = None

    def follow(self, source: SourceOperator) -> None:
        """Set the source of the chain. The batch runtime does not call this: there the watermark rises
        when all rows have arrived."""
        self._source = source
        if self._idle_after_us is not None:
            source.wake_for_idle(self._idle_after_us)
        if self._reach.period_ms is not None:
            source.wake_every(self._reach.period_ms * 1000)

    def open(self, restored: Restored) -> None:
        self._reach.restore(restored)
        for table in restored.get(LATEST, ()):
            for row in table.to_pylist():
                known = self._latest.get(row["split"], MIN_TIMESTAMP_MS)
                self._latest[row["split"]] = max(known, row["max_ts"])

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if not batch.num_rows:
            return
        split = batch.column(SPLIT)[0].as_py()
        before = self._latest.get(split, MIN_TIMESTAMP_MS)
        ts = self._reach.times(batch, first=before == MIN_TIMESTAMP_MS)
        reached = np.maximum.accumulate(self._reach.of_rows(str(split), batch, ts))
        self._latest[split] = max(before, int(reached[-1]))
        if self._schema is None:
            return
        if split == NO_ORDER:
            wm = np.full(len(ts), MIN_TIMESTAMP_MS)
        else:
            wm = split_watermarks(reached, before, self._bound_ms)
        hidden = {TS: pa.array(ts), WM: pa.array(wm), SPLIT: batch.column(SPLIT)}
        if SWM in self._schema.names:
            hidden[SWM] = pa.array(self._merged(split, wm))
        shown = {name: batch.column(name) for name in self._columns}
        columns = [hidden[name] if name in hidden else shown[name] for name in self._schema.names]
        yield Out(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _merged(self, split: int, wm: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the operator's watermark before each of the next rows of a split. `wm` has the split's
        watermark before each row."""
        merged = np.clip(wm, None, min(self._marks(but=split), default=MAX_TIMESTAMP_MS))
        np.clip(merged, self._watermark, None, out=merged)
        self._watermark = int(merged[-1])
        return merged

    # --- the watermark ------------------------------------------------------------------------------

    def watermark(self) -> int:
        """Return the least watermark of the splits that are neither finished nor idle. It never
        falls."""
        if self._reach.period_ms is not None:
            self._reach_periodically(self._reach.period_ms)
        marks = self._marks()
        if marks:
            self._watermark = max(self._watermark, min(marks))
        elif not self.idle():
            self._watermark = MAX_TIMESTAMP_MS
        return self._watermark

    def _reach_periodically(self, period_ms: int) -> None:
        assert self._source is not None
        now_us = self.ctx.clock.monotonic_us()
        if now_us < self._periodic_us:
            return
        self._periodic_us = now_us + period_ms * 1000
        self._reach.look()
        for split, _ in self._source.unread(None):
            reached_ms = self._reach.periodic(str(split), self.ctx.clock.now_ms())
            self._latest[split] = max(self._latest.get(split, MIN_TIMESTAMP_MS), reached_ms)

    def idle(self) -> bool:
        """Return whether the operator is idle. It is idle if unread splits exist or may be discovered,
        and all existing ones have had no rows for `idle_after`."""
        assert self._source is not None
        unread = self._source.unread(self._idle_after_us)
        return (bool(unread) or self._source.may_find) and all(idle for _, idle in unread)

    def _marks(self, but: int | None = None) -> list[int]:
        assert self._source is not None
        return [
            max(self._latest.get(split, MIN_TIMESTAMP_MS) - self._bound_ms - 1, MIN_TIMESTAMP_MS)
            for split, idle in self._source.unread(self._idle_after_us)
            if not idle and split != but
        ]

    # --- state ----------------------------------------------------------------------------------------

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        if self._source is not None:
            unread = {split for split, _ in self._source.unread(None)}
            self._latest = {split: ts for split, ts in self._latest.items() if split in unread}
        rows = [{"split": split, "max_ts": ts} for split, ts in sorted(self._latest.items())]
        part = SnapshotPart(LATEST, StateKind.UNION, lambda: table_of_rows(rows, _STATE))
        return Snapshot(parts=[part, *self._reach.parts(str(row["split"]) for row in rows)])
