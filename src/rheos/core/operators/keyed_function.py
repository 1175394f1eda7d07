"""Common parts of operators with a keyed function: rows of keyed ports, timers, snapshots, end of
input."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from rheos.core.compiler.forms import KEYED, FunctionForm
from rheos.core.graph.nodes import Order
from rheos.core.operators.contract import (
    OperatorContext,
    OperatorSpec,
    Out,
    PortType,
    Restored,
    RowOrder,
)
from rheos.core.operators.due_rows import Due
from rheos.core.operators.keyed_core import Takes, function_shapes, function_types
from rheos.core.operators.keyed_state import KeyedStateOperator
from rheos.core.operators.process_core import ProcessCore
from rheos.core.operators.records import HiddenColumns
from rheos.core.operators.rows_by_time import LateByPort, RowsByTime, held_shapes
from rheos.core.protocol.elements import SWM, WM, Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shapes import StateShape
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart


class KeyedFunctionSpec(OperatorSpec):
    """A keyed function with state and timers, called in the order of arrival or of event time."""

    fn: Any
    side_outputs: Collection[str]
    order: Order
    late: LateByPort
    prepares_state: ClassVar[bool] = True
    form: ClassVar[FunctionForm] = KEYED
    """Methods of the function that can be compiled."""

    @property
    def takes(self) -> Takes:
        """Return the method for each keyed port, and the class of its records."""
        raise NotImplementedError

    def looks_at(self, column: str) -> bool | None:
        if self.order == "event_time":
            # Its rows are emitted as the watermark advances, so their own event time shows the
            # progress.
            return {WM: True, SWM: False}.get(column)
        return True if column == SWM else None

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        shapes = function_shapes(ports[0], self.fn)
        return shapes | held_shapes(ports, self.late) if self.order == "event_time" else shapes

    def stored_types(self) -> Mapping[str, Sequence[Any]]:
        return function_types(self.fn)

    def row_order(self) -> RowOrder:
        return RowOrder.OF_ARRIVAL if self.order == "arrival" else RowOrder.OF_SPLIT


class KeyedFunctionOperator(KeyedStateOperator):
    """Calls a keyed function for rows and timers. Timers fire when the watermark or processing time has
    passed them. Event-time timers also fire between the rows of a batch: before the function is called
    for a row, all timers that the stream's watermark at that row has passed fire.

    Records emitted for a row have the row's timestamp and watermark; records emitted for a timer have
    its time.
    """

    def __init__(
        self, ctx: OperatorContext, core: ProcessCore, waiting: RowsByTime | None = None
    ) -> None:
        """Create the operator. `waiting` buffers the rows of keyed ports until the watermark passes
        them; if it is None, rows are processed on arrival."""
        super().__init__(ctx)
        self._core = core
        self.backend = core.backend
        self._waiting = waiting

    @property
    def core(self) -> ProcessCore:
        """Return the core that calls the function."""
        return self._core

    def open(self, restored: Restored) -> None:
        self.adopt_prepared()
        self._core.open(restored)
        if self._waiting is not None:
            self._waiting.restore(restored)

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        if self._waiting is not None:
            batch = yield from self._waiting.in_time(port, batch)
            self._waiting.add(port, batch)
            return
        yield from self._core.deliver_batch(port, batch, HiddenColumns.of(batch))

    def _deliver_due(self, due: Sequence[Due]) -> Iterator[Out]:
        """Call the function for buffered rows: by port, in the order of each port."""
        if len(due) == 1:
            yield from self._core.deliver_batch(*due[0])
        elif due:
            yield from self._core.deliver_merged(due)

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        if self._waiting is not None:
            if not self._waiting.keeps_late:
                self._core.watermark_ms = timestamp_ms
            yield from self._deliver_due(self._waiting.take_due(timestamp_ms))
        # Rows may have brought a later watermark than the marks of all channels.
        self._core.watermark_ms = max(self._core.watermark_ms, timestamp_ms)
        yield from self._core.fire_event_timers(timestamp_ms)

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        snapshot = super().snapshot(checkpoint)
        if self._waiting is not None:
            snapshot.parts += self._waiting.parts()
        return snapshot

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        parts = super().savepoint(snapshot)
        return parts if self._waiting is None else [*parts, *self._waiting.savepoint()]

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        super().snapshot_failed(checkpoint)
        if self._waiting is not None:
            self._waiting.force_full()

    def next_processing_time_ms(self) -> int | None:
        return self._core.timers.processing.next_ms()

    def on_processing_time(self, now_ms: int) -> Iterator[Out]:
        yield from self._core.fire_processing_timers(now_ms)

    def next_keys(self) -> None:
        self._drop_pending()
        self._core.next_keys()
        if self._waiting is not None:
            self._waiting.next_keys()

    def on_end(self) -> Iterator[Out]:
        self._drop_pending()
        return iter(())

    def _drop_pending(self) -> None:
        pending = self._core.timers.processing
        if len(pending):
            self.ctx.count("dropped_processing_timers", len(pending))
            pending.clear()

    def close_function(self) -> None:
        self._core.close_function()

    def close(self) -> None:
        self._core.close()
