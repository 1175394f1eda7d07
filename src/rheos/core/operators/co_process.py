"""`connect`: one function over the rows of two streams, in the order in which they arrive.

Two plain functions are called like the two methods of one function object.

```python
class Both(rh.CoProcessFunction):
    def process_element1(self, sale, ctx: rh.ProcessContext):
        yield {"item": sale.item, "count": sale.count}

    def process_element2(self, gift, ctx: rh.ProcessContext):
        if gift.count:
            yield {"item": gift.item, "count": -gift.count}

sales = pa.schema([("item", pa.string()), ("count", pa.int64())])
gifts = pa.schema([("item", pa.string()), ("count", pa.int64()), ("to", pa.string())])
check_example(
    OperatorExample(
        lambda sales, gifts: sales.connect(gifts).process(
            Both(), returns={"item": str, "count": int}
        ),
        sales,
        [
            {"item": "tea", "count": 3},
            Right({"item": "tea", "count": 1, "to": "ada"}),
            Right({"item": "jam", "count": 0, "to": "bo"}),
            {"item": "jam", "count": 2},
        ],
        right=gifts,
    ),
    {
        "out": [
            {"item": "tea", "count": 3},
            {"item": "tea", "count": -1},
            {"item": "jam", "count": 2},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rheos.core.graph.connected_functions import RunningFunction
from rheos.core.operators.contract import KeySpec, Operator, OperatorContext, PortType
from rheos.core.operators.origins import CallOfFunction, OneRow, Origin
from rheos.core.operators.unkeyed_function import Form, UnkeyedFunctionOperator
from rheos.core.protocol.shapes import StateShape
from rheos.core.state.unkeyed_state import unkeyed_shapes

Records = tuple[type | None, type | None]
"""Record class of each port, if any."""


@dataclass(frozen=True)
class CoProcessSpec(KeySpec):
    """A function with a method for the rows of each of two ports."""

    fn: RunningFunction
    methods: tuple[str, str]
    form: Form
    """Form of the methods' calls and results."""
    records: Records
    side_outputs: tuple[str, ...] = ()

    kind: ClassVar[str] = "co_process"

    def operator(self, ctx: OperatorContext) -> Operator:
        takes = list(zip(self.methods, self.records, strict=True))
        return UnkeyedFunctionOperator(ctx, self.fn, self.side_outputs, takes, self.form)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        return dict(unkeyed_shapes(self.fn))

    def summary(self) -> str:
        return f"takes {spelled(self.records)}"

    def origin(self) -> Origin:
        if self.form != "process":
            return OneRow()
        return CallOfFunction({method: port for port, method in enumerate(self.methods)})


def spelled(records: Records) -> str:
    """Describe the inputs of a function of two streams."""
    return " and ".join("named rows" if one is None else one.__name__ for one in records)


class TwoFunctions(RunningFunction):
    """A plain function for each stream."""

    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
        self.first, self.second = first, second
