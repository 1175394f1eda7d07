"""Adds the event time of each row as a column.

Requirement: the column is the time by which joins and watermarks treat the row. If a column has the
event time more finely than in ms, the new column has that time, so that rows of one millisecond keep
their order. Otherwise it has the hidden time, such as that of a window's result.

```python
def timed(clicks):
    rows = clicks.transformation
    spec = EventTimeColumnSpec("clicked")
    return rows.add(spec, "time", {MAIN: timed_type(rows.type, "clicked")}).stream

check_example(
    OperatorExample(
        timed, pa.schema([("page", pa.string()), ("at", pa.int64())]), [{"page": "a", "at": 2}], "at"
    ),
    {"out": [{"page": "a", "at": 2, "clicked": datetime.fromtimestamp(0.002, UTC)}]},
)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.graph.validate import check_columns
from rheos.core.operators.contract import Operator, OperatorContext, Out, RowSpec
from rheos.core.operators.origins import Origin, SameRow
from rheos.core.protocol.elements import TS, Batch

TIME = pa.timestamp("us", "UTC")
"""Type of the new column."""


@dataclass(frozen=True)
class EventTimeColumnSpec(RowSpec):
    column: str
    """Name of the new column."""

    kind: ClassVar[str] = "event_time_column"

    def operator(self, ctx: OperatorContext) -> Operator:
        return EventTimeColumnOperator(ctx, self)

    def origin(self) -> Origin:
        return SameRow()

    def summary(self) -> str:
        return self.column


def timed_type(type: StreamType, column: str) -> StreamType:
    """Return the type of the rows with the new column. Raise SchemaError if the name is taken."""
    schema = type.schema.append(pa.field(column, TIME, nullable=False))
    check_columns(schema)
    return StreamType(schema, event_time=True, time_column=column)


class EventTimeColumnOperator(Operator):
    def __init__(self, ctx: OperatorContext, spec: EventTimeColumnSpec) -> None:
        super().__init__(ctx)
        self._column = spec.column
        port = ctx.ports[0].type
        column = port.time_column
        has_times = column is not None and pa.types.is_timestamp(port.schema.field(column).type)
        self._read = column if has_times else None

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if MAIN not in self.ctx.outputs:
            return
        schema = self.ctx.outputs[MAIN].schema
        arrays = [
            self._times(batch) if name == self._column else batch.column(name) for name in schema.names
        ]
        yield Out(pa.RecordBatch.from_arrays(arrays, schema=schema))

    def _times(self, batch: Batch) -> pa.Array:
        if self._read is None:
            return batch.column(TS).cast(pa.timestamp("ms", "UTC")).cast(TIME)
        # Times finer than a microsecond are cut off.
        return batch.column(self._read).cast(TIME, safe=False)
