"""`rekeying`: folds a changelog with retractions by another key, into upserts by that key.

The changes of a key may come from several subtasks, and arrive in any order between these. So state has
all current rows of each key, in the order in which they were added. The newest of them is the row of
the table. If it is retracted, the one added before it becomes the row of the table again.

| a change | other rows of its key | output |
|---|---|---|
| adds a row | none | `insert` |
| adds a row | some | `update_after` |
| retracts the newest row | none | `delete` |
| retracts the newest row | some | `update_after` with the newest of them |
| retracts an older row | | nothing |

With a time to live, the rows of a key expire when none of them has changed for that long, in processing
time. A later retraction of the key's row deletes it.

```python
check_example(
    OperatorExample(
        lambda rows: (
            rows.transformation.with_changes(Changes((), True)).stream.upserts(key="to")
        ),
        pa.schema([("id", pa.int64()), ("to", pa.string()), ("op", pa.string())]),
        [
            {"id": 1, "to": "ada", "op": "insert"},
            {"id": 2, "to": "ada", "op": "insert"},
            {"id": 2, "to": "ada", "op": "update_before"},
            {"id": 2, "to": "bo", "op": "update_after"},
            {"id": 1, "to": "ada", "op": "delete"},
        ],
    ),
    {
        "out": [
            {"id": 1, "to": "ada", "op": "insert"},
            {"id": 2, "to": "ada", "op": "update_after"},
            {"id": 1, "to": "ada", "op": "update_after"},
            {"id": 2, "to": "bo", "op": "insert"},
            {"id": 1, "to": "ada", "op": "delete"},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from rheos.core.graph.changelog import DELETE, INSERT, UPDATE_AFTER
from rheos.core.graph.state import TimeToLive
from rheos.core.operators.change_rows import goes, missing_row_error, table_columns
from rheos.core.operators.changelog.retractions import ChangeBuffer, row_shape
from rheos.core.operators.contract import KeySpec, Operator, OperatorContext, Out, PortType
from rheos.core.operators.keyed_state import KeyedStateOperator, keyed_shape, make_backend
from rheos.core.operators.row_order import alike
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shapes import StatePurpose, StateShape, TtlShape, TypeShape
from rheos.core.protocol.types import rows_of
from rheos.core.state.expiry import Expiry
from rheos.core.state.key_limit import KeyContents
from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.scope import KeyScope
from rheos.core.state.stores import ABSENT, MISSING

ROWS = "rows"


@dataclass(frozen=True)
class RekeyingSpec(KeySpec):
    ttl_ms: int | None
    """Time to live of the rows of a key after their last change; None for no limit."""

    kind: ClassVar[str] = "rekeying"
    takes_changes: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return RekeyingOperator(ctx, self)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        rows = TypeShape(name="list", args=[row_shape(table_columns(ports[0].schema))])
        shape = keyed_shape(ports[0], StatePurpose.VALUE, rows)
        if self.ttl_ms is not None:
            shape = msgspec.structs.replace(shape, ttl=TtlShape(time="processing_time", ms=self.ttl_ms))
        return {ROWS: shape}

    def summary(self) -> str:
        expiry = "" if self.ttl_ms is None else f", expires after {self.ttl_ms} ms"
        return f"the newest row of each key{expiry}"


class RekeyingOperator(KeyedStateOperator):
    def __init__(self, ctx: OperatorContext, spec: RekeyingSpec) -> None:
        super().__init__(ctx)
        port = ctx.ports[0]
        self._codec = KeyCodec(port.schema, port.keys, port.keyed_at)
        scope = KeyScope(ctx.clock)
        self.backend = make_backend(ctx, self._codec, scope)
        self._expiry: Expiry | None = None
        if spec.ttl_ms is not None:
            self._expiry = Expiry(TimeToLive(f"{spec.ttl_ms}ms", time="processing_time"), scope)
        self._state = self.backend.values(ROWS, object, self._expiry)
        self._limit = ctx.key_limit(KeyContents.TABLE_ROWS)
        self._columns = table_columns(port.schema)
        self._keys = port.keys

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        keys, gone = self._codec.of(batch), goes(batch).tolist()
        rows = rows_of(batch.select(self._columns.names), None)
        made = ChangeBuffer(self.ctx, self._columns)
        stride = self.backend.stride
        for first in range(0, len(keys), stride):
            self.backend.prepare(keys[first : first + stride])
            for at in range(first, min(first + stride, len(keys))):
                row, before = rows[at], self._rows(keys[at])
                if not gone[at]:
                    self._keep(keys[at], [*before, row])
                    made.add(row, UPDATE_AFTER if before else INSERT, at)
                    continue
                place = next((i for i in reversed(range(len(before))) if alike(before[i], row)), None)
                if place is not None:
                    after = [*before[:place], *before[place + 1 :]]
                    self._keep(keys[at], after)
                    if not after:
                        made.add(row, DELETE, at)
                    elif place == len(after):
                        made.add(after[-1], UPDATE_AFTER, at)
                elif self._expiry is None:
                    raise missing_row_error(self.ctx, batch, at, self._keys)
                elif not before:
                    made.add(row, DELETE, at)
        yield from made.of(batch)

    def _rows(self, key: Key) -> list[Any]:
        """Return the current rows of a key, the newest last."""
        found: Any = self._state.values.get(key, MISSING)
        if found is MISSING:
            found = self._state.fetch(key)
        if found is ABSENT:
            return []
        if self._expiry is None:
            return list(found)
        stamp, rows = found
        return [] if stamp <= self._expiry.latest_gone(self._expiry.now_ms()) else list(rows)

    def _keep(self, key: Key, rows: list[Any]) -> None:
        if not rows:
            self._state.remove(key)
            return
        if len(rows) > self._limit.due:
            self._limit.see(len(rows), key)
        stored = rows if self._expiry is None else (self._expiry.now_ms(), rows)
        self._state.values[key] = stored
        self._state.dirty.add(key)
