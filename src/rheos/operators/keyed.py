"""The core of keyed process functions: state, timers, context, and outputs in the making.

`ProcessOperator` and `OrderedProcessOperator` differ in when rows reach the function; how it is called
is here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.errors import ProgramError, RheosError
from rheos.graph.nodes import MAIN, ProcessSpec
from rheos.graph.state import declarations
from rheos.operators.contract import OperatorContext, Out, Restored
from rheos.operators.records import not_iterable, rows_to_batches, user_error, with_hidden, wrong_type
from rheos.protocol.elements import MIN_TIMESTAMP_MS
from rheos.protocol.snapshots import SnapshotPart
from rheos.protocol.types import TypeMismatch
from rheos.state.keys import KeyCodec
from rheos.state.memory import MemoryBackend
from rheos.state.timers import TimerService


class FunctionContext:
    """The KeyedContext of the user's function (`graph/functions.py`). One object serves all calls."""

    __slots__ = ("_core", "key", "timers", "timestamp")

    def __init__(self, core: KeyedCore, timers: TimerService) -> None:
        self._core = core
        self.key: Any = None
        self.timestamp: int | None = None
        self.timers = timers

    @property
    def watermark(self) -> int:
        return self._core.watermark_ms

    @property
    def processing_time(self) -> int:
        return self._core.ctx.clock.now_ms()

    def output(self, tag: str, record: Any) -> None:
        self._core.side_output(tag, record)


class _Pending:
    """Output rows of one tag before they are a batch, with what each inherits."""

    __slots__ = ("records", "timestamps", "watermarks")

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.timestamps: list[int] = []
        self.watermarks: list[int] = []


