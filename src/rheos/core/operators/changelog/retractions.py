"""`retractions`: adds to each upsert the row that it replaces.

```python
check_example(
    OperatorExample(
        lambda orders: orders.retractions(),
        pa.schema([("id", pa.int64()), ("state", pa.string()), ("op", pa.string())]),
        [
            {"id": 1, "state": "new", "op": "insert"},
            {"id": 1, "state": "paid", "op": "update_after"},
            {"id": 1, "state": None, "op": "delete"},
        ],
        upserts_by=("id",),
    ),
    {
        "out": [
            {"id": 1, "state": "new", "op": "insert"},
            {"id": 1, "state": "new", "op": "update_before"},
            {"id": 1, "state": "paid", "op": "update_after"},
            {"id": 1, "state": "paid", "op": "delete"},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.graph.changelog import DELETE, INSERT, OP, UPDATE_AFTER, UPDATE_BEFORE
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.types import canonical
from rheos.core.operators.change_rows import table_columns
from rheos.core.operators.contract import KeySpec, Operator, OperatorContext, Out, PortType
from rheos.core.operators.keyed_state import KeyedStateOperator, keyed_shape, make_backend
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shapes import FieldShape, StatePurpose, StateShape, TypeShape
from rheos.core.protocol.types import batch_of, rows_of
from rheos.core.state.keys import KeyCodec
from rheos.core.state.stores import ABSENT, MISSING

ROW = "row"


@dataclass(frozen=True)
class RetractionsSpec(KeySpec):
    kind: ClassVar[str] = "retractions"
    takes_changes: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return RetractionsOperator(ctx)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        return {
            ROW: keyed_shape(ports[0], StatePurpose.VALUE, row_shape(table_columns(ports[0].schema)))
        }


class RetractionsOperator(KeyedStateOperator):
    """Keeps the row of each key. It does not emit changes that have no effect."""

    def __init__(self, ctx: OperatorContext) -> None:
        super().__init__(ctx)
        port = ctx.ports[0]
        self._codec = KeyCodec(port.schema, port.keys, port.keyed_at)
        self.backend = make_backend(ctx, self._codec)
        self._state = self.backend.values(ROW, object)
        self._columns = table_columns(port.schema)

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        keys, ops = self._codec.of(batch), batch.column(OP).to_pylist()
        rows = rows_of(batch.select(self._columns.names), None)
        made = ChangeBuffer(self.ctx, self._columns)
        stride = self.backend.stride
        for first in range(0, len(keys), stride):
            some = range(first, min(first + stride, len(keys)))
            self.backend.prepare(keys[some.start : some.stop])
            values, fetch = self._state.values, self._state.fetch
            for at in some:
                key, row, op = keys[at], rows[at], ops[at]
                before = values.get(key, MISSING)
                if before is MISSING:
                    before = fetch(key)
                if op == DELETE:
                    if before is not ABSENT:
                        self._state.remove(key)
                        made.add(before, DELETE, at)
                    continue
                if op == UPDATE_BEFORE or before == row:
                    continue
                self._state.dirty.add(key)
                values[key] = row
                if before is ABSENT:
                    made.add(row, INSERT, at)
                else:
                    made.add(before, UPDATE_BEFORE, at)
                    made.add(row, UPDATE_AFTER, at)
        yield from made.of(batch)


class ChangeBuffer:
    """Buffer of changes to emit, each with the row of a batch that caused it."""

    def __init__(self, ctx: OperatorContext, columns: pa.Schema) -> None:
        self._ctx = ctx
        self._columns = columns
        self._rows: list[Any] = []
        self._ops: list[str] = []
        self._origins: list[int] = []

    def add(self, row: Any, op: str, origin: int) -> None:
        """Add a change; `row` has the columns of the table."""
        self._rows.append(row)
        self._ops.append(op)
        self._origins.append(origin)

    def of(self, batch: Batch) -> Iterator[Out]:
        """Emit all added changes, with the event times of the rows that caused them."""
        if MAIN not in self._ctx.outputs or not self._rows:
            return
        made = batch_of(self._rows, self._columns)
        columns = {**dict(zip(made.schema.names, made.columns, strict=True)), OP: pa.array(self._ops)}
        yield from changes_out(self._ctx, columns, np.array(self._origins, dtype=np.int64), batch)


def changes_out(
    ctx: OperatorContext,
    columns: Mapping[str, pa.Array],
    origins: npt.NDArray[np.int64],
    batch: Batch,
) -> Iterator[Out]:
    """Emit changes that are passed as columns. `origins` has the row of `batch` that caused each
    change; the other columns of the output have that row's values."""
    schema = ctx.outputs[MAIN].schema
    places = pa.array(origins)
    arrays = [
        columns[field.name].cast(field.type)
        if field.name in columns
        else batch.column(field.name).take(places)
        for field in schema
    ]
    whole = pa.RecordBatch.from_arrays(arrays, schema=schema)
    for begin in range(0, whole.num_rows, ctx.batch_rows):
        yield Out(whole.slice(begin, ctx.batch_rows))


def row_shape(columns: pa.Schema, name: str = "row") -> TypeShape:
    """Return the shape of light rows, which are stored pickled and know their columns."""
    fields = [
        FieldShape(name=field.name, type=TypeShape(name=str(canonical(field.type))))
        for field in columns
    ]
    return TypeShape(name=name, fields=fields)
