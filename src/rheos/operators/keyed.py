"""The core of keyed process functions: the calls, and their outputs until they are batches.

`ProcessOperator` and `OrderedProcessOperator` differ in when rows reach the function; how it is called
is here. One *delivery* is what one call of the operator brings: rows, timers, or both in their order.
Each call of the function has a number in its delivery; what it emits notes that number, and takes from
it the timestamp, and the record and key where it turns out to be wrong.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rheos.errors import ProgramError, RheosError
from rheos.graph.nodes import MAIN, ProcessSpec
from rheos.graph.state import declarations
from rheos.operators.contract import OperatorContext, Out, OutputType, Restored
from rheos.operators.held import HELD, HELD_WATERMARKS
from rheos.operators.keyed_state import make_backend
from rheos.operators.records import (
    UserRaised,
    has_user_frames,
    is_single,
    not_iterable,
    user_error,
    with_hidden,
    wrong_type,
)
from rheos.protocol.elements import MIN_TIMESTAMP_MS, TS
from rheos.protocol.types import RecordCollector, TypeMismatch
from rheos.state.keys import KeyCodec
from rheos.state.kinds import handle_of
from rheos.state.scope import NO_KEY, KeyScope
from rheos.state.timers import TIMERS, TimerQueue, TimerService

Stamps = npt.NDArray[np.int64]

OWN_STATES = (TIMERS, HELD, HELD_WATERMARKS)
"""What the operator itself keeps beside what its function declares."""

_TIMERS_AT_ONCE = 1024
"""For the keys of about so many timers state is prepared together."""


_NO_EVENT_TIME = (
    "the stream has no event time, so ctx.timestamp is None: give its source a watermark, "
    'watermark=rh.Watermark.bounded_out_of_orderness("5s", on="the time column")'
)


def _nothing_passed(call: int) -> int:
    return MIN_TIMESTAMP_MS


class Timer(NamedTuple):
    """Stands in an error for the record, where it was a timer."""

    timestamp_ms: int


class FunctionContext(KeyScope):
    """The KeyedContext of the user's function (`graph/functions.py`). One object serves all calls. It
    is the scope of the function's state, too: setting its key is all there is to a call."""

    __slots__ = ("_core", "call", "timers", "timestamp")

    timers: TimerService

    def __init__(self, core: KeyedCore) -> None:
        super().__init__(core.ctx.clock)
        self._core = core
        self.call = 0
        """The number of the current call in its delivery."""
        self.timestamp: int | None = None

    @property
    def watermark(self) -> int:
        return self._core.reached_ms()

    def event_time(self) -> int:
        return self._core.event_time_ms()

    def output(self, tag: str, record: Any) -> None:
        self._core.side_output(tag, record)


class _Pending:
    """Output records of one tag that are not in a batch yet, and the calls that gave them."""

    def __init__(self, tag: str, output: OutputType | None) -> None:
        self.tag = tag
        self.calls: list[int] = []
        self.schema = None if output is None else output.schema
        # Records are taken apart at once, as the function may still change them.
        self.records = None if output is None else RecordCollector(output.schema, output.type.record)
        self.add = _ignore if self.records is None else self.records.add
        """Nobody may read the output."""

    def clear(self) -> None:
        self.calls.clear()
        if self.records is not None:
            self.records.clear()


def _ignore(record: Any) -> None:
    pass


