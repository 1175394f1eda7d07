"""`order="event_time"`: rows are buffered until the watermark has passed them, then delivered in order.

The order is by event time. Rows of the same time are ordered by port, those of
broadcast ports first. Rows of one port and millisecond
are ordered by their event-time column, which may be finer, then by the whole row, column by column.
Event-time timers follow the same order: a timer at T fires after all rows at or before T and before all
later ones. So the calls for a key depend on the data alone.

Late rows are not delivered by default. They are counted, and emitted to the side output `late`, or to
`late_left` and `late_right` if there are two ports. With `late="deliver"` they are delivered in the
place that the watermark of their own split defines: after all rows up to that time, before all later
rows. So this place depends on the data alone, too.

    order of calls   rows at 8, 9, 10    late row with __wm 10    rows at 11, 12

A batch runtime has all rows before it delivers any. It can therefore order rows by time for functions
that take them in order of arrival. There no row is late, and rows of the same time and port stay in
order of arrival. The watermark that such a function sees never exceeds the time of its row.

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

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rheos.core.errors import InputError
from rheos.core.graph.nodes import Late, Order
from rheos.core.operators.buffered_rows import (
    HELD,
    HELD_WATERMARKS,
    BufferedRows,
    RowBuffer,
    UnkeyedRows,
)
from rheos.core.operators.contract import OperatorContext, Out, PortType, Restored
from rheos.core.operators.due_rows import Due, joined
from rheos.core.operators.keyed_state import columns_shape, keyed_shape
from rheos.core.operators.late_rows import LATE, LATE_OF_TWO, count_delivered_late, late_rows, not_late
from rheos.core.operators.records import HiddenColumns, Stamps, hidden_column
from rheos.core.operators.sorting import sort_by_time, sort_rows
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, TS, WM, Batch, visible
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.snapshots import SnapshotPart, StateKind
from rheos.core.state.key_groups import refuse_null_keys

LateByPort = tuple[Late, ...]
"""For each port, what happens to its late rows."""

TO_SIDE_OUTPUT: LateByPort = ("side_output", "side_output")

WAITING_ROWS = "waiting_rows"
"""Gauge: number of buffered rows."""

_AT = "__at"
"""Column of a late row's event time. Its column TS has the time of its place."""


def rows_by_time(
    ctx: OperatorContext,
    order: Order,
    late: LateByPort = TO_SIDE_OUTPUT,
    *,
    in_batch: bool = False,
) -> RowsByTime | None:
    """Return the buffer for the rows of the keyed ports; None if they are processed on arrival."""
    if order == "event_time":
        return RowsByTime(ctx, late)
    timed = all(TS in port.schema.names for port in ctx.ports if port.keys)
    return RowsByTime(ctx, keeps_late=True) if in_batch and timed else None


def held_shapes(ports: Sequence[PortType], late: LateByPort = TO_SIDE_OUTPUT) -> dict[str, StateShape]:
    """Return the state shapes of the buffered rows."""
    shapes: dict[str, StateShape] = {}
    for number, port in enumerate(ports):
        for lane in _lanes_of(number, late):
            rows, behind = lane.states
            shapes[rows] = _shape(port, StatePurpose.ROWS, columns_shape(visible(port.schema)))
            shapes[behind] = _shape(port, StatePurpose.PROGRESS, TypeShape(name="watermark"))
    return shapes


def _shape(port: PortType, holds: StatePurpose, value: TypeShape) -> StateShape:
    if port.keys:
        return keyed_shape(port, holds, value)
    kind = port.in_flight if holds is StatePurpose.ROWS else StateKind.BROADCAST
    return StateShape(kind=kind, holds=holds, value=value)


class _LaneType(NamedTuple):
    """Rows that are buffered together: those in time of one port, or its late ones."""

    port: int
    late: bool

    @property
    def states(self) -> tuple[str, str]:
        """Return the names of the two states: the buffered rows, and the progress."""
        late = " late" if self.late else ""
        number = f" {self.port + 1}" if self.port else ""
        return HELD + late + number, HELD_WATERMARKS + late + number


