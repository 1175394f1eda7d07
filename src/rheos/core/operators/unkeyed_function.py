"""Common part of operators whose function has no key: they call one function for the rows of all ports,
with operator state and broadcast state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, assert_never

from rheos.core.operators.calls import Calls, ContextWithoutKey, Process
from rheos.core.operators.contract import Operator, OperatorContext, Out, Restored
from rheos.core.operators.records import HiddenColumns, call_user
from rheos.core.operators.runtime_context import RuntimeContext, opening
from rheos.core.protocol.elements import Batch
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
    ) -> None:
        super().__init__(ctx)
        # Subtasks that share a process must not share the user's object.
        self._function = copy.deepcopy(function)
        self._states = UnkeyedStates(self._function)
        self._takes = [(_called(getattr(self._function, name), form), record) for name, record in takes]
        self._calls = calls = Calls(ctx, side_outputs)
        self._context = ContextWithoutKey(calls)
        self._open = False

    def open(self, restored: Restored) -> None:
        self._states.restore(restored)
        self._call(opening(self._function, RuntimeContext(self.ctx)))
        self._open = True

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        return self._deliver(port, batch, HiddenColumns.of(batch))

    def _deliver(self, port: int, batch: Batch, hidden: HiddenColumns) -> Iterator[Out]:
        process, record = self._takes[port]
        rows = rows_of(batch, record)
        self._states.set_writable(self.ctx.ports[port].broadcast)
        yield from self._calls.deliver_without_key(process, self._context, rows, hidden)

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
