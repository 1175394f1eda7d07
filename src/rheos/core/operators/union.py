"""`union`: the rows of all inputs, which have the same schema, in order of arrival.

```python
def build(env):
    tea = env.from_source(rh.collection([{"item": "tea", "price": 4}]))
    jam = env.from_source(rh.collection([{"item": "jam", "price": 6}]))
    return tea.union(jam)

assert sorted(simulate(build).out["item"].to_pylist()) == ["jam", "tea"]
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from rheos.core.graph.nodes import MAIN
from rheos.core.graph.types import without
from rheos.core.operators.contract import Needed, Operator, OperatorContext, Out, RowSpec
from rheos.core.operators.origins import Origin, SameRow
from rheos.core.protocol.elements import Batch


@dataclass(frozen=True)
class UnionSpec(RowSpec):
    """Rows of all inputs, which have the same schema."""

    kind: ClassVar[str] = "union"
    is_union: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return UnionOperator(ctx)

    @property
    def takes_changes(self) -> bool:
        return True  # `DataStream.union` checks more.

    def columns_read(self, port: int, columns: pa.Schema, needed: Needed) -> frozenset[str] | None:
        return needed[MAIN]

    def narrowed(self, tag: str, columns: pa.Schema, gone: frozenset[str]) -> pa.Schema:
        return without(columns, gone)

    def origin(self) -> Origin:
        return SameRow()


class UnionOperator(Operator):
    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        yield Out(batch)
