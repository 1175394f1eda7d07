"""`window_join`: joins rows of two streams that have the same key and are in the same window.

Windows are computed from the rows of both sides together, so a session contains rows of both. When the
watermark has passed a window's end, the join emits all pairs of the window. If a side is kept (`how`),
it also emits that side's rows without a partner. A result has the columns of both sides, `window_start`
and `window_end`. Its time is the end of the window, less 1 ms.

```python
def window(first_ms: int) -> dict:
    start = datetime.fromtimestamp(first_ms / 1000, UTC)
    return {"window_start": start, "window_end": start + timedelta(milliseconds=10)}

shown = {"page": "home", "ad": 1, "at": 3}
check_example(
    OperatorExample(
        lambda views, clicks: views.key_by("page").window_join(
            clicks.key_by("page"), rh.Tumbling("10ms"), how="left"
        ),
        pa.schema([("page", pa.string()), ("ad", pa.int64()), ("at", pa.int64())]),
        [
            Right({"page": "home", "user": "ada", "then": 1}),
            shown,
            Right({"page": "home", "user": "bo", "then": 9}),
            WatermarkMark(9),
            {**shown, "at": 12},
        ],
        on="at",
        right=pa.schema([("page", pa.string()), ("user", pa.string()), ("then", pa.int64())]),
        right_on="then",
    ),
    {
        "out": [
            {**shown, "user": "ada", "then": 1, **window(0)},
            {**shown, "user": "bo", "then": 9, **window(0)},
            {**shown, "at": 12, "user": None, "then": None, **window(10)},
        ]
    },
)
```
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from rheos.core.graph.nodes import MAIN
from rheos.core.graph.windows import Window
from rheos.core.operators.contract import Operator, OperatorContext, Out, PortType, Restored, SplitSpec
from rheos.core.operators.joins.joined_columns import LEFT, RIGHT, JoinedColumns, kept
from rheos.core.operators.joins.united_rows import UnitedRows
from rheos.core.operators.late_rows import LATE_OF_TWO
from rheos.core.operators.origins import Origin, PairOfRows
from rheos.core.operators.records import HiddenColumns, with_hidden
from rheos.core.operators.window.base import WindowOperator
from rheos.core.operators.window.pane_columns import END
from rheos.core.operators.window.process import WindowRowsOperator
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.operators.window.states import window_states
from rheos.core.operators.window.trigger import Firing
from rheos.core.protocol.elements import SWM, WM, Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shapes import StateShape
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart
from rheos.core.state.key_groups import refuse_null_keys
from rheos.core.state.key_index import KeySlots
from rheos.core.state.numbered_rows import Numbers
from rheos.core.state.timed_rows import Matches

_TIME = pa.timestamp("ms", "UTC")


@dataclass(frozen=True)
class BothSidesSpec(SplitSpec):
    """Windows over the rows of two streams."""

    window: Window

    any_order: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return BothSidesOperator(ctx, self)

    @abstractmethod
    def windows(self, ctx: OperatorContext, united: UnitedRows) -> WindowOperator:
        """Return the window operator for the united rows."""

    @property
    def as_rows(self) -> WindowSpec:
        """Return the spec of windows over one stream that keep their rows."""
        return WindowSpec(self.window, 0, {}, fn=self)

    def looks_at(self, column: str) -> bool | None:
        # The output is emitted as the watermark advances, and carries its own progress.
        return {WM: True, SWM: False}.get(column)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        return window_states(self.as_rows, UnitedRows(ports).port)


@dataclass(frozen=True)
class WindowJoinSpec(BothSidesSpec):
    """Pairs of rows by key and window."""

    how: str
    columns: JoinedColumns

    kind: ClassVar[str] = "window_join"

    def windows(self, ctx: OperatorContext, united: UnitedRows) -> WindowOperator:
        return _PairsOfWindows(ctx, self, united)

    def summary(self) -> str:
        return f"{self.how}, {self.window}"

    def origin(self) -> Origin:
        return PairOfRows(self.columns, _in_one_window)


def _in_one_window(left: int, right: int, window: tuple[int, int] | None) -> bool:
    """Return whether both times are in the window."""
    return window is None or (window[0] <= left < window[1] and window[0] <= right < window[1])


class BothSidesOperator(Operator):
    """Operator that passes the united rows of both sides to one window operator."""

    def __init__(self, ctx: OperatorContext, spec: BothSidesSpec) -> None:
        super().__init__(ctx)
        self._united = UnitedRows(ctx.ports)
        self._windows = spec.windows(replace(ctx, ports=(self._united.port,)), self._united)

    def _unite(self, port: int, batch: Batch) -> Batch:
        own = self.ctx.ports[port]
        refuse_null_keys(batch, own.keys, own.keyed_at)
        return self._united.of(port, batch)

    def open(self, restored: Restored) -> None:
        self._windows.open(restored)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        return self._windows.on_batch(0, self._unite(port, batch))

    def on_in_flight(self, port: int, batch: Batch) -> Iterator[Out]:
        return self._windows.on_in_flight(0, self._unite(port, batch))

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        return self._windows.on_watermark(timestamp_ms)

    def on_end(self) -> Iterator[Out]:
        return self._windows.on_end()

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        return self._windows.snapshot(checkpoint)

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        return self._windows.savepoint(snapshot)

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        self._windows.snapshot_failed(checkpoint)

    def next_keys(self) -> None:
        self._windows.next_keys()

    def close(self) -> None:
        self._windows.close()


def late_sides(ctx: OperatorContext, united: UnitedRows, late: Batch) -> Iterator[Out]:
    """Emit late rows, each to the side output of its side."""
    right = united.is_right(late)
    for port, of_port in ((LEFT, ~right), (RIGHT, right)):
        output = ctx.outputs.get(LATE_OF_TWO[port])
        if output is None or not of_port.any():
            continue
        rows = late.filter(pa.array(of_port))
        side = united.side(port, rows)
        shown = pa.RecordBatch.from_arrays(side.columns, schema=output.type.schema)
        yield Out(with_hidden(shown, output.schema, HiddenColumns.of(rows)), LATE_OF_TWO[port])


class _PairsOfWindows(WindowRowsOperator):
    def __init__(self, ctx: OperatorContext, spec: WindowJoinSpec, united: UnitedRows) -> None:
        super().__init__(ctx, spec.as_rows)
        self._join = spec
        self._united = united

    def _divert(self, late: Batch, purged: int) -> Iterator[Out]:
        self._count_late(late, purged)
        yield from late_sides(self.ctx, self._united, late)

    def _fire(self, firing: Firing) -> Iterator[Out]:
        frames = firing.rows_of(self._index)
        if not frames:
            return
        frame = self._merge(frames, self._windows.window)
        rows, ends = self._rows.batch(frame), frame[END].to_numpy()
        groups = self._groups(rows, ends)
        right = self._united.is_right(rows)
        order = np.argsort(groups * 2 + right, kind="stable")
        left_at, found = _pairs(groups[order], right[order], kept(self._join.how))
        starts = self._windows.starts(frame)
        # The index after the last row represents no row.
        order = np.append(order, -1)
        for entry, place in found.pieces(self.ctx.batch_rows):
            left, others = order[left_at[entry]], order[place]
            either = np.maximum(left, others)
            yield Out(self._joined(rows, (left, others), starts[either], ends[either]))

    def _groups(self, rows: Batch, ends: Numbers) -> Numbers:
        """Return a number for each row's key and window, in the order of the windows' ends."""
        slots = KeySlots(len(self.ctx.ports[0].keys))
        keys = slots.lookup_or_add([rows.column(key) for key in self.ctx.ports[0].keys])
        window = np.unique(ends, return_inverse=True)[1]
        groups: Numbers = window * np.int64(len(slots)) + keys
        return groups

    def _joined(
        self, rows: Batch, sides: tuple[Numbers, Numbers], starts: Numbers, ends: Numbers
    ) -> Batch:
        columns, taken = self._join.columns, []
        for port, numbers in enumerate(sides):
            side = self._united.side(port, rows).select(columns.of(port))
            taken.append(side.take(pa.array(numbers, mask=numbers < 0)))
        window = [pa.array(times).cast(_TIME) for times in (starts, ends)]
        return columns.batch(taken, self.ctx.outputs[MAIN], ends - 1, more=window)


def _pairs(
    groups: Numbers, right: np.ndarray[tuple[int], np.dtype[np.bool_]], keeps: tuple[bool, bool]
) -> tuple[Numbers, Matches]:
    """Pair rows that are sorted by group, and then by side. Return entries in order, each with the
    place of a left row and the matching right rows. The place after the last row represents a
    missing row."""
    nobody = len(groups)
    begins = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    ends = np.append(begins[1:], nobody)
    middles = begins + np.add.reduceat(~right, begins, dtype=np.int64)
    group = np.repeat(np.arange(len(begins)), ends - begins)
    place = np.arange(nobody)
    begin, end = middles[group], ends[group]
    left = np.where(right, nobody, place)
    # Rows of either side that have no partner in their group.
    alone = np.where(right, middles[group] == begins[group], begin == end)
    begin = np.where(right, place, np.where(alone, nobody, begin))
    end = np.where(right | alone, begin + 1, end)
    wanted = np.where(alone, np.array(keeps)[right.astype(np.int8)], ~right)
    chosen = np.flatnonzero(wanted)
    return left, Matches(chosen, begin[chosen], end[chosen])
