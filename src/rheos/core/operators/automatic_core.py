"""The core of functions that are compiled while they run, without being marked.

The interpreted and the compiled form share the function, its state and its timers. Either can take over
from the other between two calls. If a call of the compiled form fails, its effects are undone. The
interpreted form then makes the call again, so Python decides whether it is an error, and integers have
no limit. From then on the function remains interpreted. It does so, too, if an object from outside the
function changes, such as a global.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from rheos.core.compiler.kernel import compiled_loop
from rheos.core.errors import UnrestorableError, UserFunctionError
from rheos.core.graph.compilation import MethodText
from rheos.core.operators.columnar_core import Delivery, DueTimers
from rheos.core.operators.compiled_core import CompiledCode, CompiledCore, code_of, typing_of
from rheos.core.operators.contract import OperatorContext, Out, Restored
from rheos.core.operators.keyed_core import KeyedCore
from rheos.core.operators.process_core import ProcessCore
from rheos.core.operators.records import HiddenColumns
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ports import Completion
from rheos.core.state.slots import Slots

if TYPE_CHECKING:
    from rheos.core.operators.process import ProcessSpec

ENOUGH_ROWS = 100_000
"""Number of rows, in large batches, after which a function is compiled. That costs seconds, so it must
not happen in jobs that end soon."""

_LARGE_BATCH = 256
"""Number of rows from which on a batch costs less in compiled code, whose calls have a fixed cost."""

_SMALL_BATCHES = 1000
"""Number of successive smaller batches after which a function is interpreted again."""


class NeedsPython(Exception):  # noqa: N818 - the interpreted form continues
    """Raised by a call of the compiled form that had no effect."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row
        """The next row of the batch."""


class TentativeCore(CompiledCore):
    """Compiled code whose failing calls are undone."""

    def deliver_batch(self, port: int, batch: Batch, hidden: HiddenColumns) -> Iterator[Out]:
        self._next = 0
        yield from super().deliver_batch(port, batch, hidden)

    _next = 0
    """Row of the delivered batch for which the function is called next."""

    def _call_rows(self, delivery: Delivery, start: int, stop: int) -> tuple[int, list[Out]]:
        before = self._copy_state(delivery.slots[start:stop])
        try:
            called = super()._call_rows(delivery, start, stop)
        except UserFunctionError as error:
            self._put_back(before)
            raise NeedsPython(start) from error
        self._next = called[0]
        return called

    def _call_timers(self, due: DueTimers) -> tuple[int, list[Out]]:
        before = self._copy_state(due.slots)
        try:
            return super()._call_timers(due)
        except UserFunctionError as error:
            self._put_back(before)
            for timestamp_ms, key in due.timers:
                due.queue.add(timestamp_ms, key)
            raise NeedsPython(self._next) from error

    def _copy_state(self, slots: Slots) -> tuple[Slots, list[list[npt.NDArray[Any]]]]:
        columns = self.state.columns.values()
        return slots, [[part[slots] for part in column.arrays()] for column in columns]

    def _put_back(self, before: tuple[Slots, list[list[npt.NDArray[Any]]]]) -> None:
        slots, kept = before
        for column, parts in zip(self.state.columns.values(), kept, strict=True):
            for part, values in zip(column.arrays(), parts, strict=True):
                part[slots] = values


