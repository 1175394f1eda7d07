"""The operator of triggered windows. It processes rows and timers in order: before each row, it fires
timers up to the watermark that the stream had reached."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rheos.core.errors import RheosError
from rheos.core.graph.aggregate_functions import AggregateFunction
from rheos.core.graph.functions import WindowFunction
from rheos.core.graph.state import Time
from rheos.core.operators.contract import OperatorContext, Out
from rheos.core.operators.keyed_state import KeyedStateOperator, make_backend
from rheos.core.operators.late_rows import LATE, count_late, emit_late
from rheos.core.operators.records import UserRaised, hidden_column
from rheos.core.operators.rows_by_time import RowsByTime
from rheos.core.operators.window.contract import Ints
from rheos.core.operators.window.triggers.assigning import BatchRows, UserAssignment, assigning_of
from rheos.core.operators.window.triggers.contents import CombinedValue, Contents, Records
from rheos.core.operators.window.triggers.context import WindowScope
from rheos.core.operators.window.triggers.logic import Parts, WindowLogic
from rheos.core.operators.window.triggers.merging_set import MergingSet
from rheos.core.operators.window.triggers.results import (
    AggregateResults,
    FunctionResults,
    WindowResults,
    located,
)
from rheos.core.operators.window.triggers.trigger_state import bound
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, SWM, TS, WM, Batch
from rheos.core.protocol.types import rows_of
from rheos.core.safe_strings import shown
from rheos.core.state.keys import KeyCodec, windowed_codec
from rheos.core.state.scope import KeyScope
from rheos.core.state.timers import TimerQueue, timers_for

if TYPE_CHECKING:
    from rheos.core.operators.window.triggers.spec import TriggeredWindowSpec


class TriggeredWindowOperator(KeyedStateOperator):
    """Operator whose backend's keys are the stream's key followed by the bounds of the window."""

    def __init__(self, ctx: OperatorContext, spec: TriggeredWindowSpec) -> None:
        super().__init__(ctx)
        self._spec = spec
        port = ctx.ports[0]
        self._codec = KeyCodec(port.schema, port.keys, port.keyed_at)
        self._scope = KeyScope(ctx.clock)
        self.backend = make_backend(ctx, windowed_codec(port.schema, port.keys), self._scope)
        event_time = TS in port.schema.names
        self._window = window = WindowScope(self._scope, len(port.keys))
        self._timers = self.backend.timers(event_time=event_time)
        # Subtasks that share a process must not share the user's objects.
        trigger, evictor, windows, combine, fn = copy.deepcopy(
            (spec.trigger, spec.evictor, spec.windows, spec.combine, spec.fn)
        )
        window.timers = timers_for(self._timers, trigger, "on_event_time", "on_processing_time")
        self._assigning = assigning_of(windows, spec.lateness_ms, window, ctx)
        contents: Contents
        if combine is None or spec.keeps_records:
            contents = Records(self.backend, spec.record, event_time=event_time)
        else:
            contents = CombinedValue(
                self.backend, spec.kept, partial(_add_record, combine), combine.merge
            )
        results: WindowResults
        if spec.aggregates:
            results = AggregateResults(ctx, spec.aggregates)
        else:
            finished = partial(_finished, combine, combined=not spec.keeps_records)
            results = FunctionResults(ctx, partial(_called, fn, window), finished)
        self._results = results
        self._logic = WindowLogic(
            window,
            Parts(
                trigger,
                bound(trigger, self.backend),
                evictor,
                contents,
                MergingSet(self.backend) if self._assigning.merges else None,
                results,
                spec.time,
                spec.lateness_ms,
                self._timers,
            ),
        )

    # --- rows -------------------------------------------------------------------------------------

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        yield from self._deliver(batch, hidden_column(batch, SWM))

    def _deliver(self, batch: Batch, reached: Ints | None) -> Iterator[Out]:
        """Process rows in order. `reached`, which never falls, is the watermark before each."""
        if not batch.num_rows:
            return
        keys, rows = self._codec.of(batch), rows_of(batch, self._spec.record)
        stamps, wm = hidden_column(batch, TS), hidden_column(batch, WM)
        ts = stamps
        if self._spec.time == "processing_time":
            ts, wm = np.full(batch.num_rows, self.ctx.clock.now_ms(), np.int64), None
        if self._spec.time is None:
            ts = None
        placed = self._placed(keys, BatchRows(batch, rows), ts, wm)
        if placed.outside:
            self.ctx.count("outside_windows", placed.outside)
        if len(placed.late):
            yield from self._divert(batch, placed.late, placed.purged)
        times = [None] * len(rows) if stamps is None else stamps.tolist()
        marks = None if wm is None else wm.tolist()
        before = None if reached is None else reached.tolist()
        stored, heap = self._window.stored, self._timers.event.heap
        late: list[int] = []
        stride = self.backend.stride
        for first in range(0, len(placed.rows), stride):
            pairs = list(
                zip(
                    placed.rows[first : first + stride],
                    placed.windows[first : first + stride],
                    strict=True,
                )
            )
            self.backend.prepare([stored(keys[at], window) for at, window in pairs])
            for at, window in pairs:
                if before is not None and before[at] > self._window.watermark_ms:
                    if heap and heap[0][0] <= before[at]:
                        yield from self._fire(self._timers.event, before[at], "event_time")
                    self._window.watermark_ms = before[at]
                    self._timers.event.fired(before[at])
                self._window.reached_ms = self._window.given_ms = self._window.watermark_ms
                self._window.timestamp = times[at]
                mark = MIN_TIMESTAMP_MS if marks is None else marks[at]
                if not (yield from self._element(rows[at], keys[at], window, mark)):
                    late.append(at)
        if late:
            yield from self._divert(batch, np.unique(np.array(late, np.int64)), 0)
        if before is not None:
            self._scope.passed_ms = max(self._scope.passed_ms, before[-1])
        yield from self._results.flush()

    def _placed(self, keys: list[Any], rows: BatchRows, ts: Any, wm: Any) -> Any:
        # In processing time, no window expires before its rows arrive.
        by_clock = self._spec.time == "processing_time"
        passed_ms = MIN_TIMESTAMP_MS if by_clock else self._window.watermark_ms
        try:
            return self._assigning.place(rows, ts, wm, passed_ms)
        except UserRaised as error:
            if not isinstance(self._assigning, UserAssignment):
                raise
            at = self._assigning.at
            found = located(error, self.ctx, keys[at], self._window.window)
            found.record = shown(rows.records[at])
            raise found from error

    def _element(self, row: Any, key: Any, window: Any, mark: int) -> Any:
        """Process a row of one window. Return whether it was accepted."""
        logic = self._logic
        try:
            if not self._assigning.merges:
                yield from logic.element(row, key, window, mark)
                return True
            passed = self._window.watermark_ms
            outs = logic.merging_element(row, key, window, mark, passed)
            if outs is None:
                return False
            yield from outs
            return True
        except UserRaised as error:
            raise self._located(error, row) from error

    def _located(self, error: Exception | SystemExit, row: Any = None) -> RheosError:
        window = self._window
        found = located(error, self.ctx, window.key, window.window)
        if row is not None and found.record is not None:
            found.record = f"{shown(row)}, {found.record}"
        return found

    def _divert(self, batch: Batch, late: Ints, purged: int) -> Iterator[Out]:
        """Count late rows, and emit them if the program has an output for them."""
        count_late(self.ctx, len(late), purged)
        yield from emit_late(self.ctx, LATE, batch.take(pa.array(late)))

    # --- timers -----------------------------------------------------------------------------------

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        # Rows may have brought a later watermark than the marks of all channels.
        yield from self._fire(self._timers.event, timestamp_ms, "event_time")
        self._window.watermark_ms = max(self._window.watermark_ms, timestamp_ms)
        self._timers.event.fired(timestamp_ms)
        self._scope.passed_ms = max(self._scope.passed_ms, timestamp_ms)
        yield from self._results.flush()

    def next_processing_time_ms(self) -> int | None:
        return self._timers.processing.next_ms()

    def on_processing_time(self, now_ms: int) -> Iterator[Out]:
        yield from self._fire(self._timers.processing, now_ms, "processing_time")
        yield from self._results.flush()

    def _fire(self, queue: TimerQueue, until_ms: int, time: Time) -> Iterator[Out]:
        window, calls, stride = self._window, 0, self.backend.stride
        watermark = self._window.watermark_ms
        if time == "event_time":
            watermark = max(watermark, until_ms)
        while (timer := queue.pop(until_ms)) is not None:
            timestamp, stored = timer
            if calls % stride == 0:
                self.backend.prepare([stored, *queue.upcoming(stride)])
            calls += 1
            key, bounds = window.parted(stored)
            window.timestamp, window.reached_ms = timestamp, watermark
            window.given_ms = self._window.watermark_ms
            if time == "event_time":
                # The output is emitted just when the watermark passes the timer.
                window.given_ms = max(window.given_ms, timestamp - 1)
            window.at(key, bounds)
            try:
                yield from self._logic.timer(timestamp, key, bounds, time)
            except UserRaised as error:
                raise self._located(error) from error

    # --- end of input -----------------------------------------------------------------------------

    def next_keys(self) -> None:
        self.on_end()
        super().next_keys()
        self._window.watermark_ms = self._scope.passed_ms = MIN_TIMESTAMP_MS

    def on_end(self) -> Iterator[Out]:
        pending = self._timers.processing
        if len(pending):
            self.ctx.count("dropped_processing_timers", len(pending))
            pending.clear()
        return iter(())


class BatchTriggeredWindowOperator(TriggeredWindowOperator):
    """The operator in the batch runtime: a key's rows are buffered until all have arrived, then
    sorted."""

    def __init__(self, ctx: OperatorContext, spec: TriggeredWindowSpec) -> None:
        super().__init__(ctx, spec)
        self._waiting = RowsByTime(ctx, keeps_late=True)

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        batch = yield from self._waiting.in_time(port, batch)
        self._waiting.add(port, batch)

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        for _, due in self._waiting.take(timestamp_ms):
            yield from self._deliver(due, due.column(TS).to_numpy() - 1)
        yield from super().on_watermark(timestamp_ms)


def _add_record(combine: AggregateFunction[Any], accumulator: Any, record: Any) -> Any:
    """Return the accumulator with one more record; None is an empty accumulator."""
    return combine.add(record, combine.create_accumulator() if accumulator is None else accumulator)


def _finished(combine: AggregateFunction[Any] | None, given: list[Any], *, combined: bool) -> list[Any]:
    """Return the inputs of a result: records, or the result of their accumulator."""
    if combine is None:
        return given
    [accumulator] = given if combined else [reduce(partial(_add_record, combine), given, None)]
    return [combine.get_result(accumulator)]


def _called(fn: WindowFunction | None, window: WindowScope, records: list[Any]) -> Any:
    return records if fn is None else fn.process(records, window)
