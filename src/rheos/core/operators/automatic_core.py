"""The core of functions that are compiled while they run, without being marked.

The interpreted and the compiled form share the function, its state and its timers. Either can take over
from the other between two calls. If a call of the compiled form fails, its effects are undone. The
interpreted form then makes the call again, so Python decides whether it is an error, and integers have
no limit. From then on the function remains interpreted. It does so, too, if an object from outside the
function changes, such as a global.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from rheos.core.errors import UnrestorableError, UserFunctionError
from rheos.core.graph.compilation import MethodText
from rheos.core.operators.columnar_core import Delivery, DueTimers
from rheos.core.operators.compiled_core import CompiledCore, typing_of
from rheos.core.operators.compiled_loops import CompiledCode, code_of
from rheos.core.operators.contract import OperatorContext, Out, Restored
from rheos.core.operators.due_rows import Due, mean_run_length, runs, sources
from rheos.core.operators.form_choice import FormChoice
from rheos.core.operators.keyed_core import KeyedCore
from rheos.core.operators.process_core import ProcessCore
from rheos.core.operators.records import HiddenColumns
from rheos.core.protocol.elements import Batch
from rheos.core.state.columnar.column import StateColumn
from rheos.core.state.columnar.list_column import ListColumn
from rheos.core.state.slots import Slots
from rheos.core.state.timers import TimerQueue

if TYPE_CHECKING:
    from rheos.core.operators.keyed_function import KeyedFunctionSpec


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
        yield from self._while_state_fits(super().deliver_batch(port, batch, hidden))

    def _fire_all(self, queue: TimerQueue, until_ms: int) -> Iterator[Out]:
        yield from self._while_state_fits(super()._fire_all(queue, until_ms))

    def _while_state_fits(self, outs: Iterator[Out]) -> Iterator[Out]:
        try:
            yield from outs
        except UnrestorableError as error:  # An integer of the state exceeds 64 bits.
            raise NeedsPython(self._next) from error

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
        # Changes of maps by earlier calls are stored, so that those of this one can be dropped.
        self.state.store_maps()
        return slots, [[part[slots] for part in column.arrays()] for column in self._columns()]

    def _put_back(self, before: tuple[Slots, list[list[npt.NDArray[Any]]]]) -> None:
        slots, kept = before
        for column, parts in zip(self._columns(), kept, strict=True):
            for part, values in zip(column.arrays(), parts, strict=True):
                part[slots] = values
        self.state.drop_maps()

    def _columns(self) -> list[StateColumn | ListColumn]:
        return [*self.state.columns.values(), *self.state.lists.values()]


class AutomaticCore(ProcessCore):
    """Calls the interpreted or the compiled form of a function, which have the same results."""

    def __init__(
        self, ctx: OperatorContext, spec: KeyedFunctionSpec, methods: dict[str, MethodText]
    ) -> None:
        self._python = python = KeyedCore(ctx, spec.fn, spec.side_outputs, spec.takes)
        self._compiled: TentativeCore | None = None
        self._choice = FormChoice(ctx, self._write)
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
        code = self._choice.code(rows)
        if code is None and self._compiled is not None:
            self._return_to_python()
        elif code is not None and self._compiled is None:
            self._take_over(code)
        return self._compiled

    def _write(self) -> CompiledCode:
        return code_of(self.function, self._methods, typing_of(self.ctx, self._spec))

    def _take_over(self, code: CompiledCode) -> None:
        """Continue in the compiled form, unless a value of the state does not allow it."""
        try:
            self._compiled = TentativeCore(self.ctx, self._spec, code, self._python)
        except UnrestorableError:  # An integer of the state exceeds 64 bits.
            self._choice.leave()

    def _leave(self, stopped: NeedsPython) -> None:
        """Return to Python for good, because a call of the compiled form has failed."""
        self._choice.leave(stopped.__cause__)
        self._return_to_python()

    def _return_to_python(self) -> None:
        assert self._compiled is not None
        self._compiled.state.leave()
        self._compiled.state.give_back()
        self._python.watermark_ms = self._compiled.watermark_ms
        self._compiled = None

    # --- calls ----------------------------------------------------------------------------------------

    def deliver_batch(self, port: int, batch: Batch, hidden: HiddenColumns) -> Iterator[Out]:
        self._choose(batch.num_rows)
        yield from self._deliver(port, batch, hidden)

    def deliver_merged(self, due: Sequence[Due]) -> Iterator[Out]:
        of = sources(due)
        # The compiled form is called for each run of rows of one port, so their length counts.
        if self._choose(mean_run_length(of)) is None:
            yield from self._python.deliver_merged(due)
            return
        for each in runs(due, of):
            yield from self._deliver(*each)

    def _deliver(self, port: int, batch: Batch, hidden: HiddenColumns) -> Iterator[Out]:
        """Call the chosen form for rows of one port."""
        if self._compiled is not None:
            try:
                yield from self._compiled.deliver_batch(port, batch, hidden)
                self.ctx.count("compiled_rows", batch.num_rows)
                return
            except NeedsPython as stopped:
                self.ctx.count("compiled_rows", stopped.row)
                batch, hidden = batch.slice(stopped.row), hidden.at(slice(stopped.row, None))
                self._leave(stopped)
        yield from self._python.deliver_batch(port, batch, hidden)

    def fire_event_timers(self, until_ms: int) -> Iterator[Out]:
        compiled = self._choose()
        if compiled is not None:
            try:
                yield from compiled.fire_event_timers(until_ms)
                return
            except NeedsPython as stopped:
                self._leave(stopped)
        yield from self._python.fire_event_timers(until_ms)

    def fire_processing_timers(self, until_ms: int) -> Iterator[Out]:
        compiled = self._choose()
        if compiled is not None:
            try:
                yield from compiled.fire_processing_timers(until_ms)
                return
            except NeedsPython as stopped:
                self._leave(stopped)
        yield from self._python.fire_processing_timers(until_ms)