class KeyedCore:
    """Calls one function for one subtask."""

    def __init__(self, ctx: OperatorContext, spec: ProcessSpec) -> None:
        self.ctx = ctx
        port = ctx.ports[0]
        self.codec = KeyCodec(port.schema, port.keys, port.keyed_at)
        self.context = context = FunctionContext(self)
        self.backend = make_backend(ctx, self.codec, context)
        self.timers = context.timers = self.backend.timers(event_time=TS in port.schema.names)
        # Subtasks that share a process must not share the user's object.
        self.function = copy.deepcopy(spec.fn)
        for name, declaration in declarations(self.function).items():
            assert name not in OWN_STATES, "the program was looked through as it was written"
            object.__setattr__(self.function, name, handle_of(declaration, self.backend))

        self._main = _Pending(MAIN, ctx.outputs.get(MAIN))
        self._sides = {tag: _Pending(tag, ctx.outputs.get(tag)) for tag in spec.side_outputs}
        self._begin((), (), None, None, None)

    @property
    def watermark_ms(self) -> int:
        """The watermark that calls run at."""
        return self.context.watermark_ms

    @watermark_ms.setter
    def watermark_ms(self, timestamp_ms: int) -> None:
        self.context.watermark_ms = timestamp_ms

    def open(self, restored: Restored) -> None:
        self.backend.restore(restored)
        self._call_without_key(self.function.open)

    def close(self) -> None:
        try:
            self._call_without_key(self.function.close)
        finally:
            self.backend.close()

    def _call_without_key(self, method: Callable[[], object]) -> None:
        self.context.key = NO_KEY
        try:
            method()
        except UserRaised as error:
            raise user_error(self.ctx, error) from error

    def next_keys(self) -> None:
        """Forgets all keys; the watermark starts over."""
        self.backend.forget()
        self.watermark_ms = self.context.passed_ms = MIN_TIMESTAMP_MS

    # --- calls ------------------------------------------------------------------------------------

    def deliver(
        self,
        keys: Sequence[Any],
        rows: Sequence[Any],
        stamps: Stamps | None,
        marks: Stamps | None,
        reached: Stamps | None,
    ) -> Iterator[Out]:
        """Calls `process_element` for each row. `marks` are the watermarks of splits that outputs
        inherit; `reached`, which never falls, is the watermark that was reached before each row: it
        finds the event-time timers up to there fired.
        """
        self._begin(keys, rows, stamps, marks, reached)
        last_ms = MIN_TIMESTAMP_MS if reached is None or not len(reached) else int(reached[-1])
        self.timers.expect(last_ms)
        times: Sequence[int | None] = [None] * len(rows) if stamps is None else stamps.tolist()
        stride = self.backend.stride
        for first in range(0, len(rows), stride):
            span = slice(first, first + stride)
            self.backend.prepare(keys[span])
            yield from self._process(first, keys[span], rows[span], times[span], last_ms)
        self.timers.expect(MIN_TIMESTAMP_MS)
        self._passed(last_ms)
        yield from self._flush()

    def reached_ms(self) -> int:
        """The watermark as of the current call."""
        call, reached = self.context.call, self._reached
        if reached is None or call >= len(reached):
            return self.watermark_ms
        return max(self.watermark_ms, int(reached[call]))

    def event_time_ms(self) -> int:
        """The event time of the current call: the timestamp of its row or timer, and never before what
        the stream had reached by the row. It does not depend on how rows travel."""
        context, reached = self.context, self._reached
        floor = context.passed_ms
        if reached is not None and context.call < len(reached):
            floor = max(floor, reached.item(context.call))
        timestamp = context.timestamp if self._has_event_time else None
        return floor if timestamp is None or timestamp < floor else timestamp

    def _passed(self, timestamp_ms: int) -> None:
        """All rows and timers up to there have been called for: state that is gone by then may go."""
        self.context.passed_ms = max(self.context.passed_ms, timestamp_ms)

    def _process(
        self,
        first: int,
        keys: Sequence[Any],
        rows: Sequence[Any],
        times: Sequence[Any],
        last_ms: int,
    ) -> Iterator[Out]:
        """Calls for the rows from `first` on; `last_ms` is the watermark before the last of all."""
        context, process = self.context, self.function.process_element
        add, calls, limit = self._main.add, self._main.calls, self.ctx.batch_rows
        note = calls.append
        passed = _nothing_passed if self._reached is None else self._reached.item
        timers, heap = self.timers, self.timers.event.heap
        row = result = output = None
        try:
            # This is the path of every record: what it does not need, it does not have.
            for context.call, context.key, row, context.timestamp in zip(
                count(first), keys, rows, times, strict=False
            ):
                if timers.expected and heap and heap[0][0] <= (until_ms := passed(context.call)):
                    here = context.call, context.key, context.timestamp
                    self.watermark_ms = max(self.watermark_ms, until_ms)
                    # A timer that was set into the past is called at what the row before had reached.
                    if context.call:
                        self._passed(passed(context.call - 1))
                    yield from self._fire(timers.event, until_ms, among_rows=True)
                    context.call, context.key, context.timestamp = here
                    timers.expect(last_ms)
                result = None
                result = process(row, context)
                if result is not None:
                    for output in result:
                        add(output)
                        note(context.call)
                        if len(calls) >= limit:
                            yield from self._flush()
        except UserRaised as error:
            raise self._failure(error, row, result, output) from error

    def fire_event_timers(self, until_ms: int) -> Iterator[Out]:
        """Fires what is due at or before `until_ms`, what these register included."""
        self._begin((), (), None, None, None)
        yield from self._fire(self.timers.event, until_ms)
        self._passed(until_ms)
        yield from self._flush()

    def fire_processing_timers(self, until_ms: int) -> Iterator[Out]:
        self._begin((), (), None, None, None)
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
                raise self._failure(error, Timer(timer[0]), result, output) from error

    def _failure(
        self, error: Exception | SystemExit, record: Any, result: Any, output: Any
    ) -> RheosError:
        """What to raise for an error of a call, or of the taking of what it gave."""
        key = self.context.key
        if isinstance(error, TypeError) and self.context.timestamp is None:
            found = user_error(self.ctx, error, record=record, key=key)
            if "NoneType" in found.what and "timestamp" in (found.detail or ""):
                found.hint = _NO_EVENT_TIME
                return found
        if isinstance(error, RheosError) or has_user_frames(error) or result is None:
            return user_error(self.ctx, error, record=record, key=key)
        if is_single(result):
            return not_iterable(self.ctx, result, record=record, key=key)
        if isinstance(error, AttributeError | KeyError | TypeError) and self._main.records is not None:
            mismatch = self._main.records.mismatch(0, output)
            return wrong_type(self.ctx, mismatch, record=record, key=key)
        return user_error(self.ctx, error, record=record, key=key)

    # --- outputs ----------------------------------------------------------------------------------

    def _begin(
        self,
        keys: Sequence[Any],
        rows: Sequence[Any],
        stamps: Stamps | None,
        marks: Stamps | None,
        reached: Stamps | None,
    ) -> None:
        self._keys, self._rows = keys, rows
        self._stamps, self._marks, self._reached = stamps, marks, reached
        self._has_event_time = True
        """Whether the timestamps of calls are of event time: those of timers by the clock are not."""
        self._fired: list[tuple[int, Any]] = []
        """The timers of the delivery. Their calls are numbered after those of all rows."""

    def side_output(self, tag: str, record: Any) -> None:
        pending = self._sides.get(tag)
        if pending is None:
            declared = ", ".join(map(repr, sorted(self._sides))) or "none"
            raise ProgramError(
                f"{tag!r} is not a declared side output",
                hint=f"declare it: side_outputs = {{{tag!r}: ItsDataclass}}; declared are: {declared}",
            )
        if pending.records is None:
            return
        try:
            pending.add(record)
        except (AttributeError, KeyError, TypeError):
            raise wrong_type(self.ctx, pending.records.mismatch(0, record)) from None
        pending.calls.append(self.context.call)

    def _flush(self) -> Iterator[Out]:
        """What has been emitted so far, as batches."""
        for pending in (self._main, *self._sides.values()):
            if pending.calls and pending.records is not None:
                yield from self._batches(pending, pending.records)
            pending.clear()

    def _batches(self, pending: _Pending, records: RecordCollector) -> Iterator[Out]:
        calls = np.array(pending.calls, np.int64)
        inherited = self._inherited(calls)
        for start in range(0, len(calls), self.ctx.batch_rows):
            span = slice(start, start + self.ctx.batch_rows)
            try:
                batch = records.batch(span.start, span.stop)
            except TypeMismatch as mismatch:
                record, key = self._cause(pending.calls[start + mismatch.index])
                raise wrong_type(self.ctx, mismatch, record=record, key=key) from None
            hidden = (None if of is None else of[span] for of in inherited)
            yield Out(with_hidden(batch, pending.schema, *hidden), pending.tag)

    def _inherited(self, calls: Stamps) -> tuple[Stamps | None, Stamps | None, Stamps | None]:
        """For the calls: their timestamps, the watermarks of their splits, and what the stream had
        reached. A timer is of no split; it fires as the watermark passes it."""
        stamps, marks, reached = self._stamps, self._marks, self._reached
        if self._fired:
            timers = np.array([timestamp_ms for timestamp_ms, _ in self._fired], np.int64)
            stamps = _then(stamps, timers)
            marks = None if marks is None else _then(marks, np.full(len(timers), MIN_TIMESTAMP_MS))
            reached = None if reached is None else _then(reached, timers - 1)
        return _at(calls, stamps), _at(calls, marks), _at(calls, reached)

    def _cause(self, call: int) -> tuple[Any, Any]:
        """The record and the key of a call."""
        rows = len(self._rows)
        if call < rows:
            return self._rows[call], self._keys[call]
        timestamp_ms, key = self._fired[call - rows]
        return Timer(timestamp_ms), key


def _then(of_rows: Stamps | None, of_timers: Stamps) -> Stamps:
    return of_timers if of_rows is None else np.concatenate([of_rows, of_timers])


def _at(calls: Stamps, of_all: Stamps | None) -> Stamps | None:
    return None if of_all is None else of_all[calls]