def _lanes_of(port: int, late: LateByPort) -> list[_LaneType]:
    if late[port] == "deliver":
        return [_LaneType(port, True), _LaneType(port, False)]
    return [_LaneType(port, False)]


class _Lane:
    """The buffered rows of a lane."""

    def __init__(self, ctx: OperatorContext, type: _LaneType, hidden: tuple[str, ...]) -> None:
        port = ctx.ports[type.port]
        self.type = type
        self.kept: list[Batch] | None = None
        """All rows that were added, if they are to be delivered again."""
        fields = [
            pa.field(name, pa.int64()) if name == _AT else port.schema.field(name) for name in hidden
        ]
        self.schema = pa.schema([*visible(port.schema), *fields])
        self.rows: RowBuffer
        if port.keys:
            groups, most = ctx.key_groups, ctx.max_parallelism
            self.rows = BufferedRows(self.schema, port.keys, groups, most, type.states)
        else:
            self.rows = UnkeyedRows(self.schema, port.in_flight, type.states)

    def add(self, rows: Batch) -> None:
        self.rows.add(rows)
        if self.kept is not None:
            self.kept.append(rows)

    def rewind(self) -> None:
        """Buffer all rows again that were ever added."""
        self.rows.take(MAX_TIMESTAMP_MS)
        for rows in self.kept or ():
            self.rows.add(rows)


