"""`connect` of two keyed streams: one function for the rows of both, with the state and timers of the
key.

```python
class Matched(rh.KeyedCoProcessFunction):
    ordered = rh.ValueState(int)
    paid = rh.ValueState(int)

    def process_element1(self, order, ctx: rh.KeyedContext):
        self.ordered.value = order.amount
        ctx.timers.register(ctx.timestamp + 10)

    def process_element2(self, payment, ctx: rh.KeyedContext):
        self.paid.value = payment.sum

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext):
        yield {"order": ctx.key, "open": self.ordered.value - (self.paid.value or 0)}

check_example(
    OperatorExample(
        lambda orders, payments: orders.key_by("id")
        .connect(payments.key_by("order"))
        .process(Matched(), returns={"order": str, "open": int}),
        pa.schema([("id", pa.string()), ("amount", pa.int64()), ("at", pa.int64())]),
        [
            {"id": "a", "amount": 5, "at": 1},
            Right({"order": "b", "sum": 3, "at": 2}),
            Right({"order": "a", "sum": 5, "at": 3}),
            {"id": "b", "amount": 4, "at": 4},
            WatermarkMark(12),
            Right({"order": "b", "sum": 4, "at": 13}),
        ],
        on="at",
        right=pa.schema([("order", pa.string()), ("sum", pa.int64()), ("at", pa.int64())]),
        right_on="at",
    ),
    {"out": [{"order": "a", "open": 0}, {"order": "b", "open": 0}]},
)
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from rheos.core.compiler.eligibility import Automatic, named_form, summary_of
from rheos.core.compiler.forms import KEYED_CO, FunctionForm
from rheos.core.graph.nodes import Order
from rheos.core.operators.co_process import Records, spelled
from rheos.core.operators.compiled_start import automatic_core
from rheos.core.operators.contract import Operator, OperatorContext, OperatorSpec
from rheos.core.operators.form_choice import LARGE_BATCH
from rheos.core.operators.keyed_core import KeyedCore, Takes
from rheos.core.operators.keyed_function import KeyedFunctionOperator, KeyedFunctionSpec
from rheos.core.operators.origins import CallOfFunction, Origin
from rheos.core.operators.process_core import ProcessCore
from rheos.core.operators.rows_by_time import TO_SIDE_OUTPUT, LateByPort, rows_by_time


@dataclass(frozen=True)
class KeyedCoProcessSpec(KeyedFunctionSpec):
    """A KeyedCoProcessFunction, called for the rows of two ports with the same key."""

    fn: Any
    records: Records
    side_outputs: tuple[str, ...]

    order: Order = "arrival"
    late: LateByPort = TO_SIDE_OUTPUT
    automatic: Automatic = None

    form: ClassVar[FunctionForm] = KEYED_CO
    kind: ClassVar[str] = "keyed_co_process"
    any_order: ClassVar[bool] = True
    """Whether rows may arrive in any order: in batch, the operator sorts its rows itself."""

    def operator(self, ctx: OperatorContext) -> Operator:
        return KeyedFunctionOperator(ctx, self._core(ctx), rows_by_time(ctx, self.order, self.late))

    def in_batch(self, ctx: OperatorContext) -> Operator:
        waiting = rows_by_time(ctx, self.order, self.late, in_batch=True)
        return KeyedFunctionOperator(ctx, self._core(ctx), waiting)

    @property
    def takes(self) -> Takes:
        return list(zip(("process_element1", "process_element2"), self.records, strict=True))

    def _core(self, ctx: OperatorContext) -> ProcessCore:
        automatic = None
        if isinstance(self.automatic, Mapping):
            automatic = automatic_core(ctx, self, dict(self.automatic))
        return automatic or KeyedCore(ctx, self.fn, self.side_outputs, self.takes)

    def function_forms(self) -> Mapping[str, str]:
        return named_form(self.fn, self.automatic)

    def interpreted(self) -> OperatorSpec:
        return replace(self, automatic=None)

    def with_function(self, fn: Any) -> OperatorSpec:
        return replace(self, fn=fn, automatic=None)

    def summary(self) -> str:
        held = ", in event-time order" if self.order == "event_time" else ""
        form = summary_of(self.automatic)
        if held and isinstance(self.automatic, Mapping):
            form += f" where {LARGE_BATCH} rows of one stream are successive"
        return f"takes {spelled(self.records)}{held}{form}"

    def origin(self) -> Origin:
        return CallOfFunction({"process_element1": 0, "process_element2": 1})
