"""`connect` of a stream and a broadcast one: rows of the broadcast stream change broadcast state in
every subtask, and rows of the other stream read it.

```python
class Convert(rh.BroadcastProcessFunction):
    rates = rh.BroadcastState(str, float)

    def process_element(self, sale, ctx: rh.ProcessContext):
        if sale.currency in self.rates:
            yield {"item": sale.item, "euros": sale.price * self.rates[sale.currency]}

    def process_broadcast_element(self, rate, ctx: rh.ProcessContext):
        self.rates[rate.currency] = rate.euros

check_example(
    OperatorExample(
        lambda sales, rates: sales.connect(rates.broadcast()).process(
            Convert(), returns={"item": str, "euros": float}
        ),
        pa.schema([("item", pa.string()), ("currency", pa.string()), ("price", pa.float64())]),
        [
            Right({"currency": "usd", "euros": 0.5}),
            Right({"currency": "usd", "euros": 0.25}),
            WatermarkMark(1),
            {"item": "jam", "currency": "usd", "price": 4.0},
            {"item": "jam", "currency": "sek", "price": 4.0},
            {"item": "tea", "currency": "usd", "price": 8.0},
        ],
        right=pa.schema([("currency", pa.string()), ("euros", pa.float64())]),
    ),
    {"out": [{"item": "jam", "euros": 1.0}, {"item": "tea", "euros": 2.0}]},
)
```

With `order="event_time"`, the rows of both ports are buffered until the watermark has passed them
(`rows_by_time`). A row meets the broadcast rows at or before its own time, and no later ones.

A batch task has all broadcast rows before it has the first other row. It delivers the other rows in
sets, to bound its memory, and the broadcast rows anew with each set. What the function emits for them
counts only once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from rheos.core.compiler.eligibility import Automatic, named_form, summary_of
from rheos.core.graph.nodes import Order
from rheos.core.operators.co_process import Records, spelled
from rheos.core.operators.contract import (
    KeySpec,
    Operator,
    OperatorContext,
    OperatorSpec,
    Out,
    PortType,
    Restored,
    RowOrder,
)
from rheos.core.operators.due_rows import Due, runs
from rheos.core.operators.origins import CallOfFunction, Origin
from rheos.core.operators.rows_by_time import (
    TO_SIDE_OUTPUT,
    LateByPort,
    RowsByTime,
    held_shapes,
)
from rheos.core.operators.unkeyed_function import UnkeyedFunctionOperator
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, SWM, WM, Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shapes import StateShape
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart
from rheos.core.state.unkeyed_state import unkeyed_shapes

METHODS = ("process_element", "process_broadcast_element")
"""Method of the function for each port."""

_ROWS_PER_RULE = 4
"""In batch, the minimum number of other rows in a set for each broadcast row."""

_BATCHES = 4
"""In batch, the minimum size of a set: this number of the job's batches."""


@dataclass(frozen=True)
class BroadcastProcessSpec(KeySpec):
    """A BroadcastProcessFunction, called for the rows of a plain port and of a broadcast port."""

    fn: Any
    records: Records
    side_outputs: tuple[str, ...]
    order: Order = "arrival"
    late: LateByPort = TO_SIDE_OUTPUT
    automatic: Automatic = None
    """Form of `process_element`. Rules are few, so their method is interpreted."""

    kind: ClassVar[str] = "broadcast_process"

    def operator(self, ctx: OperatorContext) -> Operator:
        if self.order == "event_time":
            return OrderedBroadcastOperator(ctx, self)
        return UnkeyedFunctionOperator(
            ctx, self.fn, self.side_outputs, self.takes, automatic=self.automatic
        )

    def in_batch(self, ctx: OperatorContext) -> Operator:
        return BatchBroadcastOperator(ctx, self) if self.order == "event_time" else self.operator(ctx)

    @property
    def takes(self) -> list[tuple[str, type | None]]:
        """Return the method and the record class of each port."""
        return list(zip(METHODS, self.records, strict=True))

    def looks_at(self, column: str) -> bool | None:
        return {WM: True, SWM: False}.get(column) if self.order == "event_time" else None

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        shapes = dict(unkeyed_shapes(self.fn))
        return shapes | held_shapes(ports, self.late) if self.order == "event_time" else shapes

    @property
    def aligns(self) -> bool:
        return self.order == "event_time"

    def row_order(self) -> RowOrder:
        return RowOrder.OF_ARRIVAL if self.order == "arrival" else RowOrder.OF_SPLIT

    def summary(self) -> str:
        held = ", in event-time order" if self.order == "event_time" else ""
        return f"takes {spelled(self.records)}{held}{summary_of(self.automatic)}"

    def function_forms(self) -> Mapping[str, str]:
        return named_form(self.fn, self.automatic)

    def interpreted(self) -> OperatorSpec:
        return replace(self, automatic=None)

    def with_function(self, fn: Any) -> OperatorSpec:
        return replace(self, fn=fn, automatic=None)

    def origin(self) -> Origin:
        return CallOfFunction({method: port for port, method in enumerate(METHODS)})


class OrderedBroadcastOperator(UnkeyedFunctionOperator):
    """Calls the function for the rows of both ports in the order of event time."""

    def __init__(
        self, ctx: OperatorContext, spec: BroadcastProcessSpec, *, in_batch: bool = False
    ) -> None:
        super().__init__(ctx, spec.fn, spec.side_outputs, spec.takes, automatic=spec.automatic)
        self._waiting = RowsByTime(ctx, spec.late, all_ports=True, rewinds=in_batch)

    def open(self, restored: Restored) -> None:
        self._waiting.restore(restored)
        super().open(restored)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        self._waiting.add(port, (yield from self._waiting.in_time(port, batch)))

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        yield from super().on_watermark(timestamp_ms)
        for due in runs(self._waiting.take_due(timestamp_ms)):
            yield from self._deliver_due(due)

    def _deliver_due(self, due: Due) -> Iterator[Out]:
        return self._deliver(*due)

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        return Snapshot([*self._states.parts(), *self._waiting.parts()])

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        return [*self._states.parts(), *self._waiting.savepoint()]


class BatchBroadcastOperator(OrderedBroadcastOperator):
    """The operator in the batch runtime, which calls the function for sets of rows."""

    def __init__(self, ctx: OperatorContext, spec: BroadcastProcessSpec) -> None:
        super().__init__(ctx, spec, in_batch=True)
        self._rules = self._rows = 0
        """Number of broadcast rows, and of other rows in the current set."""
        self._first = True
        """Whether the broadcast rows have not been delivered yet."""

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        yield from super().on_batch(port, batch)
        if self.ctx.ports[port].broadcast:
            self._rules += batch.num_rows
            return
        self._rows += batch.num_rows
        if self._rows >= max(_BATCHES * self.ctx.batch_rows, _ROWS_PER_RULE * self._rules):
            yield from self._deliver_set()

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        if self._rows or self._first:
            yield from self._deliver_set()

    def _deliver_set(self) -> Iterator[Out]:
        yield from super().on_watermark(MAX_TIMESTAMP_MS)
        self._rows, self._first = 0, False
        self._states.forget_broadcast()
        self._waiting.rewind()

    def _deliver_due(self, due: Due) -> Iterator[Out]:
        outputs = super()._deliver_due(due)
        if self._first or not self.ctx.ports[due.port].broadcast:
            yield from outputs
        else:
            discard(outputs)


def discard(outputs: Iterator[Out]) -> None:
    """Call the function, and drop what it emits."""
    for _ in outputs:
        pass
