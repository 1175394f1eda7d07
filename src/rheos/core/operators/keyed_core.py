"""The core of keyed functions: the calls for rows and timers of a key, with its state.

Operators decide when rows reach the function and which method is called; this module makes the calls.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from rheos.core.graph.state import bind, keyed_declarations
from rheos.core.operators.buffered_rows import HELD, HELD_WATERMARKS
from rheos.core.operators.calls import Calls, Process, Timer
from rheos.core.operators.contract import OperatorContext, Out, PortType
from rheos.core.operators.due_rows import Due, places, together
from rheos.core.operators.keyed_state import declared_shape, keyed_shape, make_backend
from rheos.core.operators.process_core import ProcessCore
from rheos.core.operators.records import HiddenColumns, UserRaised
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, TS, Batch
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.types import RowsOfBatch, rows_of
from rheos.core.state.keys import KeyCodec
from rheos.core.state.kinds import handle_of, stored_types
from rheos.core.state.scope import NO_KEY, KeyScope
from rheos.core.state.timers import TIMERS, TimerQueue, timers_for

OWN_STATES = (TIMERS, HELD, HELD_WATERMARKS)
"""States of the operator itself, in addition to those that its function declares."""

_TIMERS_AT_ONCE = 1024
"""Approximate number of timers for whose keys state is prepared together."""


def _nothing_passed(call: int) -> int:
    return MIN_TIMESTAMP_MS


def function_shapes(port: PortType, function: object) -> dict[str, StateShape]:
    """Return the keyed state of a function: its declared state, and timers."""
    shapes = {name: declared_shape(port, state) for name, state in keyed_declarations(function).items()}
    shapes[TIMERS] = keyed_shape(port, StatePurpose.TIMERS, TypeShape(name="timer"))
    return shapes


def function_types(function: object) -> dict[str, Sequence[Any]]:
    """Return the types of the function's declared keyed state, by state name."""
    return {name: stored_types(state) for name, state in keyed_declarations(function).items()}


class FunctionContext(KeyScope):
    """The KeyedContext of the user's function (`graph/functions.py`). One object serves all calls. It
    is also the scope of the function's state, so a call only has to set the key."""

    __slots__ = ("_core", "call", "timers", "timestamp")

    timers: Any

    def __init__(self, core: KeyedCore, ctx: OperatorContext) -> None:
        super().__init__(ctx.clock)
        self._core = core
        self.call = 0
        """Number of the current call in its delivery."""
        self.timestamp: int | None = None

    @property
    def watermark(self) -> int:
        return self._core.reached_ms(self.call)

    @property
    def is_late(self) -> bool:
        return self._core.is_late(self.call, self.timestamp)

    def event_time(self) -> int:
        return self._core.event_time_ms()

    def output(self, tag: str, record: Any) -> None:
        self._core.side_output(tag, record, self.call)


Takes = Sequence[tuple[str, type | None]]
"""For each keyed port, the method called for its rows, and the class of its records."""


