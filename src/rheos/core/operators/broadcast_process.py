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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rheos.core.operators.co_process import Records, spelled
from rheos.core.operators.contract import KeySpec, Operator, OperatorContext, PortType
from rheos.core.operators.origins import CallOfFunction, Origin
from rheos.core.operators.unkeyed_function import UnkeyedFunctionOperator
from rheos.core.protocol.shapes import StateShape
from rheos.core.state.unkeyed_state import unkeyed_shapes

METHODS = ("process_element", "process_broadcast_element")
"""Method of the function for each port."""


@dataclass(frozen=True)
class BroadcastProcessSpec(KeySpec):
    """A BroadcastProcessFunction, called for the rows of a plain port and of a broadcast port."""

    fn: Any
    records: Records
    side_outputs: tuple[str, ...]

    kind: ClassVar[str] = "broadcast_process"

    def operator(self, ctx: OperatorContext) -> Operator:
        takes = list(zip(METHODS, self.records, strict=True))
        return UnkeyedFunctionOperator(ctx, self.fn, self.side_outputs, takes)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        return dict(unkeyed_shapes(self.fn))

    def summary(self) -> str:
        return f"takes {spelled(self.records)}"

    def origin(self) -> Origin:
        return CallOfFunction({method: port for port, method in enumerate(METHODS)})
