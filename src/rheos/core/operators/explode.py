"""`explode`: a row for each element of a list; a struct's fields become columns.

```python
check_example(
    OperatorExample(
        lambda carts: carts.explode("items"),
        pa.schema([("user", pa.string()), ("items", pa.list_(pa.struct([("id", pa.int64())])))]),
        [
            {"user": "ada", "items": [{"id": 1}, {"id": 2}]},
            {"user": "bo", "items": []},
            {"user": "eve", "items": None},
        ],
    ),
    {"out": [{"user": "ada", "id": 1}, {"user": "ada", "id": 2}]},
)
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


@dataclass(frozen=True)
class ExplodeSpec(RowSpec):
    column: str
    rank: str | None
    """Name of an added column with the element's position in its list, from 1; None: no such column."""

    kind: ClassVar[str] = "explode"

    def operator(self, ctx: OperatorContext) -> Operator:
        return ExplodeOperator(ctx, self)

    def summary(self) -> str:
        return self.column


def exploded(schema: pa.Schema, column: str, rank: str | None) -> pa.Schema:
    """Return the output columns. `column` must be a list."""
    element = schema.field(column).type.value_type
    fields = list(element) if pa.types.is_struct(element) else [pa.field(column, element)]
    made = []
    for field in schema:
        made += [f.with_nullable(True) for f in fields] if field.name == column else [field]
    return pa.schema(made if rank is None else [*made, pa.field(rank, pa.int64())])


class ExplodeOperator(Operator):
    def __init__(self, ctx: OperatorContext, spec: ExplodeSpec) -> None:
        super().__init__(ctx)
        self._spec = spec

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        output = self.ctx.outputs.get(MAIN)
        if output is None:
            return
        lists = batch.column(self._spec.column)
        rows, elements = pc.list_parent_indices(lists), pc.list_flatten(lists)
        if not len(rows):
            return
        made: dict[str, pa.Array] = {self._spec.column: elements}
        if pa.types.is_struct(elements.type):
            names = [field.name for field in elements.type]
            made = dict(zip(names, elements.flatten(), strict=True))
        if self._spec.rank is not None:
            lengths = pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64())
            starts = pc.subtract(pc.cumulative_sum(lengths), lengths)
            nth = pa.array(range(1, len(rows) + 1), pa.int64())
            made[self._spec.rank] = pc.subtract(nth, starts.take(rows))
        arrays = [
            made[field.name] if field.name in made else batch.column(field.name).take(rows)
            for field in output.schema
        ]
        whole = pa.RecordBatch.from_arrays(
            [array.cast(field.type) for array, field in zip(arrays, output.schema, strict=True)],
            schema=output.schema,
        )
        for begin in range(0, whole.num_rows, self.ctx.batch_rows):
            yield Out(whole.slice(begin, self.ctx.batch_rows))
