"""Calls of a user's function, and the buffering of emitted records until they form batches.

A *delivery* consists of the calls for one call of the operator: rows, timers, or both in their order.
Each call of the function has a number in its delivery. An emitted record stores that number, which
leads to its timestamp and, if the record is invalid, to the input record and key for the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from rheos.core.errors import ProgramError, RheosError, StateAccessError, UserFunctionError
from rheos.core.graph.nodes import MAIN
from rheos.core.known_names import names_hint
from rheos.core.operators.contract import OperatorContext, Out, OutputType
from rheos.core.operators.records import (
    NOTHING_HIDDEN,
    HiddenColumns,
    Stamps,
    UserRaised,
    has_user_frames,
    is_single,
    not_iterable,
    user_error,
    with_hidden,
    wrong_type,
)
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, TS
from rheos.core.protocol.types import RecordCollector, RowsOfBatch, TypeMismatch
from rheos.core.safe_strings import is_error, shown

Process = Callable[[Any, Any], Any]
"""Method of the user's function that is called with a row and the context."""

_NO_EVENT_TIME = (
    "the stream has no event time, so ctx.timestamp is None: give its source a watermark, "
    'watermark=rh.Watermark.bounded_out_of_orderness("5s", on="the time column")'
)


class Timer(NamedTuple):
    """Timer that has fired, as errors show it in place of the record."""

    timestamp_ms: int


class ContextWithoutKey:
    """Context of calls that have no key (`graph/functions.py`). One object serves all calls."""

    __slots__ = ("_calls", "call", "timestamp")

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.call = 0
        """Number of the current call in its delivery."""
        self.timestamp: int | None = None

    @property
    def watermark(self) -> int:
        return self._calls.reached_ms(self.call)

    @property
    def is_late(self) -> bool:
        return self._calls.is_late(self.call, self.timestamp)

    @property
    def processing_time(self) -> int:
        return self._calls.ctx.clock.now_ms()

    def output(self, tag: str, record: Any) -> None:
        self._calls.side_output(tag, record, self.call)

    def __getattr__(self, name: str) -> Any:
        if name in ("key", "timers"):
            raise StateAccessError(
                f"ctx.{name} needs a key, but there is no key here",
                hint="keys and timers need a keyed stream: call .key_by(...) first",
            )
        raise AttributeError(f"the context has no attribute {name!r}")


class _PendingRecords:
    """Records of one tag that are not in a batch yet, and the numbers of the calls that emitted
    them."""

    def __init__(self, tag: str, output: OutputType | None) -> None:
        self.tag = tag
        self.calls: list[int] = []
        self.schema = None if output is None else output.schema
        # Records are converted at once, because the function may still change them.
        self.records = None if output is None else RecordCollector(output.schema, output.type.record)
        self.add = _ignore if self.records is None else self.records.add
        """Method that adds a record. It does nothing if no operator reads the output."""

    def clear(self) -> None:
        self.calls.clear()
        if self.records is not None:
            self.records.clear()


def _ignore(record: Any) -> None:
    pass


