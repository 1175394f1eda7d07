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
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
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
from rheos.core.state.slots import Slots, order_by_slot
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
        starts = self._windows.starts(frame)
        pairs = _pairs(
            self._groups(rows, ends), self._united.is_right(rows), ends, kept(self._join.how)
        )
        for entry, place in pairs.found.pieces(self.ctx.batch_rows):
            left, others = pairs.left[entry], pairs.others[place]
            either = np.maximum(left, others)
            yield Out(self._joined(rows, (left, others), starts[either], ends[either]))

    def _groups(self, rows: Batch, ends: Numbers) -> Slots:
        """Return a number for each row's key and window."""
        columns = [rows.column(key) for key in self.ctx.ports[0].keys]
        if (ends != ends[0]).any():
            columns.append(pa.array(ends))
        return KeySlots(len(columns)).lookup_or_add(columns)

    def _joined(
        self, rows: Batch, sides: tuple[Numbers, Numbers], starts: Numbers, ends: Numbers
    ) -> Batch:
        columns, taken = self._join.columns, []
        for port, numbers in enumerate(sides):
            side = self._united.side(port, rows).select(columns.of(port))
            missing = numbers < 0
            taken.append(side.take(pa.array(numbers, mask=missing if missing.any() else None)))
        window = [pa.array(times).cast(_TIME) for times in (starts, ends)]
        return columns.batch(taken, self.ctx.outputs[MAIN], ends - 1, more=window)


class _Pairs(NamedTuple):
    """The pairs of several windows. The number -1 represents a missing row."""

    left: Numbers
    """Left row of each entry of `found`."""
    others: Numbers
    """Right rows, by place."""
    found: Matches


def _pairs(
    groups: Slots, right: npt.NDArray[np.bool_], ends: Numbers, keeps: tuple[bool, bool]
) -> _Pairs:
    """Pair rows of the same group. Pairs are in the order of the ends of their windows.

    Args:
        groups: Number of each row's group, from 0.
        right: Whether each row belongs to the right side.
        ends: End of each row's window, which is that of its group.
        keeps: Whether rows of the left and of the right side are kept without a partner.
    """
    count = int(groups.max()) + 1
    left, others = np.flatnonzero(~right), np.flatnonzero(right)
    others = others[order_by_slot(groups[others])]
    of_left, of_others = groups[left], groups[others]
    partners = np.bincount(of_others, minlength=count)
    begin = np.cumsum(partners) - partners
    # The place after the last right row represents a missing row.
    nobody = len(others)
    some = partners[of_left] > 0
    if keeps[LEFT]:
        begins = np.where(some, begin[of_left], nobody)
        stops = np.where(some, begin[of_left] + partners[of_left], nobody + 1)
    else:
        left, of_left = left[some], of_left[some]
        begins = begin[of_left]
        stops = begins + partners[of_left]
    if keeps[RIGHT]:
        alone = np.flatnonzero(np.bincount(of_left, minlength=count)[of_others] == 0)
        left = np.concatenate([left, np.full(len(alone), -1)])
        begins = np.concatenate([begins, alone])
        stops = np.concatenate([stops, alone + 1])
    others = np.append(others, -1)
    by = np.arange(len(left))
    of_entries = ends[np.maximum(left, others[begins])]
    if (of_entries[1:] < of_entries[:-1]).any():
        by = of_entries.argsort(kind="stable")
    return _Pairs(left, others, Matches(by, begins[by], stops[by]))
