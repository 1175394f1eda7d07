"""`over`: adds to each row of an updating table aggregates over the rows around it.

State holds all rows of a key. When a row changes, the operator retracts each row whose aggregates have
changed, and emits it again.

```python
check_example(
    OperatorExample(
        lambda sales: sales.key_by("shop").transformation.add(
            OverSpec(
                OverColumns("day", ("price",), (Sum("price"),), ("total",)),
                FrameSpec(by_rows=True, preceding=1),
                ("id",),
            ),
            "over",
            {
                MAIN: StreamType(
                    pa.schema(
                        [
                            *sales.schema.remove(sales.schema.get_field_index("op")),
                            ("total", pa.int64()),
                            ("op", pa.string()),
                        ]
                    ),
                    False,
                    changes=Changes(("shop", "id"), retracts=True),
                )
            },
        ).stream,
        pa.schema(
            [
                ("shop", pa.string()),
                ("id", pa.int64()),
                ("day", pa.int64()),
                ("price", pa.int64()),
                ("op", pa.string()),
            ]
        ),
        [
            {"shop": "a", "id": 1, "day": 1, "price": 3, "op": "insert"},
            {"shop": "a", "id": 3, "day": 3, "price": 5, "op": "insert"},
            {"shop": "a", "id": 2, "day": 2, "price": 4, "op": "insert"},
        ],
        upserts_by=("shop", "id"),
    ),
    {
        "out": [
            {"shop": "a", "id": 1, "day": 1, "price": 3, "total": 3, "op": "insert"},
            {"shop": "a", "id": 3, "day": 3, "price": 5, "total": 8, "op": "insert"},
            {"shop": "a", "id": 3, "day": 3, "price": 5, "total": 8, "op": "update_before"},
            {"shop": "a", "id": 3, "day": 3, "price": 5, "total": 9, "op": "update_after"},
            {"shop": "a", "id": 2, "day": 2, "price": 4, "total": 7, "op": "insert"},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from rheos.core.graph.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.change_rows import change_stored_row, goes, table_columns
from rheos.core.operators.changelog.retractions import ChangeBuffer, row_shape
from rheos.core.operators.contract import KeySpec, Operator, OperatorContext, Out, PortType
from rheos.core.operators.keyed_state import KeyedStateOperator, keyed_shape, make_backend
from rheos.core.operators.over.event_time_over import OverColumns
from rheos.core.operators.over.moving_frames import FrameRow, FrameSpec, FrameTooLarge, MovingFrames
from rheos.core.operators.row_order import alike, row_order, value_order
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.types import rows_of
from rheos.core.state.key_limit import KeyContents
from rheos.core.state.keys import Key, KeyCodec

_ROWS = "rows"


@dataclass(frozen=True)
class OverSpec(KeySpec):
    columns: OverColumns
    frame: FrameSpec
    known_by: tuple[str, ...]
    """Primary key of the table."""

    kind: ClassVar[str] = "over"
    takes_changes: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return ChangelogOverOperator(ctx, self)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        row = row_shape(table_columns(ports[0].schema))
        rows = TypeShape(name="dict", args=[TypeShape(name="str"), row])
        return {_ROWS: keyed_shape(ports[0], StatePurpose.MAP, rows)}

    def summary(self) -> str:
        return f"{self.columns} of {self.frame} by {self.columns.by}"


class ChangelogOverOperator(KeyedStateOperator):
    """Keeps the rows of each partition by their primary key."""

    def __init__(self, ctx: OperatorContext, spec: OverSpec) -> None:
        super().__init__(ctx)
        self._spec = spec
        port = ctx.ports[0]
        self._codec = KeyCodec(port.schema, port.keys, port.keyed_at)
        self.backend = make_backend(ctx, self._codec)
        self._state = self.backend.maps(_ROWS, str, object)
        self._limit = ctx.key_limit(KeyContents.OVER_ROWS)
        self._columns = table_columns(port.schema)
        self._order = row_order(self._columns)
        places = self._columns.get_field_index
        self._by = places(spec.columns.by)
        self._by_order = value_order(self._columns.field(self._by).type)
        self._arguments = [places(name) for name in spec.columns.arguments]
        self._states = spec.columns.states(self._columns, spec.frame)
        self._known_by = [places(name) for name in spec.known_by]

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        keys, gone = self._codec.of(batch), goes(batch).tolist()
        rows = rows_of(batch.select(self._columns.names), None)
        stride = self.backend.stride
        for first in range(0, len(keys), stride):
            some = range(first, min(first + stride, len(keys)))
            self.backend.prepare(keys[some.start : some.stop])
            results: dict[Key, dict[str, tuple[Any, ...]]] = {}
            made = [
                (row, op, at)
                for at in some
                for row, op in self._changed(keys[at], rows[at], results, gone=gone[at])
            ]
            yield from self._emit(made, batch)

    def _changed(
        self, key: Key, row: Any, results: dict[Key, dict[str, tuple[Any, ...]]], *, gone: bool
    ) -> Iterator[tuple[Any, str]]:
        """Yield the changes to the rows of a key, each with the results it had or has. `results` are
        those of each key so far, which are updated."""
        state = self._state
        there = dict(state.read(key, {}))
        before = results[key] if key in results else self._with_aggregates(there)
        item = repr(tuple(row[place] for place in self._known_by))
        change_stored_row(state, self._limit, there, key, item, None if gone else row)
        results[key] = after = self._with_aggregates(there)
        for each, was in before.items():
            now = after.get(each)
            if now is None:
                yield was, DELETE
            elif not alike(was, now):
                yield was, UPDATE_BEFORE
                yield now, UPDATE_AFTER
        for each, now in after.items():
            if each not in before:
                yield now, INSERT

    def _with_aggregates(self, rows_by_id: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
        frame = self._spec.frame
        items = sorted(rows_by_id, key=lambda item: self._order(rows_by_id[item]))
        items.sort(
            key=lambda item: self._by_order(rows_by_id[item][self._by]), reverse=frame.descending
        )
        entries = [
            FrameRow(row[self._by], tuple(row[at] for at in self._arguments))
            for row in (rows_by_id[item] for item in items)
        ]
        columns = self._spec.columns
        try:
            results = MovingFrames(self._states, frame, columns.frames).add(entries, ended=True)
        except FrameTooLarge as error:
            record = dict(zip(self._columns.names, rows_by_id[items[error.row]], strict=True))
            found = columns.too_large(error, record)
            found.key = ", ".join(repr(record[key]) for key in self.ctx.ports[0].keys)
            raise found.located(site=self.ctx.site, operator=self.ctx.name) from None
        return {item: (*rows_by_id[item], *result) for item, result in zip(items, results, strict=True)}

    def _emit(self, made: Sequence[tuple[Any, str, int]], batch: Batch) -> Iterator[Out]:
        output = self.ctx.outputs.get(MAIN)
        if output is None:
            return
        added = [output.schema.field(name) for name in self._spec.columns.results]
        changes = ChangeBuffer(self.ctx, pa.schema([*self._columns, *added]))
        for row, op, origin in made:
            changes.add(row, op, origin)
        yield from changes.of(batch)
