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

from rheos.core.graph.batch_functions import KeyedBatchFunction
from rheos.core.graph.compiled import compiled_mark
from rheos.core.graph.nodes import ProcessSpec
from rheos.core.operators.compiled_start import compiled_core
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.keyed import KeyedCore
from rheos.core.operators.keyed_function import KeyedFunctionOperator
from rheos.core.operators.process_core import ProcessCore
from rheos.core.operators.rows_by_time import rows_by_time
from rheos.core.operators.vectorised import BatchCore


def core_of(ctx: OperatorContext, spec: ProcessSpec) -> ProcessCore:
    """What calls the function, by the form that it is written in."""
    if isinstance(spec.fn, KeyedBatchFunction):
        return BatchCore(ctx, spec)
    if compiled_mark(spec.fn) is not None:
        core = compiled_core(ctx, spec)
        if core is not None:
            return core
    takes = [("process_element", spec.record)]
    return KeyedCore(ctx, spec.fn, spec.side_outputs, takes)


class ProcessOperator(KeyedFunctionOperator):
    """The function's `process_element`, for the rows of one port."""

    def __init__(self, ctx: OperatorContext, spec: ProcessSpec, *, in_batch: bool = False) -> None:
        waiting = rows_by_time(ctx, spec.order, in_batch=in_batch)
        super().__init__(ctx, core_of(ctx, spec), waiting)
