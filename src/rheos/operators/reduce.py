"""`reduce`: combines the records of a key, one by one; each input gives the combined record so far."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from rheos.graph.nodes import MAIN, ReduceSpec
from rheos.operators.contract import Operator, OperatorContext, Out, Restored
from rheos.operators.records import hidden_column, user_error, with_hidden, wrong_type
from rheos.protocol.elements import TS, WM, Batch, visible
from rheos.protocol.ids import CheckpointId
from rheos.protocol.snapshots import Snapshot
from rheos.protocol.types import TypeMismatch, batch_of, rows_of
from rheos.state.key_groups import NullKeyError
from rheos.state.keys import KeyCodec
from rheos.state.memory import MemoryBackend

REDUCED = "reduced"


class ReduceOperator(Operator):
    """State is the combined record of each key, kept as its column values."""

    def __init__(self, ctx: OperatorContext, spec: ReduceSpec) -> None:
        super().__init__(ctx)
        self._fn = spec.fn
        self._record = spec.record
        port = ctx.ports[0]
        self._codec = KeyCodec(port.schema, port.keys)
        self._backend = MemoryBackend(self._codec, ctx.max_parallelism)
        self._schema = visible(port.schema)
        # A record is kept as the bytes of a one-row batch, so any columns can be restored.
        self._saved, self._dirty = self._backend.values(REDUCED, bytes)
        self._live: dict[Any, Any] = {}

    def open(self, restored: Restored) -> None:
        self._backend.restore(restored)
        for key, data in self._saved.items():
            batch = pa.ipc.read_record_batch(pa.py_buffer(data), self._schema)
            self._live[key] = rows_of(batch, self._record)[0]

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        try:
            keys = self._codec.of(batch)
        except NullKeyError as error:
            raise error.located_in(batch, self.ctx.ports[0].keys) from None
        rows = rows_of(batch, self._record)
        combined = []
        live, fn = self._live, self._fn
        key: Any = None
        row: Any = None
        try:
            for key, row in zip(keys, rows, strict=True):
                result = fn(live[key], row) if key in live else row
                live[key] = result
                combined.append(result)
        except Exception as error:
            raise user_error(self.ctx, error, record=row, key=key) from error
        self._dirty.update(keys)
        if MAIN in self.ctx.outputs:
            schema = self.ctx.outputs[MAIN].schema
            made = self._batch(combined, rows, keys)
            yield Out(with_hidden(made, schema, hidden_column(batch, TS), hidden_column(batch, WM)))

    def _batch(self, combined: list[Any], rows: list[Any], keys: list[Any]) -> Batch:
        try:
            return batch_of(combined, self._schema)
        except TypeMismatch as error:
            at = error.index
            raise wrong_type(self.ctx, error, record=rows[at], key=keys[at]) from None

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        changed = list(self._dirty)
        rows = batch_of([self._live[key] for key in changed], self._schema)
        for i, key in enumerate(changed):
            self._saved[key] = rows.slice(i, 1).serialize().to_pybytes()
        return Snapshot(self._backend.snapshot())

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        self._backend.snapshot_failed()