class Calls:
    """Calls of one function in one subtask. Subclasses add the calls with a key."""

    watermark_ms: int
    """Watermark at the time of the calls."""

    def __init__(self, ctx: OperatorContext, side_outputs: Iterable[str]) -> None:
        self.ctx = ctx
        self.watermark_ms = MIN_TIMESTAMP_MS
        self._main = _PendingRecords(MAIN, ctx.outputs.get(MAIN))
        self._sides = {tag: _PendingRecords(tag, ctx.outputs.get(tag)) for tag in side_outputs}
        self._begin((), ())

    def reached_ms(self, call: int) -> int:
        """Return the watermark at the time of a call."""
        reached = self._hidden.reached
        if reached is None or call >= len(reached):
            return self.watermark_ms
        return max(self.watermark_ms, int(reached[call]))

    def is_late(self, call: int, timestamp: int | None) -> bool:
        """Return whether the stream's watermark had passed the row of a call before it. Timers are
        never late."""
        if timestamp is None or call >= len(self._rows):
            return False
        reached = self._hidden.reached
        return timestamp <= (self.watermark_ms if reached is None else int(reached[call]))

    def deliver_without_key(
        self,
        process: Process,
        context: ContextWithoutKey,
        rows: Sequence[Any],
        hidden: HiddenColumns,
    ) -> Iterator[Out]:
        """Call `process` for each row."""
        self._begin((), rows, hidden)
        yield from self._process_without_key(process, context, rows, hidden.stamps)
        yield from self._flush()

    def _process_without_key(
        self,
        process: Process,
        context: ContextWithoutKey,
        rows: Sequence[Any],
        stamps: Stamps | None,
    ) -> Iterator[Out]:
        add, calls, limit = self._main.add, self._main.calls, self.ctx.batch_rows
        note = calls.append
        times: Sequence[int | None] = [None] * len(rows) if stamps is None else stamps.tolist()
        row = result = output = None
        try:
            for context.call, row, context.timestamp in zip(count(), rows, times, strict=False):
                result = None
                result = process(row, context)
                if result is not None:
                    for output in result:
                        add(output)
                        note(context.call)
                        if len(calls) >= limit:
                            yield from self._flush()
        except UserRaised as error:
            raise self._failure(error, context.timestamp, None, row, result, output) from error

    def _failure(
        self,
        error: Exception | SystemExit,
        timestamp: int | None,
        key: Any,
        record: Any,
        result: Any,
        output: Any,
    ) -> RheosError:
        """Return the error for a failed call, or for an invalid result."""
        if is_error(error, TypeError) and timestamp is None:
            found = user_error(self.ctx, error, record=record, key=key)
            if "NoneType" in found.what and "timestamp" in (found.detail or ""):
                found.hint = _NO_EVENT_TIME
                return found
        if is_error(error, RheosError) or has_user_frames(error) or result is None:
            return user_error(self.ctx, error, record=record, key=key)
        if is_single(result):
            return not_iterable(self.ctx, result, record=record, key=key)
        if is_error(error, (AttributeError, KeyError, TypeError)) and self._main.records is not None:
            mismatch = self._main.records.mismatch(0, output)
            return wrong_type(self.ctx, mismatch, record=record, key=key)
        return user_error(self.ctx, error, record=record, key=key)

    # --- outputs ----------------------------------------------------------------------------------

    def _begin(
        self,
        keys: Sequence[Any],
        rows: Sequence[Any] | RowsOfBatch,
        hidden: HiddenColumns = NOTHING_HIDDEN,
    ) -> None:
        self._keys, self._rows, self._hidden = keys, rows, hidden
        self._has_event_time = True
        """Whether the timestamps of calls are event times; those of processing-time timers are not."""
        self._fired: list[tuple[int, Any]] = []
        """Timers of the delivery. Their calls are numbered after those of all rows."""

    def side_output(self, tag: str, record: Any, call: int) -> None:
        pending = self._sides.get(tag)
        if pending is None:
            declared = names_hint(tag, sorted(self._sides), "declared are")
            raise ProgramError(
                f"{tag!r} is not a declared side output",
                hint=f"{declared}; declare it: side_outputs = {{{tag!r}: ItsDataclass}}",
            )
        if pending.records is None:
            return
        try:
            pending.add(record)
        except (AttributeError, KeyError, TypeError):
            raise wrong_type(self.ctx, pending.records.mismatch(0, record)) from None
        pending.calls.append(call)

    def _flush(self) -> Iterator[Out]:
        """Yield the output emitted so far, as batches."""
        for pending in (self._main, *self._sides.values()):
            if pending.calls and pending.records is not None:
                yield from self._batches(pending, pending.records)
            pending.clear()

    def _batches(self, pending: _PendingRecords, records: RecordCollector) -> Iterator[Out]:
        calls = np.array(pending.calls, np.int64)
        inherited = self._inherited(calls)
        assert pending.schema is not None
        if inherited.stamps is None and TS in pending.schema.names:
            raise self._untimed(pending.calls[0])
        for start in range(0, len(calls), self.ctx.batch_rows):
            span = slice(start, start + self.ctx.batch_rows)
            try:
                batch = records.batch(span.start, span.stop)
            except TypeMismatch as mismatch:
                record, key = self._cause(pending.calls[start + mismatch.index])
                raise wrong_type(self.ctx, mismatch, record=record, key=key) from None
            yield Out(with_hidden(batch, pending.schema, inherited.at(span)), pending.tag)

    def _inherited(self, calls: Stamps) -> HiddenColumns:
        """Return the hidden columns of records that calls emit. A timer belongs to no split; it fires
        when the watermark passes it."""
        if not self._fired:
            hidden = self._hidden
        else:
            stamps, marks, reached = self._hidden
            timers = np.array([timestamp_ms for timestamp_ms, _ in self._fired], np.int64)
            stamps = _concatenate_stamps(stamps, timers)
            marks = (
                None
                if marks is None
                else _concatenate_stamps(marks, np.full(len(timers), MIN_TIMESTAMP_MS))
            )
            reached = None if reached is None else _concatenate_stamps(reached, timers - 1)
            hidden = HiddenColumns(stamps, marks, reached)
        return hidden.at(calls)

    def _untimed(self, call: int) -> RheosError:
        return UserFunctionError(
            "a record was emitted for a row without event time, but the output stream has event time",
            site=self.ctx.site,
            operator=self.ctx.name,
            record=shown(self._cause(call)[0]),
            hint="set watermark= on the source of that input, too",
        )

    def _cause(self, call: int) -> tuple[Any, Any]:
        """Return the record and the key of a call."""
        rows = len(self._rows)
        if call < rows:
            return self._rows[call], self._keys[call] if len(self._keys) else None
        timestamp_ms, key = self._fired[call - rows]
        return Timer(timestamp_ms), key


def _concatenate_stamps(of_rows: Stamps | None, of_timers: Stamps) -> Stamps:
    return of_timers if of_rows is None else np.concatenate([of_rows, of_timers])
