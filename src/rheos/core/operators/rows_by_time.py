"""`order="event_time"`: rows are buffered until the watermark has passed them, then delivered in order.

The order is by event time. Rows of the same time are ordered by port. Rows of one port and millisecond
are ordered by their event-time column, which may be finer, then by the whole row, column by column.
Event-time timers follow the same order: a timer at T fires after all rows at or before T and before all
later ones. So the calls for a key depend on the data alone.

Late rows (`late`) are not delivered. They are counted, and emitted to the side output `late`, or to
`late_left` and `late_right` if there are two keyed ports.

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

import pyarrow as pa

from rheos.core.graph.nodes import Order
from rheos.core.operators.buffered_rows import HELD, HELD_WATERMARKS, BufferedRows
from rheos.core.operators.contract import OperatorContext, Out, PortType, Restored
from rheos.core.operators.keyed_state import columns_shape, keyed_shape
from rheos.core.operators.late_rows import LATE, LATE_OF_TWO, not_late
from rheos.core.operators.sorting import sort_by_time, sort_rows
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, TS, WM, Batch, visible
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.snapshots import SnapshotPart
from rheos.core.state.key_groups import refuse_null_keys


def rows_by_time(ctx: OperatorContext, order: Order, *, in_batch: bool = False) -> RowsByTime | None:
    """Return the buffer for the rows of the keyed ports; None if they are processed on arrival."""
    if order == "event_time":
        return RowsByTime(ctx)
    timed = all(TS in port.schema.names for port in _keyed(ctx.ports))
    return RowsByTime(ctx, keeps_late=True) if in_batch and timed else None


def held_shapes(ports: Sequence[PortType]) -> dict[str, StateShape]:
    """Return the state shapes of the buffered rows."""
    shapes: dict[str, StateShape] = {}
    for number, port in enumerate(_keyed(ports)):
        rows, behind = _states(number)
        shapes[rows] = keyed_shape(port, StatePurpose.ROWS, columns_shape(visible(port.schema)))
        shapes[behind] = keyed_shape(port, StatePurpose.PROGRESS, TypeShape(name="watermark"))
    return shapes


def _states(port: int) -> tuple[str, str]:
    """Return the names of a port's two states: its buffered rows, and its progress."""
    number = f" {port + 1}" if port else ""
    return HELD + number, HELD_WATERMARKS + number


def _keyed(ports: Sequence[PortType]) -> list[PortType]:
    return [port for port in ports if port.keys]


class RowsByTime:
    """The buffered rows of one subtask, for all its keyed ports, which are its first ports."""

    def __init__(self, ctx: OperatorContext, *, keeps_late: bool = False) -> None:
        """Create an empty buffer. If `keeps_late`, no row is late, and rows keep their split
        watermark."""
        self._ctx = ctx
        self.keeps_late = keeps_late
        self._ports = _keyed(ctx.ports)
        self._late = (LATE,) if len(self._ports) == 1 else LATE_OF_TWO
        self._columns: list[list[str]] = []
        self._held: list[BufferedRows] = []
        for number, port in enumerate(self._ports):
            hidden = {TS, WM} if keeps_late else {TS}
            shown = set(visible(port.schema).names)
            schema = pa.schema([field for field in port.schema if field.name in shown | hidden])
            self._columns.append(schema.names)
            groups, most = ctx.key_groups, ctx.max_parallelism
            self._held.append(BufferedRows(schema, port.keys, groups, most, _states(number)))
        self.passed_ms = MIN_TIMESTAMP_MS
        """Watermark up to which rows were taken."""

    def in_time(self, port: int, batch: Batch) -> Generator[Out, None, Batch]:
        """Return the rows in time, and emit the late ones. Raise InputError if a key is null."""
        of = self._ports[port]
        refuse_null_keys(batch, of.keys, of.keyed_at)
        if self.keeps_late:
            return batch
        passed = self._held[port].passed(batch, self.passed_ms)
        return (yield from not_late(self._ctx, self._late[port], batch, passed))

    def add(self, port: int, batch: Batch) -> None:
        self._held[port].add(batch.select(self._columns[port]))

    def take(self, until_ms: int) -> list[tuple[int, Batch]]:
        """Remove and return the rows at or before the watermark `until_ms`, sorted, by port."""
        self.passed_ms = until_ms
        taken = ((port, held.take(until_ms)) for port, held in enumerate(self._held))
        return [(port, self._in_order(port, due)) for port, due in taken if due is not None]

    def _in_order(self, port: int, rows: Batch) -> Batch:
        if self.keeps_late:
            return sort_by_time(rows, TS)
        return sort_rows(rows, TS, self._ports[port].type.time_column)

    def next_keys(self) -> None:
        """Reset the watermark, after all buffered rows were taken."""
        self.passed_ms = MIN_TIMESTAMP_MS

    def restore(self, restored: Restored) -> None:
        for port, held in enumerate(self._held):
            rows, behind = _states(port)
            held.restore(restored.get(rows, ()), restored.get(behind, ()))

    def parts(self) -> list[SnapshotPart]:
        return [part for held in self._held for part in held.parts(self.passed_ms)]

    def savepoint(self) -> list[SnapshotPart]:
        return [part for held in self._held for part in held.savepoint(self.passed_ms)]

    def force_full(self) -> None:
        for held in self._held:
            held.force_full()