class RowsByTime:
    """The buffered rows of one subtask, for all its ports, or for its keyed ones, which are its first
    ports."""

    def __init__(
        self,
        ctx: OperatorContext,
        late: LateByPort = TO_SIDE_OUTPUT,
        *,
        keeps_late: bool = False,
        all_ports: bool = False,
        rewinds: bool = False,
    ) -> None:
        """Create an empty buffer. If `keeps_late`, no row is late, and rows keep their split
        watermark. `all_ports` includes ports without a key. `rewinds` is whether `rewind` is called.
        """
        self._ctx = ctx
        self.keeps_late = keeps_late
        self._ports = [port for port in ctx.ports if all_ports or port.keys]
        self._late = late
        self._tags = (LATE,) if len(self._ports) == 1 else LATE_OF_TWO
        self._lanes = {
            type: _Lane(ctx, type, self._hidden_names(type))
            for number in range(len(self._ports))
            for type in _lanes_of(number, late)
        }
        if rewinds:
            for type, lane in self._lanes.items():
                lane.kept = [] if ctx.ports[type.port].broadcast else None
        self._most = ctx.state.rows_per_key if all_ports else None
        """Maximum number of buffered rows, if rows have no key."""
        ctx.gauges[WAITING_ROWS] = lambda: len(self)
        self.passed_ms = MIN_TIMESTAMP_MS
        """Watermark up to which rows were taken."""

    def _hidden_names(self, type: _LaneType) -> tuple[str, ...]:
        if type.late:
            return TS, _AT
        has_mark = self.keeps_late and WM in self._ports[type.port].schema.names
        return (TS, WM) if has_mark else (TS,)

    def __len__(self) -> int:
        return sum(len(lane.rows) for lane in self._lanes.values())

    # --- arriving rows ----------------------------------------------------------------------------

    def in_time(self, port: int, batch: Batch) -> Generator[Out, None, Batch]:
        """Return the rows in time. Emit the late ones, or buffer them if they are to be delivered.
        Raise InputError if a key is null."""
        of = self._ports[port]
        if of.keys:
            refuse_null_keys(batch, of.keys, of.keyed_at)
        if self.keeps_late:
            return batch
        reached = self._lanes[_LaneType(port, False)].rows.reached(batch, self.passed_ms)
        if self._late[port] == "deliver":
            return self._in_time_of_all(port, batch, reached)
        passed = batch.column(TS).to_numpy() <= reached
        if of.broadcast and not self._ctx.leads:
            return batch.filter(pa.array(~late_rows(batch, passed)))
        return (yield from not_late(self._ctx, self._tags[port], batch, passed))

    def _in_time_of_all(self, port: int, batch: Batch, reached: int | Stamps) -> Batch:
        """Buffer the late rows, each at the place after the watermark that made it late. Return the
        others."""
        stamps = batch.column(TS).to_numpy()
        late = late_rows(batch, stamps <= reached)
        if not late.any():
            return batch
        count_delivered_late(self._ctx, int(late.sum()))
        after = np.maximum(batch.column(WM).to_numpy(), np.where(stamps <= reached, reached, stamps))
        lane = self._lanes[_LaneType(port, True)]
        shown = batch.select(visible(lane.schema).names)
        columns = [*shown.columns, pa.array(after + 1), pa.array(stamps)]
        rows = pa.RecordBatch.from_arrays(columns, schema=lane.schema)
        lane.add(rows.filter(pa.array(late)))
        return batch.filter(pa.array(~late))

    def add(self, port: int, batch: Batch) -> None:
        lane = self._lanes[_LaneType(port, False)]
        lane.add(batch.select(lane.schema.names))
        if self._most is not None and len(self) > self._most:
            raise InputError(
                f"more than {self._most:,} rows of a subtask wait for the watermark to pass them",
                site=self._ctx.site,
                operator=self._ctx.name,
                hint="the slower stream holds back the other: set idle_after on its "
                "watermark, or max_drift on the watermarks of both; or raise the limit: "
                "state=rh.StateConfig(rows_per_key=...)",
            )

    # --- due rows ---------------------------------------------------------------------------------

    def take(self, until_ms: int) -> list[tuple[int, Batch]]:
        """Remove and return the rows at or before the watermark `until_ms`, sorted, by port. For
        operators that deliver no late rows."""
        return [(type.port, rows) for type, rows in self._take_sorted(until_ms)]

    def _take_sorted(self, until_ms: int) -> list[tuple[_LaneType, Batch]]:
        self.passed_ms = until_ms
        taken = ((type, lane.rows.take(until_ms)) for type, lane in self._lanes.items())
        return [(type, self._in_order(type.port, due)) for type, due in taken if due is not None]

    def _in_order(self, port: int, rows: Batch) -> Batch:
        if self.keeps_late:
            return sort_by_time(rows, TS)
        return sort_rows(rows, TS, self._ports[port].type.time_column)

    def take_due(self, until_ms: int) -> list[Due]:
        """Remove and return the rows whose place is at or before the watermark `until_ms`, by port.
        Rows of broadcast ports come first."""
        by_port: dict[int, list[Due]] = {}
        for type, rows in self._take_sorted(until_ms):
            by_port.setdefault(type.port, []).append(_due(type, rows))
        first = sorted(by_port, key=lambda port: not self._ports[port].broadcast)
        return [joined(by_port[port]) for port in first]

    def next_keys(self) -> None:
        """Reset the watermark, after all buffered rows were taken."""
        self.passed_ms = MIN_TIMESTAMP_MS

    def rewind(self) -> None:
        """Begin again with all broadcast rows that ever arrived, and without other rows."""
        self.passed_ms = MIN_TIMESTAMP_MS
        for lane in self._lanes.values():
            lane.rewind()

    # --- snapshots --------------------------------------------------------------------------------

    def restore(self, restored: Restored) -> None:
        for type, lane in self._lanes.items():
            rows, behind = type.states
            lane.rows.restore(restored.get(rows, ()), restored.get(behind, ()))

    def parts(self) -> list[SnapshotPart]:
        return [part for lane in self._lanes.values() for part in lane.rows.parts(self.passed_ms)]

    def savepoint(self) -> list[SnapshotPart]:
        return [part for lane in self._lanes.values() for part in lane.rows.savepoint(self.passed_ms)]

    def force_full(self) -> None:
        for lane in self._lanes.values():
            lane.rows.force_full()


def _due(type: _LaneType, rows: Batch) -> Due:
    before = rows.column(TS).to_numpy() - 1
    if type.late:
        # Output for a late row is late, too, by the same watermark.
        return Due(type.port, rows, HiddenColumns(rows.column(_AT).to_numpy(), before, before))
    return Due(type.port, rows, HiddenColumns(before + 1, hidden_column(rows, WM), before))
