"""`interval_join`: pairs of rows of two streams that have the same key and are close in time.

A left row at time *t* and a right row form a pair if the right row's time is between `t + lower` and `t
+ upper`, both included. The join emits a pair as soon as both rows have arrived. Its time is the later
of the two. For an outer side (`how`), the join also emits each row without a partner, with nulls. It
does so when the watermark has passed the last time that a partner may have. The row gets that time,
unless its own is later, so it is never late.

           lower = -2, upper = 5
    left            t=10
    right     7  8............15  16        pairs with rows from 8 to 15

Late rows (`late`) are not joined. They are counted, and go to the side outputs `late_left` and
`late_right`. State keeps a row until the watermark has passed the last time of a partner.

```python
shipped = [
    {"id": 1, "city": "Delft", "at": 10},
    {"id": 2, "city": "Ghent", "at": 12},
]
paid = [{"order": 1, "sum": 5, "paid_at": 8}, {"order": 1, "sum": 7, "paid_at": 15}]
check_example(
    OperatorExample(
        lambda orders, payments: orders.key_by("id").interval_join(
            payments.key_by("order"), between=("-2ms", "5ms"), how="left"
        ),
        pa.schema([("id", pa.int64()), ("city", pa.string()), ("at", pa.int64())]),
        [Right(paid[0]), shipped[0], Right(paid[1]), WatermarkMark(11), shipped[1]],
        on="at",
        right=pa.schema([("order", pa.int64()), ("sum", pa.int64()), ("paid_at", pa.int64())]),
        right_on="paid_at",
    ),
    {
        "out": [
            {**shipped[0], **paid[0]},
            {**shipped[0], **paid[1]},
            {**shipped[1], "order": None, "sum": None, "paid_at": None},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import Operator, OperatorContext, Out, PortType, Restored, SplitSpec
from rheos.core.operators.group_progress import GroupProgress
from rheos.core.operators.joins.joined_columns import LEFT, RIGHT, JoinedColumns, kept
from rheos.core.operators.joins.side import JoinSide
from rheos.core.operators.keyed_state import keyed_shape
from rheos.core.operators.late_rows import LATE_OF_TWO, not_late
from rheos.core.operators.origins import Origin, PairOfRows
from rheos.core.operators.records import hidden_column
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, SWM, TS, WM, Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart, StateKind
from rheos.core.state.key_groups import refuse_null_keys
from rheos.core.state.key_index import KeySlots
from rheos.core.state.numbered_rows import Numbers
from rheos.core.state.spill import SpillFolder

STATES = ("left", "right")
"""Names of the states that hold rows, by port."""

BEHIND = "joined behind"
"""Name of the state with the watermark of each key group, up to which rows have expired."""

TIDY_ROWS = 1 << 16
"""Number of arriving rows after which expired rows are removed. If more rows than this remained the
last time, their number applies instead."""

SPARE_KEYS = 1 << 18
"""Number of keys without rows that may be kept."""


@dataclass(frozen=True)
class IntervalJoinSpec(SplitSpec):
    """A join of rows by key and by the distance of their times."""

    lower_ms: int
    upper_ms: int
    how: str
    columns: JoinedColumns

    kind: ClassVar[str] = "interval_join"
    any_order: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> IntervalJoinOperator:
        return IntervalJoinOperator(ctx, self)

    def looks_at(self, column: str) -> bool | None:
        return True if column == WM else None

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        sides = _sides(self, ports, 1, None)
        found = {side.state: side.shape(port) for side, port in zip(sides, ports, strict=True)}
        progress = keyed_shape(ports[LEFT], StatePurpose.PROGRESS, TypeShape(name="watermark"))
        return {**found, BEHIND: progress}

    def summary(self) -> str:
        return f"{self.how}, from {self.lower_ms} to {self.upper_ms} ms"

    def origin(self) -> Origin:
        lower_ms, upper_ms = self.lower_ms, self.upper_ms
        return PairOfRows(
            self.columns, lambda left, right, window: lower_ms <= right - left <= upper_ms
        )


def _sides(
    spec: IntervalJoinSpec,
    ports: Sequence[PortType],
    max_parallelism: int,
    folder: SpillFolder | None,
) -> tuple[JoinSide, JoinSide]:
    reach = (spec.upper_ms, -spec.lower_ms)
    left, right = (
        JoinSide(
            STATES[port],
            ports[port],
            keeps=kept(spec.how)[port],
            reach_ms=reach[port],
            max_parallelism=max_parallelism,
            folder=folder,
        )
        for port in (LEFT, RIGHT)
    )
    return left, right


class IntervalJoinOperator(Operator):
    def __init__(self, ctx: OperatorContext, spec: IntervalJoinSpec) -> None:
        super().__init__(ctx)
        self._spec = spec
        folder = None if ctx.scratch is None else SpillFolder(ctx.scratch)
        self._sides = _sides(spec, ctx.ports, ctx.max_parallelism, folder)
        self._keys = KeySlots(len(ctx.ports[LEFT].keys))
        self._progress = GroupProgress(ctx.key_groups, ctx.max_parallelism)
        self._watermark = MIN_TIMESTAMP_MS
        self._tidy_after = TIDY_ROWS
        self._since_tidy = 0

    # --- rows -----------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        side = self._sides[port]
        refuse_null_keys(batch, side.keys, side.keyed_at)
        passed = self._progress.passed(batch, side.keys, self._watermark)
        batch = yield from not_late(self.ctx, LATE_OF_TWO[port], batch, passed)
        if not batch.num_rows or MAIN not in self.ctx.outputs:
            return
        stamps: Numbers = batch.column(TS).to_numpy()
        slots = self._keys.lookup_or_add([batch.column(key) for key in side.keys])
        lower, upper = self._spec.lower_ms, self._spec.upper_ms
        low, high = (lower, upper) if port == LEFT else (-upper, -lower)
        found = self._sides[1 - port].find(slots, stamps + low, stamps + high)
        paired = np.zeros(len(stamps), np.bool_)
        paired[found.by] = True
        waits = stamps + side.reach_ms > self._progress.reached(batch, side.keys, self._watermark)
        if waits.all():
            side.add(slots, batch, paired)
        elif waits.any():
            side.add(slots[waits], batch.filter(pa.array(waits)), paired[waits])
        self._since_tidy += len(stamps)
        side.rows.spill(self.ctx.state_bytes // 2)
        for by, places in found.pieces(self.ctx.batch_rows):
            yield Out(self._pairs(port, batch, by, places))
        alone = ~(paired | waits)
        if side.keeps and alone.any():
            yield from self._by_themselves(port, batch.filter(pa.array(alone)))

    def _pairs(self, port: int, batch: Batch, by: Numbers, places: Numbers) -> Batch:
        other = self._sides[1 - port]
        numbers, times = other.rows.at(places)
        other.match(numbers)
        columns = self._spec.columns
        rows = [
            batch.select(columns.of(port)).take(pa.array(by)),
            other.rows.take(numbers, columns.of(1 - port)),
        ]
        stamps = np.maximum(batch.column(TS).to_numpy()[by], times)
        reached = hidden_column(batch, SWM)
        if reached is not None:
            reached = reached[by]
        output = self.ctx.outputs[MAIN]
        return columns.batch((rows[port], rows[1 - port]), output, stamps, reached)

    def _by_themselves(self, port: int, batch: Batch) -> Iterator[Out]:
        """Emit rows that can find no partner when they arrive: its last possible time, which is before
        their own, has passed."""
        sides = (batch, None) if port == LEFT else (None, batch)
        stamps: Numbers = batch.column(TS).to_numpy()
        output = self.ctx.outputs[MAIN]
        yield Out(self._spec.columns.batch(sides, output, stamps, hidden_column(batch, SWM)))

    # --- time -----------------------------------------------------------------------------------------

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        if timestamp_ms <= self._watermark:
            return
        if MAIN in self.ctx.outputs:
            yield from self._without_partners(timestamp_ms)
        self._watermark = timestamp_ms
        for side in self._sides:
            side.drop(timestamp_ms)
        self._tidy()

    def _without_partners(self, watermark_ms: int) -> Iterator[Out]:
        """Emit rows that remain without a partner, in the order of their time."""
        alone = [side.alone(watermark_ms) for side in self._sides]
        stamps = [
            side.rows.take(numbers, [TS]).column(TS).to_numpy() + max(side.reach_ms, 0)
            for side, numbers in zip(self._sides, alone, strict=True)
        ]
        times = np.concatenate(stamps)
        ports = np.repeat([LEFT, RIGHT], [len(numbers) for numbers in alone])
        numbers = np.concatenate(alone)
        order = np.argsort(times, kind="stable")
        output, columns = self.ctx.outputs[MAIN], self._spec.columns
        for first in range(0, len(order), self.ctx.batch_rows):
            some = order[first : first + self.ctx.batch_rows]
            parts = []
            for port, side in enumerate(self._sides):
                mine = some[ports[some] == port]
                if len(mine):
                    rows = side.rows.take(numbers[mine], columns.of(port))
                    sides = (rows, None) if port == LEFT else (None, rows)
                    parts.append(columns.batch(sides, output, times[mine]))
            batch = parts[0]
            if len(parts) > 1:
                # Rows of the left side come first, each side in its order.
                back = np.argsort(np.argsort(ports[some], kind="stable"), kind="stable")
                batch = pa.concat_batches(parts).take(pa.array(back))
            yield Out(batch)

    def _tidy(self) -> None:
        """Copy the rows that are still needed, if they are less than half of all, and drop keys."""
        if self._since_tidy < self._tidy_after:
            return
        alive = sum(side.alive(self._watermark) for side in self._sides)
        dead_keys = len(self._keys) - alive
        if 2 * alive < sum(map(len, self._sides)) or dead_keys > max(SPARE_KEYS, alive):
            self._keys = KeySlots(len(self.ctx.ports[LEFT].keys))
            for side in self._sides:
                side.rebuild(self._keys, self._watermark)
                side.rows.spill(self.ctx.state_bytes // 2)
        self._since_tidy, self._tidy_after = 0, max(TIDY_ROWS, alive)

    # --- snapshots ------------------------------------------------------------------------------------

    def open(self, restored: Restored) -> None:
        self._progress.restore(restored.get(BEHIND, ()))
        for side in self._sides:
            side.restore(restored.get(side.state, ()), self._progress, self._keys)
            side.rows.spill(self.ctx.state_bytes // 2)

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        parts = [side.part(self._watermark) for side in self._sides]
        return Snapshot([*parts, self._progress_part()])

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        return [*(side.whole(self._watermark) for side in self._sides), self._progress_part()]

    def _progress_part(self) -> SnapshotPart:
        behind = self._progress.table(self._watermark)
        return SnapshotPart(BEHIND, StateKind.KEYED, lambda: behind)

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        for side in self._sides:
            side.force_full()

    def next_keys(self) -> None:
        self._watermark = MIN_TIMESTAMP_MS
        self._keys = KeySlots(len(self.ctx.ports[LEFT].keys))
        for side in self._sides:
            side.clear()
