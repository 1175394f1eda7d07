"""`temporal_join`: joins each row with the version of the other side that was valid at the row's time.

The right side is a versioned table: each of its rows is a version of its key, valid from its own time
until that of the next version. Rows of both sides are buffered until the watermark has passed them. By
then all earlier versions are known, and each left row is joined with the last version at or before its
time. If two versions have the same time, the greater one is valid, compared column by column. State
holds one version of each key, and the buffered rows.

    right    EUR 1.1 at 10            EUR 1.2 at 20
    left               EUR at 15 ─► 1.1           EUR at 20 ─► 1.2

A version may become valid later than its own time (`delay_ms`), as if it arrived with a delay. The join
then buffers versions for longer. A version older than `max_age_ms` is not joined.

Late rows are not joined, as with `interval_join`; late versions are ignored.

```python
check_example(
    OperatorExample(
        lambda orders, rates: orders.key_by("currency").temporal_join(rates.key_by("currency")),
        pa.schema([("currency", pa.string()), ("sum", pa.int64()), ("at", pa.int64())]),
        [
            {"currency": "EUR", "sum": 3, "at": 20},
            {"currency": "EUR", "sum": 2, "at": 15},
            Right({"currency": "EUR", "rate": 1.2, "since": 20}),
            Right({"currency": "EUR", "rate": 1.1, "since": 10}),
            WatermarkMark(17),
            {"currency": "USD", "sum": 1, "at": 19},
        ],
        on="at",
        right=pa.schema(
            [("currency", pa.string()), ("rate", pa.float64()), ("since", pa.int64())]
        ),
        right_on="since",
    ),
    {
        "out": [
            {"currency": "EUR", "sum": 2, "at": 15, "rate": 1.1, "since": 10},
            {"currency": "EUR", "sum": 3, "at": 20, "rate": 1.2, "since": 20},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from rheos.core.graph.nodes import MAIN
from rheos.core.operators.buffered_rows import BufferedRows
from rheos.core.operators.contract import Operator, OperatorContext, Out, PortType, Restored, SplitSpec
from rheos.core.operators.joins.joined_columns import LEFT, RIGHT, JoinedColumns
from rheos.core.operators.joins.latest_rows import LatestRows
from rheos.core.operators.keyed_state import columns_shape, keyed_shape
from rheos.core.operators.late_rows import LATE_OF_TWO, not_late
from rheos.core.operators.origins import Origin, PairOfRows
from rheos.core.operators.sorting import sort_by_time, sort_rows
from rheos.core.protocol.elements import (
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    SWM,
    TS,
    WM,
    Batch,
    visible,
)
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart
from rheos.core.state.key_groups import refuse_null_keys
from rheos.core.state.numbered_rows import Numbers
from rheos.core.state.slots import Slots

WAITING = (("left", "left behind"), ("right", "right behind"))
"""Names of two states for each port: the buffered rows, and the watermark up to which rows were joined.
"""

VERSIONS = "versions"
"""Name of the state with the current versions."""


@dataclass(frozen=True)
class TemporalJoinSpec(SplitSpec):
    """A join of rows with the version that was valid at their time."""

    how: str
    columns: JoinedColumns
    max_age_ms: int | None = None
    """Maximum time in ms from a version to the row; None if versions do not expire."""
    delay_ms: int = 0
    """Minimum time in ms from a version to the row."""

    kind: ClassVar[str] = "temporal_join"
    any_order: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> TemporalJoinOperator:
        return TemporalJoinOperator(ctx, self)

    def looks_at(self, column: str) -> bool | None:
        # The output is emitted as the watermark advances, and carries its own progress.
        return {WM: True, SWM: False}.get(column)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        found = {}
        for port, (rows, behind) in zip(ports, WAITING, strict=True):
            found[rows] = keyed_shape(port, StatePurpose.ROWS, columns_shape(visible(port.schema)))
            found[behind] = keyed_shape(port, StatePurpose.PROGRESS, TypeShape(name="watermark"))
        return {**found, VERSIONS: found[WAITING[RIGHT][0]]}

    def summary(self) -> str:
        delay = f", after {self.delay_ms} ms" if self.delay_ms else ""
        age = "" if self.max_age_ms is None else f", for {self.max_age_ms} ms"
        return f"{self.how}{delay}{age}"

    def origin(self) -> Origin:
        return PairOfRows(
            self.columns, lambda left, right, window: self._joins(left, right), newest=True
        )

    def _joins(self, left_ms: int, right_ms: int) -> bool:
        """Return whether a version may be valid at the time of a row."""
        age_ms = left_ms - right_ms
        return self.delay_ms <= age_ms and (self.max_age_ms is None or age_ms <= self.max_age_ms)

    def valid_until_ms(self, watermark_ms: int) -> int:
        """Return the time up to which versions are valid for rows at the watermark."""
        if watermark_ms >= MAX_TIMESTAMP_MS:
            return watermark_ms
        return max(MIN_TIMESTAMP_MS, watermark_ms - self.delay_ms)


class TemporalJoinOperator(Operator):
    def __init__(self, ctx: OperatorContext, spec: TemporalJoinSpec) -> None:
        super().__init__(ctx)
        self._spec = spec
        self._schemas = [pa.schema([*visible(port.schema), (TS, pa.int64())]) for port in ctx.ports]
        self._waiting = [
            BufferedRows(schema, port.keys, ctx.key_groups, ctx.max_parallelism, names)
            for schema, port, names in zip(self._schemas, ctx.ports, WAITING, strict=True)
        ]
        right = ctx.ports[RIGHT]
        self._versions = LatestRows(VERSIONS, self._schemas[RIGHT], right.keys, ctx.max_parallelism)
        self._watermark = MIN_TIMESTAMP_MS

    # --- rows -----------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        of = self.ctx.ports[port]
        refuse_null_keys(batch, of.keys, of.keyed_at)
        batch = yield from self._in_time(port, batch)
        if MAIN in self.ctx.outputs:
            self._waiting[port].add(batch.select(self._schemas[port].names))

    def _in_time(self, port: int, batch: Batch) -> Generator[Out, None, Batch]:
        passed = self._waiting[port].passed(batch, self._progress[port])
        return (yield from not_late(self.ctx, LATE_OF_TWO[port], batch, passed))

    @property
    def _progress(self) -> tuple[int, int]:
        """Return the time up to which the rows of each port were taken."""
        return self._watermark, self._spec.valid_until_ms(self._watermark)

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        if timestamp_ms <= self._watermark:
            return
        left = self._waiting[LEFT].take(timestamp_ms)
        right = self._waiting[RIGHT].take(self._spec.valid_until_ms(timestamp_ms))
        fresh = self._fresh(right)
        if left is not None:
            yield from self._joined(sort_by_time(left, TS), *fresh)
        self._versions.put(*fresh)
        self._watermark = timestamp_ms

    def _fresh(self, right: Batch | None) -> tuple[Slots, Batch]:
        """Return the versions that become valid, sorted by slot, and by time within a slot."""
        if right is None:
            return np.zeros(0, np.int32), pa.RecordBatch.from_pylist([], self._schemas[RIGHT])
        rows = sort_rows(right, TS, self.ctx.ports[RIGHT].type.time_column)
        slots = self._versions.slots_of(rows)
        order = np.argsort(slots, kind="stable")
        return slots[order], rows.take(pa.array(order))

    def _joined(self, left: Batch, slots: Slots, fresh: Batch) -> Iterator[Out]:
        output, columns = self.ctx.outputs[MAIN], self._spec.columns
        stamps: Numbers = left.column(TS).to_numpy()
        of_left = self._versions.known(left, self.ctx.ports[LEFT].keys)
        times: Numbers = fresh.column(TS).to_numpy()
        newest = latest(slots, times, of_left, stamps - self._spec.delay_ms)
        older = self._versions.find(of_left)
        self._expire(stamps, newest, older, times)
        there = (newest >= 0) | (older >= 0)
        chosen = np.arange(len(stamps)) if self._spec.how == "left" else np.flatnonzero(there)
        for first in range(0, len(chosen), self.ctx.batch_rows):
            some = chosen[first : first + self.ctx.batch_rows]
            rows = left.select(columns.of(LEFT)).take(pa.array(some))
            right = self._right(fresh, newest[some], older[some])
            yield Out(columns.batch((rows, right), output, stamps[some]))

    def _expire(self, stamps: Numbers, newest: Numbers, older: Numbers, times: Numbers) -> None:
        """Mark the versions that are too old for their row as missing (-1).

        Args:
            stamps: Times of the rows.
            newest: For each row the place of its version among the fresh ones, or -1. Changed.
            older: For each row the number of the last version before the fresh ones, or -1. Changed.
            times: Times of the fresh versions.
        """
        if self._spec.max_age_ms is None:
            return
        least = stamps - self._spec.max_age_ms
        rows = np.flatnonzero(newest >= 0)
        expired = rows[times[newest[rows]] < least[rows]]
        # A fresh version is never older than the one before it.
        newest[expired] = older[expired] = -1
        rows = np.flatnonzero((newest < 0) & (older >= 0))
        if len(rows):
            of_older = self._versions.take(older[rows], [TS]).column(TS).to_numpy()
            older[rows[of_older < least[rows]]] = -1

    def _right(self, fresh: Batch, newest: Numbers, older: Numbers) -> Batch:
        """Return the versions of some rows: a fresh one, otherwise an older one, otherwise nulls."""
        names = self._spec.columns.of(RIGHT)
        parts = [fresh.select(names)]
        known = older[(newest < 0) & (older >= 0)]
        if len(known):
            parts.append(self._versions.take(known, names))
        place = newest.copy()
        place[(newest < 0) & (older >= 0)] = fresh.num_rows + np.arange(len(known))
        return pa.concat_batches(parts).take(pa.array(place, mask=place < 0))

    # --- snapshots ------------------------------------------------------------------------------------

    def open(self, restored: Restored) -> None:
        for held, (rows, behind) in zip(self._waiting, WAITING, strict=True):
            held.restore(restored.get(rows, ()), restored.get(behind, ()))
        self._versions.restore(restored.get(VERSIONS, ()))

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        held = zip(self._waiting, self._progress, strict=True)
        parts = [part for rows, reached_ms in held for part in rows.parts(reached_ms)]
        return Snapshot([*parts, self._versions.part()])

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        return [
            *(
                part
                for rows, reached_ms in zip(self._waiting, self._progress, strict=True)
                for part in rows.savepoint(reached_ms)
            ),
            self._versions.whole(),
        ]

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        for held in self._waiting:
            held.force_full()
        self._versions.force_full()

    def next_keys(self) -> None:
        # All buffered rows have been taken already.
        self._versions.clear()
        self._watermark = MIN_TIMESTAMP_MS


def latest(slots: Slots, stamps: Numbers, of: Slots, at: Numbers) -> Numbers:
    """Return for each look-up the last place of its slot whose time is not later, or -1 if no such
    place exists. The places are sorted by slot, and by time within a slot."""
    if not len(slots) or not len(of):
        return np.full(len(of), -1, np.int64)
    # Times by their rank, so that slot and time are one number.
    times = np.unique(stamps)
    span = np.int64(len(times) + 1)
    words = slots * span + np.searchsorted(times, stamps) + 1
    asked = of * span + np.searchsorted(times, at, side="right")
    found = np.searchsorted(words, asked, side="right") - 1
    return np.where((found >= 0) & (slots[found] == of), found, -1)
