"""`iterate`: the head of a loop. New rows arrive at port 0, and feedback rows at port 1.

The operator keeps no state: feedback rows are at its input, and belong to checkpoints as rows in flight
(docs/protocols/iterations.md). If iterations are counted, the operator adds a column with the number of
a row's iteration. It increments the number for each feedback row, and drops rows beyond the limit.

```python
def halve(numbers):
    halved = numbers.filter(pl.col("n") > 1).with_columns(n=pl.col("n") // 2)
    return halved, halved

def build(env):
    numbers = pa.table({"n": [8, 3]})
    return env.from_source(rh.collection(numbers)).iterate(halve)

assert sorted(simulate(build).rows["out"].column("n").to_pylist()) == [1, 1, 2, 4]
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import Operator, OperatorContext, Out, RowSpec
from rheos.core.protocol.elements import Batch

ROUND = "round"
"""Column with the number of a row's iterations."""

FEEDBACK_PORT = 1


@dataclass(frozen=True)
class IterateSpec(RowSpec):
    rounds: int | None
    """Maximum number of iterations of a row; None: no limit."""
    capacity: int
    """Maximum number of feedback rows that wait at each subtask."""

    kind: ClassVar[str] = "iterate"

    def looks_at(self, column: str) -> bool | None:
        return False

    def operator(self, ctx: OperatorContext) -> Operator:
        return IterateOperator(ctx, self)

    def summary(self) -> str:
        return "until silent" if self.rounds is None else f"{self.rounds} rounds"

    @property
    def loop_capacity(self) -> int | None:
        return self.capacity


class IterateOperator(Operator):
    def __init__(self, ctx: OperatorContext, spec: IterateSpec) -> None:
        super().__init__(ctx)
        self._rounds = spec.rounds

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        output = self.ctx.outputs.get(MAIN)
        if output is None:
            return
        arrays = {name: batch.column(name) for name in batch.schema.names}
        if self._rounds is not None:
            if port == FEEDBACK_PORT:
                arrays[ROUND] = pc.add(arrays[ROUND], 1)
            else:
                arrays[ROUND] = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        made = pa.RecordBatch.from_arrays(
            [arrays[name] for name in output.schema.names], schema=output.schema
        )
        if self._rounds is not None and port == FEEDBACK_PORT:
            made = made.filter(pc.less(made.column(ROUND), self._rounds))
            if made.num_rows < batch.num_rows:
                self.ctx.count("beyond_rounds", batch.num_rows - made.num_rows)
        if made.num_rows:
            yield Out(made)