class AutomaticCore(ProcessCore):
    """Calls the interpreted or the compiled form of a function, which have the same results."""

    def __init__(self, ctx: OperatorContext, spec: ProcessSpec, methods: dict[str, MethodText]) -> None:
        takes = [("process_element", spec.record)]
        self._python = python = KeyedCore(ctx, spec.fn, spec.side_outputs, takes)
        self._compiled: TentativeCore | None = None
        self._code: CompiledCode | None = None
        self._work: Completion[CompiledCode | None] | None = None
        self._rows_left: int | None = ENOUGH_ROWS
        """Number of rows until the function is compiled; None if that is under way or done, or if it
        remains interpreted."""
        self._small_batches = 0
        """Number of small batches since the last large one."""
        self._spec, self._methods = spec, methods
        self.ctx, self.function = ctx, python.function
        self.codec, self.codecs = python.codec, python.codecs
        self.backend, self.timers = python.backend, python.timers

    @property
    def watermark_ms(self) -> int:
        return self._form().watermark_ms

    @watermark_ms.setter
    def watermark_ms(self, timestamp_ms: int) -> None:
        self._form().watermark_ms = timestamp_ms

    def _form(self) -> ProcessCore:
        return self._python if self._compiled is None else self._compiled

    def open(self, restored: Restored) -> None:
        self._python.open(restored)

    def close_function(self) -> None:
        self._python.close_function()

    def close(self) -> None:
        self._python.close()

    def next_keys(self) -> None:
        self._form().next_keys()

    # --- the choice of the form -----------------------------------------------------------------------

    def _choose(self, rows: int = 0) -> TentativeCore | None:
        """Return the compiled form, if it is to make the next calls. `rows` is the number of rows that
        have arrived for them."""
        self._small_batches = 0 if rows >= _LARGE_BATCH else self._small_batches + (rows > 0)
        if self._compiled is not None:
            small = self._small_batches >= _SMALL_BATCHES
            if self._code is not None and self._code.holds() and not small:
                return self._compiled
            self._return_to_python()
            self._rows_left = ENOUGH_ROWS if small else None
        elif self._work is not None and self._work.done():
            self._take_over(self._work)
        elif self._rows_left is not None and rows >= _LARGE_BATCH:
            self._rows_left -= rows
            if self._rows_left <= 0:
                self._rows_left = None
                self._work = self.ctx.io.aside(self._compile)
        return self._compiled

    def _compile(self) -> CompiledCode | None:
        """Compile the function, in another thread. Return None if that is not possible."""
        typing = typing_of(self.ctx.ports[0], self._spec, self.ctx.outputs)
        try:
            code = code_of(self.function, self._methods, typing)
            for loop in code.loops.values():
                compiled_loop(loop, self.ctx.program.code_folder)
        except Exception:
            # Nobody has asked for the compiled form, so no failure of the compiler is the user's error.
            return None
        return code

    def _take_over(self, work: Completion[CompiledCode | None]) -> None:
        """Continue in the compiled form, unless the code or a value of the state does not allow it."""
        self._work = None
        code = work.result()
        if code is None or not code.holds():
            return
        try:
            self._compiled = TentativeCore(self.ctx, self._spec, code, self._python)
        except UnrestorableError:  # An integer of the state exceeds 64 bits.
            return
        self._code = code

    def _return_to_python(self) -> None:
        assert self._compiled is not None
        self._compiled.state.leave()
        self._compiled.state.give_back()
        self._python.watermark_ms = self._compiled.watermark_ms
        self._compiled = self._code = None

    # --- calls ----------------------------------------------------------------------------------------

    def deliver_batch(self, port: int, batch: Batch, hidden: HiddenColumns) -> Iterator[Out]:
        compiled = self._choose(batch.num_rows)
        if compiled is not None:
            try:
                yield from compiled.deliver_batch(port, batch, hidden)
                self.ctx.count("compiled_rows", batch.num_rows)
                return
            except NeedsPython as stopped:
                self.ctx.count("compiled_rows", stopped.row)
                batch, hidden = batch.slice(stopped.row), hidden.at(slice(stopped.row, None))
                self._return_to_python()
        yield from self._python.deliver_batch(port, batch, hidden)

    def fire_event_timers(self, until_ms: int) -> Iterator[Out]:
        compiled = self._choose()
        if compiled is not None:
            try:
                yield from compiled.fire_event_timers(until_ms)
                return
            except NeedsPython:
                self._return_to_python()
        yield from self._python.fire_event_timers(until_ms)

    def fire_processing_timers(self, until_ms: int) -> Iterator[Out]:
        compiled = self._choose()
        if compiled is not None:
            try:
                yield from compiled.fire_processing_timers(until_ms)
                return
            except NeedsPython:
                self._return_to_python()
        yield from self._python.fire_processing_timers(until_ms)