class KeyedCore(Calls, ProcessCore):
    """Calls one function for one subtask. Keyed ports precede others; their keys have the same type."""

    def __init__(
        self, ctx: OperatorContext, function: Any, side_outputs: Iterable[str], takes: Takes
    ) -> None:
        self.context = context = FunctionContext(self, ctx)
        super().__init__(ctx, side_outputs)
        ports = ctx.ports[: len(takes)]
        self.codecs = [KeyCodec(port.schema, port.keys, port.keyed_at) for port in ports]
        self.codec, port = self.codecs[0], ports[0]
        self.backend = make_backend(ctx, self.codec, context)
        self.timers = self.backend.timers(event_time=TS in port.schema.names)
        # Subtasks that share a process must not share the user's object.
        self.function = copy.deepcopy(function)
        context.timers = timers_for(self.timers, self.function, "on_timer")
        for name, declaration in keyed_declarations(self.function).items():
            assert name not in OWN_STATES, "the program was validated when it was built"
            bind(self.function, name, handle_of(declaration, self.backend))
        self.records = [record for _, record in takes]
        self.methods = [getattr(self.function, name) for name, _ in takes]

    def _call_without_key(self, method: Callable[[], object]) -> None:
        self.context.key = NO_KEY
        super()._call_without_key(method)

    def next_keys(self) -> None:
        """Forget all keys, and reset the watermark."""
        self.backend.forget()
        self.watermark_ms = self.context.passed_ms = MIN_TIMESTAMP_MS

    # --- calls ------------------------------------------------------------------------------------

    def deliver_batch(self, port: int, batch: Batch, hidden: HiddenColumns) -> Iterator[Out]:
        """Call the method of the port for each row; see `deliver`."""
        keys, rows = self.codecs[port].of(batch), RowsOfBatch(batch, self.records[port])
        return self.deliver(self.methods[port], keys, rows, hidden)

    def deliver(
        self,
        process: Process,
        keys: Sequence[Any],
        rows: Sequence[Any] | RowsOfBatch,
        hidden: HiddenColumns,
    ) -> Iterator[Out]:
        """Call `process`, a method of the function, for each row, after the event-time timers due
        before it."""
        self._begin(keys, rows, hidden)
        stamps, reached = hidden.stamps, hidden.reached
        last_ms = MIN_TIMESTAMP_MS if reached is None or not len(reached) else int(reached[-1])
        self.timers.expect(last_ms)
        times: Sequence[int | None] = [None] * len(rows) if stamps is None else stamps.tolist()
        stride, due = self.backend.stride, iter(rows)
        for first in range(0, len(rows), stride):
            span = slice(first, first + stride)
            self.backend.prepare(keys[span])
            yield from self._process(process, first, keys[span], due, times[span], last_ms)
        self.timers.expect(MIN_TIMESTAMP_MS)
        self._passed(last_ms)
        yield from self._flush()

    def deliver_merged(self, due: Sequence[Due]) -> Iterator[Out]:
        hidden = together([each.hidden for each in due])
        order = places(hidden)
        keys: list[Any] = []
        rows: list[Any] = []
        methods: list[Process] = []
        for port, batch, _ in due:
            keys += self.codecs[port].of(batch)
            rows += rows_of(batch, self.records[port])
            methods += [self.methods[port]] * batch.num_rows
        numbers = order.tolist()
        method = map(methods.__getitem__, numbers)

        def process(row: Any, ctx: Any) -> Any:
            return next(method)(row, ctx)

        yield from self.deliver(
            process,
            list(map(keys.__getitem__, numbers)),
            list(map(rows.__getitem__, numbers)),
            hidden.at(order),
        )

    def event_time_ms(self) -> int:
        """Return the event time of the current call: the timestamp of its row or timer, but at least
        the watermark of the stream at that row. The result does not depend on how rows are batched."""
        context, reached = self.context, self._hidden.reached
        floor = context.passed_ms
        if reached is not None and context.call < len(reached):
            floor = max(floor, reached.item(context.call))
        timestamp = context.timestamp if self._has_event_time else None
        return floor if timestamp is None or timestamp < floor else timestamp

    def _passed(self, timestamp_ms: int) -> None:
        """Note that the function was called for all rows and timers up to `timestamp_ms`. State that
        expired by then may be removed. A timer registered for such a time waits until the watermark
        advances."""
        self.context.passed_ms = max(self.context.passed_ms, timestamp_ms)
        self.timers.event.fired(timestamp_ms)

    def _process(
        self,
        process: Process,
        first: int,
        keys: Sequence[Any],
        due: Iterator[Any],
        times: Sequence[Any],
        last_ms: int,
    ) -> Iterator[Out]:
        """Call the function for the rows from `first` on, one for each key. `last_ms` is the watermark
        before the last."""
        context = self.context
        add, calls, limit = self._main.add, self._main.calls, self.ctx.batch_rows
        note = calls.append
        reached = self._hidden.reached
        passed = _nothing_passed if reached is None else reached.item
        timers, heap = self.timers, self.timers.event.heap
        row = result = output = None
        context.call = first - 1
        try:
            # Every record takes this path, so it does nothing that is not needed. `due` continues after
            # the keys, so it must follow them.
            for context.key, context.call, row, context.timestamp in zip(
                keys, count(first), due, times, strict=False
            ):
                if timers.expected and heap and heap[0][0] <= (until_ms := passed(context.call)):
                    here = context.call, context.key, context.timestamp
                    self.watermark_ms = max(self.watermark_ms, until_ms)
                    # A timer for a time that the watermark has passed fires once the watermark
                    # advances from its value at the row before, and is called with that value.
                    if context.call:
                        self._passed(passed(context.call - 1))
                    yield from self._fire(timers.event, until_ms, among_rows=True)
                    context.call, context.key, context.timestamp = here
                    timers.expect(last_ms)
                result = process(row, context)
                if result is not None:
                    for output in result:
                        add(output)
                        note(context.call)
                        if len(calls) >= limit:
                            yield from self._flush()
                row = result = None
        except UserRaised as error:
            if row is None:
                # The dataclass refused the values of the next row. This access raises its error.
                row = self._rows[context.call + 1]
            raise self._failure(error, context.timestamp, context.key, row, result, output) from error

    def fire_event_timers(self, until_ms: int) -> Iterator[Out]:
        """Fire all timers that are due at or before `until_ms`, including those registered
        meanwhile."""
        self._begin((), ())
        yield from self._fire(self.timers.event, until_ms)
        self._passed(until_ms)
        yield from self._flush()

    def fire_processing_timers(self, until_ms: int) -> Iterator[Out]:
        self._begin((), ())
        self._has_event_time = False
        yield from self._fire(self.timers.processing, until_ms)
        yield from self._flush()

    def _fire(self, queue: TimerQueue, until_ms: int, *, among_rows: bool = False) -> Iterator[Out]:
        context, on_timer = self.context, self.function.on_timer
        main, limit, fired = self._main, self.ctx.batch_rows, self._fired
        result = output = None
        calls, stride = 0, self.backend.stride
        while (timer := queue.pop(until_ms)) is not None:
            calls += 1
            if calls % stride == 0 or (calls == 1 and not among_rows):
                self.backend.prepare([timer[1], *queue.upcoming(_TIMERS_AT_ONCE)])
            if len(fired) >= limit:
                yield from self._flush()
                fired.clear()
            context.call = len(self._rows) + len(fired)
            fired.append(timer)
            context.timestamp, context.key = timer
            try:
                result = None
                result = on_timer(timer[0], context)
                if result is not None:
                    for output in result:
                        main.add(output)
                        main.calls.append(context.call)
                        if len(main.calls) >= limit:
                            yield from self._flush()
            except UserRaised as error:
                raise self._failure(
                    error, timer[0], timer[1], Timer(timer[0]), result, output
                ) from error
