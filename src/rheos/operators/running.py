"""Running aggregates per key: every row leaves at once, with its key's new values.

Rows keep their order, and the input's columns pass through untouched; only the aggregates are made.
The state is numpy arrays by key slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from rheos.graph.aggregates import Agg
from rheos.graph.nodes import MAIN, RunningSpec
from rheos.operators.contract import Operator, OperatorContext, Out, Restored
from rheos.operators.running_state import FrozenRows, RunningState
from rheos.protocol.elements import Batch
from rheos.protocol.ids import CheckpointId
from rheos.protocol.snapshots import PartMode, Snapshot, SnapshotPart, StateKind
from rheos.state.key_groups import NullKeyError
from rheos.state.parts import Chain

STATE = "running"


def running_schema(schema: pa.Schema, aggregates: Mapping[str, Agg]) -> pa.Schema:
    """What leaves, of the visible columns that arrive: those that no aggregate replaces, then the
    aggregates. Raises SchemaError."""
    kept = [field for field in schema if field.name not in aggregates]
    made = [pa.field(name, agg.result_type(schema)) for name, agg in aggregates.items()]
    return pa.schema(kept + made)


class RunningOperator(Operator):
    """Adds count, sum, min, max and mean so far to each row of a keyed stream."""

    def __init__(self, ctx: OperatorContext, spec: RunningSpec) -> None:
        super().__init__(ctx)
        port = ctx.ports[0]
        self._keys = port.keys
        self._state = RunningState(port.schema, port.keys, spec.aggregates)
        self._chain = Chain()
        output = ctx.outputs.get(MAIN)
        self._schema = None if output is None else output.schema

    def open(self, restored: Restored) -> None:
        for table in restored.get(STATE, ()):
            self._state.thaw(table)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if batch.num_rows == 0:
            return
        try:
            slots = self._state.slots_of([batch.column(key) for key in self._keys])
        except NullKeyError as error:
            raise error.located_in(batch, self._keys) from None
        made = self._state.run(slots, batch)
        if self._schema is not None:
            arrays = [made[name] if name in made else batch.column(name) for name in self._schema.names]
            yield Out(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        changed = self._state.changed()
        full = self._chain.next_is_full(len(changed))
        frozen = self._state.freeze(None if full else changed)
        self._state.settle()
        mode = PartMode.FULL if full else PartMode.DELTA
        self._chain.taken(mode, frozen.rows)
        return Snapshot([self._part(frozen, mode)])

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        if all(part.mode is PartMode.FULL for part in snapshot.parts):
            return snapshot.parts
        return [self._part(self._state.freeze(), PartMode.FULL)]

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        self._chain.force_full()

    def _part(self, frozen: FrozenRows, mode: PartMode) -> SnapshotPart:
        groups = self.ctx.max_parallelism
        return SnapshotPart(STATE, StateKind.KEYED, lambda: frozen.table(groups), mode)
