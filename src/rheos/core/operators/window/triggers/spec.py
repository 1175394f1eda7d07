"""Windows with a user's trigger, evictor or assigner: their spec and the shape of their state.

```python
def window(start_ms: int, end_ms: int) -> dict:
    epoch = datetime.fromtimestamp(0, UTC)
    times = [epoch + timedelta(milliseconds=ms) for ms in (start_ms, end_ms)]
    return dict(zip(("window_start", "window_end"), times))

check_example(
    OperatorExample(
        lambda hits: hits.key_by("page")
        .window(rh.Tumbling("10ms"))
        .trigger(rh.triggers.event_time(early=rh.triggers.count(2)))
        .evictor(rh.evictors.count(3))
        .aggregate(hits=rh.agg.count(), slowest=rh.agg.max("took")),
        pa.schema([("page", pa.string()), ("took", pa.int64()), ("at", pa.int64())]),
        [
            {"page": "home", "took": 5, "at": 1},
            {"page": "help", "took": 6, "at": 2},
            {"page": "home", "took": 3, "at": 3},
            {"page": "home", "took": 1, "at": 4},
            WatermarkMark(5),
            {"page": "home", "took": 2, "at": 6},
            {"page": "home", "took": 9, "at": 12},
        ],
        on="at",
    ),
    {
        "out": [
            {"page": "home", **window(0, 10), "hits": 2, "slowest": 5},
            {"page": "home", **window(0, 10), "hits": 3, "slowest": 3},
            {"page": "help", **window(0, 10), "hits": 1, "slowest": 6},
            {"page": "home", **window(0, 10), "hits": 3, "slowest": 3},
            {"page": "home", **window(10, 20), "hits": 1, "slowest": 9},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rheos.core.aggregates import Agg
from rheos.core.graph.aggregate_functions import AggregateFunction
from rheos.core.graph.functions import WindowFunction
from rheos.core.graph.state import StateDeclaration, Time
from rheos.core.graph.types import canonical
from rheos.core.graph.window_functions import Evictor, Trigger, WindowAssigner
from rheos.core.graph.windows import Window
from rheos.core.operators.contract import Operator, OperatorContext, OperatorSpec, PortType, RowOrder
from rheos.core.operators.keyed_state import by_window, declared_shape, keyed_shape
from rheos.core.operators.origins import ALL_OF_WINDOW, Origin, RowsOfKey, RowsOfWindow
from rheos.core.operators.window.processing_time import refuse_bounded
from rheos.core.operators.window.triggers.contents import ROWS, CombinedValue, Records
from rheos.core.operators.window.triggers.merging_set import MergingSet
from rheos.core.operators.window.triggers.operator import (
    BatchTriggeredWindowOperator,
    TriggeredWindowOperator,
)
from rheos.core.operators.window.triggers.trigger_state import declared_by
from rheos.core.protocol.elements import SWM, TS, WM, visible
from rheos.core.protocol.shapes import FieldShape, StatePurpose, StateShape, TypeShape
from rheos.core.state.kinds import stored_types
from rheos.core.state.timers import TIMERS


@dataclass(frozen=True)
class TriggeredWindowSpec(OperatorSpec):
    """A window with a trigger, over built-in aggregates, a combined value, or the records. If there is
    a function, it receives the combined value or the records."""

    kind: ClassVar[str] = "triggered_window"

    windows: Window | WindowAssigner
    time: Time | None
    """Kind of time that ends windows; None if they never end."""
    merges: bool
    trigger: Trigger
    evictor: Evictor | None
    lateness_ms: int
    record: type | None
    aggregates: Mapping[str, Agg] = field(default_factory=dict)
    combine: AggregateFunction[Any] | None = None
    kept: Any = None
    """Type of the value that records are combined into."""
    fn: WindowFunction | None = None

    @property
    def keeps_records(self) -> bool:
        """Return whether state is the records themselves, rather than their combined value."""
        return self.combine is None or self.evictor is not None

    def operator(self, ctx: OperatorContext) -> Operator:
        return TriggeredWindowOperator(ctx, self)

    def check_bounded(self) -> None:
        refuse_bounded(self.time)

    def in_batch(self, ctx: OperatorContext) -> Operator:
        if TS in ctx.ports[0].schema.names:
            return BatchTriggeredWindowOperator(ctx, self)
        return self.operator(ctx)

    def looks_at(self, column: str) -> bool | None:
        if column == WM:
            return {"event_time": True, "processing_time": False, None: None}[self.time]
        return True if column == SWM else None

    def stored_types(self) -> Mapping[str, Sequence[Any]]:
        return {one.name: stored_types(one) for one in self._declared()}

    def _declared(self) -> list[StateDeclaration]:
        declared = [declaration for _, _, declaration in declared_by(self.trigger)]
        if self.merges:
            declared += MergingSet.declared()
        if self.keeps_records:
            return declared + Records.declared(self.record)
        return declared + CombinedValue.declared(self.kept)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        [port] = ports
        states = {one.name: by_window(declared_shape(port, one)) for one in self._declared()}
        states[TIMERS] = by_window(keyed_shape(port, StatePurpose.TIMERS, TypeShape(name="timer")))
        if self.keeps_records and self.record is None:
            fields = [
                FieldShape(name=one.name, type=TypeShape(name=str(canonical(one.type))))
                for one in visible(port.schema)
            ]
            row = TypeShape(name="row", fields=fields)
            states[ROWS] = by_window(keyed_shape(port, StatePurpose.LIST, row))
        return states

    def summary(self) -> str:
        late = f", {self.lateness_ms} ms of lateness allowed" if self.lateness_ms else ""
        evicts = "" if self.evictor is None else f", evictor {_name_of(self.evictor)}"
        does = ", ".join(f"{name}={agg}" for name, agg in self.aggregates.items())
        if not does:
            does = f"takes {'named rows' if self.record is None else self.record.__name__}"
        windows = (
            type(self.windows).__name__ if isinstance(self.windows, WindowAssigner) else self.windows
        )
        return f"{windows} windows{late}, trigger {_name_of(self.trigger)}{evicts}: {does}"

    def row_order(self) -> RowOrder:
        return RowOrder.OF_ARRIVAL if self.time is None else RowOrder.OF_SPLIT

    def origin(self) -> Origin:
        calls = self.fn is not None
        if self.time == "event_time" and not isinstance(self.windows, WindowAssigner):
            return RowsOfWindow(self.lateness_ms, ALL_OF_WINDOW, calls_function=calls)
        return RowsOfKey(calls_function=calls)


def _name_of(given: object) -> str:
    """Return the name of a trigger or evictor: its `str`, or the name of its class."""
    own = type(given).__str__ is not object.__str__
    return str(given) if own else type(given).__name__
