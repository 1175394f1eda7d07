"""The core of process functions with columnar state: it processes many rows and timers per call.

A delivery is a batch. If a timer is due between its rows, the core splits the batch there. It calls the
function for the rows before the timer, then for the timer, then for the rows after it.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from rheos.core.compiler.keyed_states import keyed_states
from rheos.core.errors import UnrestorableError
from rheos.core.graph.state import keyed_declarations
from rheos.core.operators.compiled_outputs import bounded_batches
from rheos.core.operators.contract import OperatorContext, Out
from rheos.core.operators.keyed_state import make_backend
from rheos.core.operators.process_core import ProcessCore
from rheos.core.operators.records import HiddenColumns, Stamps
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, TS, Batch
from rheos.core.protocol.hashing import NullKeyError
from rheos.core.state.columnar.state import columnar_state, moved_state
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.keys import KeyCodec
from rheos.core.state.kinds import handle_of
from rheos.core.state.scope import KeyScope
from rheos.core.state.slots import Slots
from rheos.core.state.timers import Timer, TimerQueue

if TYPE_CHECKING:
    from rheos.core.operators.keyed_core import KeyedCore
    from rheos.core.operators.keyed_function import KeyedFunctionSpec


@dataclass(frozen=True, slots=True)
class Delivery:
    """A batch, the slots of its rows, and their hidden columns."""

    batch: Batch
    slots: Slots
    hidden: HiddenColumns
    event_times: Stamps | None
    """Event times of the calls for rows, if state expires by event time."""
    port: int = 0


@dataclass(frozen=True, slots=True)
class DueTimers:
    """Timers that are due, in their order."""

    queue: TimerQueue
    until_ms: int
    timers: list[Timer]
    times: Stamps
    slots: Slots
    event_times: Stamps | None
    """Event times of the calls for timers, if state expires by event time."""

    def hidden(self) -> HiddenColumns:
        """Return the hidden columns of rows that the calls emit. A timer belongs to no split, because
        it fires when the stream's watermark passes it."""
        marks = np.full(len(self.times), MIN_TIMESTAMP_MS, np.int64)
        return HiddenColumns(self.times, marks, self.times - 1)


