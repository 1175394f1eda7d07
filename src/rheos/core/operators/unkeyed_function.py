"""Common part of operators whose function has no key: they call one function for the rows of all ports,
with operator state and broadcast state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, assert_never

from rheos.core.compiler.eligibility import Automatic
from rheos.core.operators.automatic_rows import AutomaticRows, automatic_rows, element_typing
from rheos.core.operators.calls import Calls, ContextWithoutKey, Process
from rheos.core.operators.compiled_outputs import bounded_batches, emitted_types
from rheos.core.operators.contract import Operator, OperatorContext, Out, Restored
from rheos.core.operators.records import HiddenColumns, call_user
from rheos.core.operators.runtime_context import RuntimeContext, opening
from rheos.core.protocol.elements import TS, Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart
from rheos.core.protocol.types import rows_of
from rheos.core.state.unkeyed_state import UnkeyedStates

Takes = Sequence[tuple[str, type | None]]
"""For each port, the method of the function that is called for its rows, and the class of its records.
"""


Form: TypeAlias = Literal["process", "flat_map", "map"]
"""Form of the methods: whether they take a context in addition to the record, and whether they return
one record or any number."""


def _called(method: Callable[..., Any], form: Form) -> Process:
    match form:
        case "process":
            return method
        case "flat_map":
            return lambda row, ctx: method(row)
        case "map":
            return lambda row, ctx: (method(row),)
        case _:
            assert_never(form)


class UnkeyedFunctionOperator(Operator):
    """Calls the function for rows in order of arrival. Emitted records have the timestamp and the
    watermark of their input row. Calls for rows of a broadcast port may write broadcast state."""

    def __init__(
        self,
        ctx: OperatorContext,
        function: Any,
        side_outputs: Iterable[str],
        takes: Takes,
        form: Form = "process",
        automatic: Automatic = None,
    ) -> None:
        """Create the operator. `automatic` is the form of `process_element`, which is called for the
        rows of the first port."""
        super().__init__(ctx)
        # Subtasks that share a process must not share the user's object.
        self._function = copy.deepcopy(function)
        self._states = UnkeyedStates(self._function)
        self._takes = [(_called(getattr(self._function, name), form), record) for name, record in takes]
        self._calls = calls = Calls(ctx, side_outputs)
        self._context = ContextWithoutKey(calls)
        self._compiled = self._automatic(automatic, takes[0][1], side_outputs)
        self._open = False

    def _automatic(
        self, automatic: Automatic, record: type | None, side_outputs: Iterable[str]
    ) -> AutomaticRows | None:
        """Return the compiled form of `process_element`; None if it is interpreted."""
        schema = self.ctx.ports[0].schema
        emits = emitted_types(self.ctx, side_outputs)
        typing = element_typing(schema, record, emits, event_time=TS in schema.names)
        return automatic_rows(self.ctx, self._function, automatic, typing, self._states.broadcast)

    def open(self, restored: Restored) -> None:
        self._states.restore(restored)
        self._call(opening(self._function, RuntimeContext(self.ctx)))
        self._open = True

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        return self._deliver(port, batch, HiddenColumns.of(batch))

    def _deliver(self, port: int, batch: Batch, hidden: HiddenColumns) -> Iterator[Out]:
        outs = self._by_compiled(batch, hidden) if port == 0 else None
        if outs is not None:
            yield from outs
            return
        process, record = self._takes[port]
        rows = rows_of(batch, record)
        self._states.set_writable(self.ctx.ports[port].broadcast)
        yield from self._calls.deliver_without_key(process, self._context, rows, hidden)

    def _by_compiled(self, batch: Batch, hidden: HiddenColumns) -> list[Out] | None:
        """Return the output of the compiled form; None if Python must call the function."""
        if self._compiled is None:
            return None
        timed = hidden.stamps is not None
        if not timed and any(TS in output.schema.names for output in self.ctx.outputs.values()):
            return None
        results = self._compiled.results_at(batch, hidden, self._calls.watermark_ms)
        if results is None:
            return None
        return [
            out
            for tag, made, origins in results
            for out in bounded_batches(self.ctx, tag, made, hidden.at(origins))
        ]

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        self._calls.watermark_ms = max(self._calls.watermark_ms, timestamp_ms)
        return iter(())

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        return Snapshot(self._states.parts())

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        return snapshot.parts

    def close(self) -> None:
        self.close_function()

    def close_function(self) -> None:
        if self._open:
            self._open = False
            self._call(self._function.close)

    def _call(self, method: Callable[[], object]) -> None:
        self._states.set_writable(False)
        call_user(self.ctx, method)