class KeyedCore:
    """Calls one function for one subtask."""

    def __init__(self, ctx: OperatorContext, spec: ProcessSpec) -> None:
        self.ctx = ctx
        port = ctx.ports[0]
        self.codec = KeyCodec(port.schema, port.keys)
        self.backend = MemoryBackend(self.codec, ctx.max_parallelism)
        self.timers = TimerService(self.codec, ctx.max_parallelism, self.backend.scope)
        # Subtasks that share a process must not share the user's object.
        self.function = copy.deepcopy(spec.fn)
        for name, declaration in declarations(self.function).items():
            setattr(self.function, name, self.backend.handle(declaration))
        self.watermark_ms = MIN_TIMESTAMP_MS
        self._side_tags = set(spec.side_outputs)
        self._context = FunctionContext(self, self.timers)
        self._pending: dict[str, _Pending] = {MAIN: _Pending()}
        self._inherit_watermark = MIN_TIMESTAMP_MS

    def open(self, restored: Restored) -> None:
        self.backend.restore(restored)
        self.timers.restore(restored)
        self._call(self.function.open)

    def close(self) -> None:
        self._call(self.function.close)

    def _call(self, method: Callable[[], object]) -> None:
        try:
            method()
        except Exception as error:
            raise user_error(self.ctx, error) from error

    def parts(self) -> list[SnapshotPart]:
        return [*self.backend.snapshot(), self.timers.snapshot()]

    # --- calls ------------------------------------------------------------------------------------

    def process(
        self,
        keys: Sequence[Any],
        rows: Sequence[Any],
        timestamps: Sequence[int] | Sequence[None],
        watermarks: Sequence[int] | None,
    ) -> Iterator[Out]:
        """Calls `process_element` for each row, in order."""
        scope, context = self.backend.scope, self._context
        process = self.function.process_element
        pending = self._pending[MAIN]
        records, stamps = pending.records, pending.timestamps
        inherited = pending.watermarks
        limit = self.ctx.batch_rows
        key: Any = None
        row: Any = None
        result: Any = None
        index = -1
        count = len(rows)
        while index + 1 < count:
            try:
                for index in range(index + 1, count):  # noqa: B020 - it goes on where it broke off
                    row = rows[index]
                    scope.key = context.key = key = keys[index]
                    context.timestamp = stamp = timestamps[index]
                    if watermarks is not None:
                        self._inherit_watermark = watermarks[index]
                    result = process(row, context)
                    if result is None:
                        continue
                    before = len(records)
                    records.extend(result)
                    made = len(records) - before
                    if made:
                        stamps.extend([stamp] * made)  # type: ignore[list-item]
                        if watermarks is not None:
                            inherited.extend([watermarks[index]] * made)
                        if len(records) >= limit:
                            break
            except Exception as error:
                if isinstance(error, TypeError) and not hasattr(result, "__iter__"):
                    raise not_iterable(self.ctx, result, record=row, key=key) from None
                raise user_error(self.ctx, error, record=row, key=key) from error
            if len(records) >= limit:
                yield from self.drain()
        yield from self.drain()

    @property
    def has_full_batch(self) -> bool:
        return len(self._pending[MAIN].records) >= self.ctx.batch_rows

    def process_quietly(
        self, keys: Sequence[Any], rows: Sequence[Any], timestamps: Sequence[int]
    ) -> None:
        """Calls `process_element` for a few rows; the outputs wait for `drain`, and inherit no mark."""
        self._inherit_watermark = MIN_TIMESTAMP_MS
        for key, row, timestamp_ms in zip(keys, rows, timestamps, strict=True):
            self.backend.scope.key = self._context.key = key
            self._context.timestamp = timestamp_ms
            self._collect(partial(self.function.process_element, row, self._context), row, key)

    def fire(self, timestamp_ms: int, key: Any) -> None:
        """Calls `on_timer`; its outputs wait for `drain`."""
        self.backend.scope.key = self._context.key = key
        self._context.timestamp = timestamp_ms
        self._inherit_watermark = MIN_TIMESTAMP_MS
        self._collect(
            partial(self.function.on_timer, timestamp_ms, self._context), f"timer {timestamp_ms}", key
        )

    def _collect(self, call: Callable[[], Any], record: Any, key: Any) -> None:
        """Makes the call and keeps what it gives."""
        result: Any = None
        try:
            result = call()
            if result is not None:
                for output in result:
                    self._emit(MAIN, output)
        except Exception as error:
            if isinstance(error, TypeError) and not hasattr(result, "__iter__"):
                raise not_iterable(self.ctx, result, record=record, key=key) from None
            raise user_error(self.ctx, error, record=record, key=key) from error

    def fire_event_timers(self, until_ms: int) -> Iterator[Out]:
        """Fires what is due at or before `until_ms`, what these register included."""
        while (timer := self.timers.event.pop(until_ms)) is not None:
            self.fire(*timer)
            if self.has_full_batch:
                yield from self.drain()
        yield from self.drain()

    def fire_processing_timers(self, until_ms: int) -> Iterator[Out]:
        while (timer := self.timers.processing.pop(until_ms)) is not None:
            self.fire(*timer)
        yield from self.drain()

    # --- outputs ----------------------------------------------------------------------------------

    def side_output(self, tag: str, record: Any) -> None:
        if tag not in self._side_tags:
            declared = ", ".join(repr(tag) for tag in sorted(self._side_tags)) or "none"
            raise ProgramError(
                f"{tag!r} is not a declared side output",
                hint=f"declare it: side_outputs = {{{tag!r}: ItsDataclass}}; declared are: {declared}",
            )
        if tag in self.ctx.outputs:
            self._emit(tag, record)

    def _emit(self, tag: str, record: Any) -> None:
        pending = self._pending.setdefault(tag, _Pending())
        pending.records.append(record)
        stamp = self._context.timestamp
        pending.timestamps.append(0 if stamp is None else stamp)
        pending.watermarks.append(self._inherit_watermark)

    def drain(self) -> Iterator[Out]:
        """What has been emitted so far, as batches."""
        for tag, pending in self._pending.items():
            if not pending.records:
                continue
            records, stamps, marks = pending.records, pending.timestamps, pending.watermarks
            if tag in self.ctx.outputs:
                yield from self._batches(tag, records, stamps, marks)
            records.clear()
            stamps.clear()
            marks.clear()

    def _batches(
        self, tag: str, records: list[Any], stamps: list[int], marks: list[int]
    ) -> Iterator[Out]:
        schema = self.ctx.outputs[tag].schema
        event_time = self.ctx.outputs[tag].type.event_time
        timestamps = np.array(stamps, np.int64) if event_time else None
        watermarks = np.array(marks, np.int64) if len(marks) == len(records) else None
        try:
            for start, batch in rows_to_batches(records, schema, self.ctx.batch_rows):
                stop = start + batch.num_rows
                yield Out(
                    with_hidden(
                        batch, schema, _cut(timestamps, start, stop), _cut(watermarks, start, stop)
                    ),
                    tag,
                )
        except TypeMismatch as mismatch:
            raise self._mismatch(mismatch, records) from None

    def _mismatch(self, mismatch: TypeMismatch, records: list[Any]) -> RheosError:
        return wrong_type(self.ctx, mismatch, record=records[mismatch.index], key=self._context.key)


def _cut(values: npt.NDArray[np.int64] | None, start: int, stop: int) -> npt.NDArray[np.int64] | None:
    return None if values is None else values[start:stop]