class ColumnarCore(ProcessCore):
    """Splits deliveries at due timers, and keeps the function's state in columns."""

    def __init__(
        self,
        ctx: OperatorContext,
        spec: KeyedFunctionSpec,
        texts: StringCodes | None = None,
        python: KeyedCore | None = None,
        read_lists: Collection[str] = (),
    ) -> None:
        """Create the core. It takes over the function, the state and the timers of `python`, if that is
        passed. Calls then read only the lists of `read_lists`. Raise UnrestorableError if a value does
        not fit its column."""
        self.ctx = ctx
        self.port = port = ctx.ports[0]
        self.watermark_ms = MIN_TIMESTAMP_MS
        states = keyed_states(spec.fn)
        values, lists = states.values.values(), states.lists.values()
        maps = states.maps.values()
        if python is None:
            self.codec = KeyCodec(port.schema, port.keys, port.keyed_at)
            self.scope = KeyScope(ctx.clock)
            self.backend = make_backend(ctx, self.codec, self.scope)
            self.timers = self.backend.timers(event_time=TS in port.schema.names)
            # Subtasks that share a process must not share the user's object.
            self.function = copy.deepcopy(spec.fn)
            self.state = columnar_state(values, self.codec, self.backend, texts, lists, maps)
            # No call uses these, but they stay in checkpoints.
            for name in states.others:
                handle_of(keyed_declarations(spec.fn)[name], self.backend)
        else:
            self.codec, self.scope, self.backend = python.codec, python.context, python.backend
            self.timers, self.function = python.timers, python.function
            self.watermark_ms = python.watermark_ms
            self.state = moved_state(
                values, self.codec, self.backend, texts, lists, maps, read_lists=read_lists
            )
        self.codecs = [self.codec]
        self._expires_by_event_time = self.state.goes_by_event_time()

    def next_keys(self) -> None:
        self.backend.forget()
        self.state.forget()
        self.watermark_ms = self.scope.passed_ms = MIN_TIMESTAMP_MS

    # --- methods of each form of functions ------------------------------------------------------------

    @abstractmethod
    def _rows(self, delivery: Delivery, start: int, stop: int) -> Generator[Out, None, int]:
        """Call the function for the rows from `start` to before `stop`, and return the next row. That
        may be before `stop` if a registered timer is due earlier."""

    @abstractmethod
    def _timers(self, due: DueTimers) -> Generator[Out, None, int]:
        """Call the function for due timers, at least for one. Return the number of timers for which it
        was called."""

    def _flush(self) -> Iterator[Out]:
        """Yield output that was emitted but not yielded yet."""
        return iter(())

    # --- calls ----------------------------------------------------------------------------------------

    def deliver_batch(self, port: int, batch: Batch, hidden: HiddenColumns) -> Iterator[Out]:
        start, rows, reached, type = 0, batch.num_rows, hidden.reached, self.ctx.ports[port]
        if not rows:
            return
        try:
            slots = self.state.enter([batch.column(name) for name in type.keys])
        except NullKeyError as error:
            raise error.located_in(batch, type.keys, type.keyed_at) from None
        event_times = self._event_times(hidden.stamps, reached)
        delivery = Delivery(batch, slots, hidden, event_times, port)
        queue = self.timers.event
        while start < rows:
            stop = rows
            if reached is not None and queue.heap:
                until_ms = int(reached[start])
                if queue.heap[0][0] <= until_ms:
                    self.watermark_ms = max(self.watermark_ms, until_ms)
                    # A timer for a time that the watermark has passed fires once the watermark
                    # advances from its value at the row before, and is called with that value.
                    if start:
                        self._passed(int(reached[start - 1]))
                    yield from self._fire(queue, until_ms)
                next_ms = queue.next_ms()
                if next_ms is not None:
                    # A timer that is left and overdue waits until the watermark advances.
                    stop = int(np.searchsorted(reached, max(next_ms, until_ms + 1)))
            start = yield from self._rows(delivery, start, stop)
        if reached is not None:
            self._passed(int(reached[-1]))
        yield from self._flush()
        self.state.leave()

    def _event_times(self, *times: Stamps | None) -> Stamps | None:
        """Return the event times of calls: the later of these times and the time that all calls have
        passed. Return None if no state expires by event time."""
        if not self._expires_by_event_time:
            return None
        passed_ms = np.array(self.scope.passed_ms, np.int64)
        return reduce(np.maximum, [each for each in times if each is not None], passed_ms)

    def _passed(self, timestamp_ms: int) -> None:
        """Note that the function was called for all rows and timers up to `timestamp_ms`. State that
        expired by then may be removed. A timer registered for such a time waits until the watermark
        advances."""
        self.scope.passed_ms = max(self.scope.passed_ms, timestamp_ms)
        self.timers.event.fired(timestamp_ms)

    def fire_event_timers(self, until_ms: int) -> Iterator[Out]:
        yield from self._fire_all(self.timers.event, until_ms)
        self._passed(until_ms)

    def fire_processing_timers(self, until_ms: int) -> Iterator[Out]:
        yield from self._fire_all(self.timers.processing, until_ms)

    def _fire_all(self, queue: TimerQueue, until_ms: int) -> Iterator[Out]:
        next_ms = queue.next_ms()
        if next_ms is not None and next_ms <= until_ms:
            yield from self._fire(queue, until_ms)
            yield from self._flush()
            self.state.leave()

    def _fire(self, queue: TimerQueue, until_ms: int) -> Iterator[Out]:
        limit = self.ctx.batch_rows
        while True:
            due: list[Timer] = []
            while len(due) < limit and (timer := queue.pop(until_ms)) is not None:
                due.append(timer)
            if not due:
                return
            times = np.array([timestamp_ms for timestamp_ms, _ in due], np.int64)
            try:
                slots = self.state.enter_keys([key for _, key in due])
            except UnrestorableError:
                for timestamp_ms, key in due:
                    queue.add(timestamp_ms, key)
                raise
            # A processing-time timer is called at the event time that has passed.
            own = times if queue is self.timers.event else np.full(len(due), MIN_TIMESTAMP_MS)
            event_times = self._event_times(own)
            called = yield from self._timers(DueTimers(queue, until_ms, due, times, slots, event_times))
            for timestamp_ms, key in due[called:]:
                queue.add(timestamp_ms, key)

    # --- outputs --------------------------------------------------------------------------------------

    def _batches(self, tag: str, shown: Batch, hidden: HiddenColumns) -> Iterator[Out]:
        """Return batches of an output that some operator reads, with its hidden columns."""
        return bounded_batches(self.ctx, tag, shown, hidden)
