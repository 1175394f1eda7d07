"""Windows of processing time, in columns.

The windows of event time, with the wall clock as their watermark. All rows of a batch arrive at one
time, so they share their panes. The clock of the operator never goes back, so no row is late:

    time of a row        the clock, but later than all windows that have fired
    watermark            the clock - 1: all rows of earlier times have arrived
    next wake-up         the earliest end of a window, but at least 5 ms after the last wake-up

A restored operator wakes up at once if the clock has passed the end of a window in the meantime.

Rows of a stream with event time are in that order for `first`, `collect` and functions. Other rows are
in the order of their arrival.

```python
check_timeline(
    lambda clicks: clicks.key_by("user")
    .window(rh.Session("30s", time="processing_time"))
    .aggregate(clicks=rh.agg.count()),
    '''
    ada bob ada
    +20s
    ada
    +20s  > bob,0s,30s,1
    +10s  > ada,0s,50s,3
    ''',
    {"user": str},
)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rheos.core.errors import ProgramError
from rheos.core.graph.state import Time
from rheos.core.operators.contract import OperatorContext, Out, PortType, Restored
from rheos.core.operators.window.base import WindowOperator
from rheos.core.operators.window.contract import PaneAssignment
from rheos.core.operators.window.operator import WindowAggregateOperator
from rheos.core.operators.window.process import WindowProcessOperator
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, TS, Batch

if TYPE_CHECKING:
    from rheos.core.operators.window.spec import WindowSpec

_ARRIVALS_BITS = 20
"""Bits of an arrival number after its clock time in ms: it distinguishes rows of one ms."""
_REST_MS = 5
"""Minimum time between wake-ups. Each costs about as much as thousands of rows, and sessions of many
keys end in every ms."""


def refuse_bounded(time: Time | None) -> None:
    """Raise ProgramError if the windows of a batch job end by this clock, processing time."""
    if time == "processing_time":
        raise ProgramError(
            "processing-time windows depend on when rows are read, but a batch job reads all rows at "
            "once",
            hint='use event-time windows, or run the job with runtime="continuous"',
        )


def arrival_port(port: PortType) -> PortType:
    """Return the port with a time of each row: its event time, or the number of its arrival."""
    if TS in port.schema.names:
        return port
    schema = port.schema.append(pa.field(TS, pa.int64()))
    return replace(port, type=replace(port.type, event_time=True), schema=schema)


class ProcessingTimeWindowOperator(WindowOperator):
    """Assigns rows to windows by the clock, which also fires the windows."""

    def __init__(self, ctx: OperatorContext, spec: WindowSpec) -> None:
        [port] = ctx.ports
        super().__init__(replace(ctx, ports=(arrival_port(port),)), spec)
        self._numbers_rows = TS not in port.schema.names
        self._wake_ms: int | None = None
        """Time of the next wake-up, which fires all windows that have ended until then."""

    def open(self, restored: Restored) -> None:
        super().open(restored)
        self._wake_ms = self._next_end(MIN_TIMESTAMP_MS)

    # --- rows -----------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if self._numbers_rows and batch.num_rows and TS in self._columns().values():
            batch = self._numbered(batch)
        return super().on_batch(port, batch)

    def on_in_flight(self, port: int, batch: Batch) -> Iterator[Out]:
        return self.on_batch(port, batch)

    def _numbered(self, batch: Batch) -> Batch:
        first = max(self._progress.arrived + 1, self.ctx.clock.now_ms() << _ARRIVALS_BITS)
        self._progress.arrived = first + batch.num_rows - 1
        numbers = np.arange(first, first + batch.num_rows, dtype=np.int64)
        return batch.append_column(TS, pa.array(numbers))

    def _assigned(self, batch: Batch) -> PaneAssignment:
        watermark = self._progress.watermark
        now = np.array([max(self.ctx.clock.now_ms(), watermark + 1)], np.int64)
        assigned = self._windows.assign(now, None, 0, watermark)
        if assigned.outside:
            nowhere = np.zeros(batch.num_rows, np.bool_)
            return replace(assigned, taken=nowhere, outside=batch.num_rows)
        end = int(self._windows.first_ends(assigned.panes)[0])
        self._wake_ms = end if self._wake_ms is None else min(self._wake_ms, end)
        return replace(assigned, taken=None)

    # --- windows --------------------------------------------------------------------------------------

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        return iter(())

    def next_processing_time_ms(self) -> int | None:
        return self._wake_ms

    def on_processing_time(self, now_ms: int) -> Iterator[Out]:
        if self._wake_ms is not None and self._wake_ms <= now_ms:
            yield from self._advance(now_ms - 1)
            end = self._next_end(self._progress.watermark + 1)
            self._wake_ms = None if end is None else max(end, now_ms + _REST_MS)

    def _next_end(self, above: int) -> int | None:
        """Return the earliest end after `above` of a window with rows; None if no window has rows."""
        waiting = None if self._waiting is None else self._waiting.first_end
        ends = (waiting, self._family.trigger.next_end(above))
        return min((end for end in ends if end is not None), default=None)

    def on_end(self) -> Iterator[Out]:
        yield from super().on_end()
        self._absorb_waiting()
        self._wake_ms = None
        open_windows = self._family.trigger.count_windows(self._progress.watermark + 1)
        if open_windows:
            self.ctx.count("dropped_processing_timers", open_windows)


class ProcessingTimeAggregateOperator(ProcessingTimeWindowOperator, WindowAggregateOperator):
    """Built-in aggregates of windows of processing time."""


class ProcessingTimeFunctionOperator(ProcessingTimeWindowOperator, WindowProcessOperator):
    """A function of the rows of windows of processing time."""
