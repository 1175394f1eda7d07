"""`process` of a stream without a key: a function with side outputs and operator state.

```python
class New(rh.ProcessFunction):
    seen = rh.OperatorUnionState(str)

    def process_element(self, click, ctx: rh.ProcessContext):
        if click.user not in self.seen:
            self.seen.append(click.user)
            yield {"user": click.user, "at": ctx.timestamp}

check_example(
    OperatorExample(
        lambda clicks: clicks.process(New(), returns={"user": str, "at": int}),
        pa.schema([("user", pa.string()), ("t", pa.int64())]),
        [{"user": "a", "t": 1}, {"user": "b", "t": 2}, {"user": "a", "t": 3}],
        on="t",
    ),
    {"out": [{"user": "a", "at": 1}, {"user": "b", "at": 2}]},
)
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from rheos.core.compiler.eligibility import Automatic, named_form, summary_of
from rheos.core.graph.render import spell_record
from rheos.core.operators.contract import Operator, OperatorContext, OperatorSpec, PortType, RowOrder
from rheos.core.operators.origins import CallOfFunction, Origin
from rheos.core.operators.unkeyed_function import UnkeyedFunctionOperator
from rheos.core.protocol.shapes import StateShape
from rheos.core.state.unkeyed_state import unkeyed_shapes


@dataclass(frozen=True)
class PlainProcessSpec(OperatorSpec):
    """A ProcessFunction, called for the rows of one port."""

    fn: Any
    record: type | None
    side_outputs: tuple[str, ...]
    automatic: Automatic = None

    kind: ClassVar[str] = "process"

    def operator(self, ctx: OperatorContext) -> Operator:
        takes = [("process_element", self.record)]
        return UnkeyedFunctionOperator(ctx, self.fn, self.side_outputs, takes, automatic=self.automatic)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        return dict(unkeyed_shapes(self.fn))

    def summary(self) -> str:
        return f"takes {spell_record(self.record)}{summary_of(self.automatic)}"

    def function_forms(self) -> Mapping[str, str]:
        return named_form(self.fn, self.automatic)

    def interpreted(self) -> OperatorSpec:
        return replace(self, automatic=None)

    def with_function(self, fn: Any) -> OperatorSpec:
        return replace(self, fn=fn, automatic=None)

    def row_order(self) -> RowOrder:
        return RowOrder.OF_ARRIVAL if unkeyed_shapes(self.fn) else RowOrder.OF_SPLIT

    def origin(self) -> Origin:
        return CallOfFunction({"process_element": 0})
