"""`process`: a keyed function with state and timers, called for each row, in the order of arrival or of
event time (`rows_by_time`).

```python
class Visits(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=0)

    def process_element(self, click, ctx: rh.KeyedContext):
        self.n.value += 1
        if self.n.value == 1:
            ctx.timers.register(ctx.timestamp + 10)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext):
        yield {"user": ctx.key, "ended": timestamp, "clicks": self.n.value}
        self.n.clear()

check_example(
    OperatorExample(
        lambda clicks: clicks.key_by("user").process(
            Visits(), returns={"user": str, "ended": int, "clicks": int}
        ),
        pa.schema([("user", pa.string()), ("at", pa.int64())]),
        [
            {"user": "a", "at": 1},
            {"user": "b", "at": 2},
            {"user": "a", "at": 7},
            WatermarkMark(20),
            {"user": "a", "at": 30},
        ],
        on="at",
    ),
    {
        "out": [
            {"user": "a", "ended": 11, "clicks": 2},
            {"user": "b", "ended": 12, "clicks": 1},
            {"user": "a", "ended": 40, "clicks": 1},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa

from rheos.core.callables import function_name
from rheos.core.compiler.eligibility import Automatic, named_form, summary_of
from rheos.core.graph.batch_functions import KeyedBatchFunction
from rheos.core.graph.compilation import compiled_mark
from rheos.core.graph.nodes import Order
from rheos.core.graph.render import spell_record
from rheos.core.operators.batch_core import BatchCore
from rheos.core.operators.compiled_start import automatic_core, compiled_core
from rheos.core.operators.contract import Operator, OperatorContext, OperatorSpec
from rheos.core.operators.keyed_core import KeyedCore, Takes
from rheos.core.operators.keyed_function import KeyedFunctionOperator, KeyedFunctionSpec
from rheos.core.operators.origins import CallOfFunction, Origin, RowsOfKey
from rheos.core.operators.process_core import ProcessCore
from rheos.core.operators.rows_by_time import TO_SIDE_OUTPUT, LateByPort, rows_by_time


@dataclass(frozen=True)
class ProcessSpec(KeyedFunctionSpec):
    """A keyed process function with state and timers."""

    kind: ClassVar[str] = "process"
    side_outputs_hint: ClassVar[str | None] = (
        'declare it in the function: side_outputs = {"alerts": Alert}'
    )

    fn: Any
    order: Order
    record: type | None
    side_outputs: Mapping[str, pa.Schema] = field(default_factory=dict)
    late: LateByPort = TO_SIDE_OUTPUT
    automatic: Automatic = None

    @property
    def takes(self) -> Takes:
        return [("process_element", self.record)]

    def operator(self, ctx: OperatorContext) -> Operator:
        return ProcessOperator(ctx, self)

    def in_batch(self, ctx: OperatorContext) -> Operator:
        # A shuffle does not keep the order in which a key's rows arrived. Event time is the best
        # remaining order: before each row, all earlier timers have fired.
        return ProcessOperator(ctx, self, in_batch=True)

    def origin(self) -> Origin:
        if isinstance(self.fn, KeyedBatchFunction):
            return RowsOfKey()
        return CallOfFunction({"process_element": 0})

    def interpreted(self) -> OperatorSpec:
        if compiled_mark(self.fn) is None:
            return replace(self, automatic=None)
        kind = type(self.fn)
        function: Any = object.__new__(type(kind.__name__, (kind,), {"__module__": kind.__module__}))
        vars(function).update(vars(self.fn))
        return replace(self, fn=function)

    def function_forms(self) -> Mapping[str, str]:
        if compiled_mark(self.fn) is not None:
            return {function_name(self.fn): "compiled"}
        is_called_by_row = not isinstance(self.fn, KeyedBatchFunction)
        return named_form(self.fn, self.automatic) if is_called_by_row else {}

    def with_function(self, fn: Any) -> OperatorSpec:
        return replace(self, fn=fn, automatic=None)

    def summary(self) -> str:
        ordered = ", in event-time order" if self.order == "event_time" else ""
        return f"takes {spell_record(self.record)}{ordered}{self._form()}"

    def _form(self) -> str:
        """Return whether the function is compiled, or the reason why it is not."""
        return "; compiled" if compiled_mark(self.fn) is not None else summary_of(self.automatic)


def core_of(ctx: OperatorContext, spec: ProcessSpec) -> ProcessCore:
    """Return the core that calls the function, according to the function's form."""
    if isinstance(spec.fn, KeyedBatchFunction):
        return BatchCore(ctx, spec)
    if compiled_mark(spec.fn) is not None:
        core = compiled_core(ctx, spec)
        if core is not None:
            return core
    elif isinstance(spec.automatic, Mapping):
        automatic = automatic_core(ctx, spec, spec.automatic)
        if automatic is not None:
            return automatic
    return KeyedCore(ctx, spec.fn, spec.side_outputs, spec.takes)


class ProcessOperator(KeyedFunctionOperator):
    """Calls the function's `process_element` for the rows of one port."""

    def __init__(self, ctx: OperatorContext, spec: ProcessSpec, *, in_batch: bool = False) -> None:
        waiting = rows_by_time(ctx, spec.order, spec.late, in_batch=in_batch)
        super().__init__(ctx, core_of(ctx, spec), waiting)
