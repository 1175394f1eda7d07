"""Converts the truncation of a table into deletions of its rows.

State holds the keys of the table, for each part to which `truncation` distributes them. If a part is
truncated, the operator emits a deletion of each of its keys. All other changes pass unchanged.

```python
check_example(
    OperatorExample(
        emptied_by_id,
        pa.schema([("id", pa.int64()), ("op", pa.string()), ("part", pa.int64())]),
        [
            {"id": 1, "op": "insert", "part": 5},
            {"id": 2, "op": "insert", "part": 5},
            {"id": 3, "op": "insert", "part": 9},
            {"id": 2, "op": "delete", "part": 5},
            {"id": None, "op": "truncate", "part": 5},
            {"id": None, "op": "truncate", "part": 9},
            {"id": 1, "op": "insert", "part": 5},
        ],
    ),
    {
        "out": [
            {"id": 1, "op": "insert"},
            {"id": 2, "op": "insert"},
            {"id": 3, "op": "insert"},
            {"id": 2, "op": "delete"},
            {"id": 1, "op": "delete"},
            {"id": 3, "op": "delete"},
            {"id": 1, "op": "insert"},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.graph.changelog import DELETE, OP, REJECTED, TRUNCATE, UPDATE_BEFORE
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import KeySpec, Operator, OperatorContext, Out, PortType
from rheos.core.operators.keyed_state import KeyedStateOperator, keyed_shape, make_backend
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.stores import ABSENT, MISSING

KEYS = "keys"
REJECTED_TAG = "rejected"
SKIPPED = "skipped"


@dataclass(frozen=True)
class TruncationDeletesSpec(KeySpec):
    key: tuple[str, ...]
    """Primary key of the table."""

    kind: ClassVar[str] = "emptied"
    takes_changes: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return TruncationDeletesOperator(ctx, self)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        held = TypeShape(name="dict", args=[TypeShape(name="bytes"), TypeShape(name="bool")])
        return {KEYS: keyed_shape(ports[0], StatePurpose.MAP, held)}

    def summary(self) -> str:
        return f"the keys of a table by {', '.join(self.key)}"


class TruncationDeletesOperator(KeyedStateOperator):
    def __init__(self, ctx: OperatorContext, spec: TruncationDeletesSpec) -> None:
        super().__init__(ctx)
        port = ctx.ports[0]
        self._parts = KeyCodec(port.schema, port.keys, port.keyed_at)
        self._known_by = spec.key
        self._keys = KeyCodec(port.schema, spec.key, port.keyed_at)
        self.backend = make_backend(ctx, self._parts)
        self._state = self.backend.maps(KEYS, bytes, bool)

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        ops = batch.column(OP)
        bad = pc.starts_with(ops, REJECTED)
        if pc.any(bad).as_py():
            yield from self._reject(batch.filter(bad))
            batch = batch.filter(pc.invert(bad))
            ops = batch.column(OP)
        listed = ops.to_pylist()
        truncating = pc.equal(ops, TRUNCATE).to_numpy(zero_copy_only=False)
        items = self._items(batch, truncating)
        parts = self._parts.of(batch)
        order: list[int] = []
        gone: list[Key] = []
        origins: list[int] = []
        stride = self.backend.stride
        for first in range(0, len(parts), stride):
            last = min(first + stride, len(parts))
            self.backend.prepare(parts[first:last])
            for at in range(first, last):
                if listed[at] == TRUNCATE:
                    for item in sorted(self._state.read(parts[at], {})):
                        order.append(batch.num_rows + len(gone))
                        gone.append(self._keys.decode(item))
                        origins.append(at)
                    self._state.clear(parts[at])
                    continue
                order.append(at)
                if listed[at] != UPDATE_BEFORE:
                    self._note(parts[at], items[at], gone=listed[at] == DELETE)
        yield from self._emit_deletes(batch, order, gone, origins)

    def _items(
        self, batch: Batch, truncating: np.ndarray[tuple[int], np.dtype[np.bool_]]
    ) -> list[bytes]:
        """Return the key of each row as bytes; empty for a TRUNCATE row."""
        encode = self._keys.encode
        if not truncating.any():
            return [encode(key) for key in self._keys.of(batch)]
        places = np.flatnonzero(~truncating)
        items = [b""] * batch.num_rows
        keys = self._keys.of(batch.take(pa.array(places)))
        for at, key in zip(places.tolist(), keys, strict=True):
            items[at] = encode(key)
        return items

    def _note(self, part: Key, item: bytes, *, gone: bool) -> None:
        """Record that a key is in the table from now on, or is no longer in it."""
        state = self._state
        known = state.values.get(part)
        if known is None:
            known = state.enter(part)
        found = known.get(item, MISSING)
        if found is MISSING:
            found = ABSENT if state.in_memory else state.fetch(part, item)
        if gone:
            if found is not ABSENT:
                state.remove(part, item)
        elif found is ABSENT:
            known[item] = True
            state.changed[part].add(item)

    def _emit_deletes(
        self, batch: Batch, order: Sequence[int], gone: Sequence[Key], origins: Sequence[int]
    ) -> Iterator[Out]:
        output = self.ctx.outputs.get(MAIN)
        if output is None or not order:
            return
        if gone:
            # Columns outside the key have the values of the TRUNCATE row.
            deleted = batch.take(pa.array(origins))
            columns = dict(zip(batch.schema.names, deleted.columns, strict=True))
            for name, values in zip(self._known_by, self._keys.columns(gone), strict=True):
                columns[name] = values.cast(batch.schema.field(name).type)
            columns[OP] = pa.array([DELETE] * len(gone), batch.schema.field(OP).type)
            rows = pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)
            batch = pa.concat_batches([batch, rows])
        if gone or len(order) < batch.num_rows:
            batch = batch.take(pa.array(order))
        whole = batch.select(output.schema.names)
        for begin in range(0, whole.num_rows, self.ctx.batch_rows):
            yield Out(whole.slice(begin, self.ctx.batch_rows))

    def _reject(self, bad: Batch) -> Iterator[Out]:
        self.ctx.count(SKIPPED, bad.num_rows)
        output = self.ctx.outputs.get(REJECTED_TAG)
        if output is None:
            return
        operations = pc.utf8_slice_codeunits(bad.column(OP), len(REJECTED))
        at = bad.schema.names.index(OP)
        named = bad.set_column(at, bad.schema.field(OP), operations)
        yield Out(named.select(output.schema.names), REJECTED_TAG)
