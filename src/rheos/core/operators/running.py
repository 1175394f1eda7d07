"""Running aggregates per key: every row is emitted at once, with the new values of its key.

Rows keep their order, and the input's columns are passed on unchanged; only the aggregates are
computed. The state is NumPy arrays, indexed by the slot of a key. They hold all keys or, with the
backend rocksdb, the recently used ones.

```python
check_example(
    OperatorExample(
        lambda sales: sales.key_by("item").running(n=rh.agg.count(), total=rh.agg.sum("price")),
        pa.schema([("item", pa.string()), ("price", pa.int64())]),
        [{"item": "tea", "price": 3}, {"item": "jam", "price": 5}, {"item": "tea", "price": 4}],
    ),
    {
        "out": [
            {"item": "tea", "price": 3, "n": 1, "total": 3},
            {"item": "jam", "price": 5, "n": 1, "total": 5},
            {"item": "tea", "price": 4, "n": 2, "total": 7},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from rheos.core.aggregates.contract import Agg
from rheos.core.aggregates.sum_too_large import SumTooLarge
from rheos.core.errors import ConfigurationError, InputError, UnrestorableError
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.render import spell_aggregates
from rheos.core.graph.types import without
from rheos.core.native import library
from rheos.core.operators.contract import (
    KeySpec,
    Needed,
    Operator,
    OperatorContext,
    Out,
    PortType,
    Restored,
)
from rheos.core.operators.origins import Origin, RowsOfKey
from rheos.core.operators.prepared_state import PreparedState
from rheos.core.operators.running_disk import DiskRunningState
from rheos.core.operators.running_files import RunningFiles, tables_of_sets
from rheos.core.operators.running_native import NativeForm
from rheos.core.operators.running_state import (
    KeptAggregates,
    MemoryRunningState,
    RunningState,
    running_shape,
)
from rheos.core.operators.running_values import MemoryValues
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.hashing import NullKeyError
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shapes import StateShape
from rheos.core.protocol.shown_rows import row_values
from rheos.core.protocol.snapshots import RestoredState, Snapshot, SnapshotPart
from rheos.core.protocol.state_config import Backend
from rheos.core.state.rocksdb.files import FILES
from rheos.core.state.slots import Slots

STATE = "running"


@dataclass(frozen=True)
class RunningSpec(KeySpec):
    """Running aggregates per key (count, sum, min, max, mean): adds new values to each row."""

    kind: ClassVar[str] = "running"
    prepares_state: ClassVar[bool] = True

    aggregates: Mapping[str, Agg]

    def operator(self, ctx: OperatorContext) -> Operator:
        return RunningOperator(ctx, self)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        return {STATE: running_shape(ports[0], self.aggregates, ports[0].schema)}

    def columns_read(self, port: int, columns: pa.Schema, needed: Needed) -> frozenset[str] | None:
        read: frozenset[str] = frozenset(
            name for agg in self.aggregates.values() for name in agg.columns
        )
        return read.union(needed[MAIN] - set(self.aggregates)).intersection(columns.names)

    def narrowed(self, tag: str, columns: pa.Schema, gone: frozenset[str]) -> pa.Schema:
        return without(columns, gone - set(self.aggregates))

    def origin(self) -> Origin:
        return RowsOfKey(doubt=None)

    def summary(self) -> str:
        return spell_aggregates(self.aggregates)


def running_schema(schema: pa.Schema, aggregates: Mapping[str, Agg]) -> pa.Schema:
    """Return the output columns for these visible input columns: first the columns that no aggregate
    replaces, then the aggregates. Raise SchemaError if an aggregate does not fit its column."""
    kept = [field for field in schema if field.name not in aggregates]
    made = [pa.field(name, agg.result_type(schema)) for name, agg in aggregates.items()]
    return pa.schema(kept + made)


class PreparedRunningStates(PreparedState):
    """Running states in memory that are restored ahead."""

    def __init__(self, states: dict[str, MemoryRunningState]) -> None:
        self.states = states

    @property
    def names(self) -> Collection[str]:
        return self.states.keys()

    def apply(self, state: str, tables: Iterable[pa.Table]) -> None:
        self.states[state].restore(tables)


class RunningStateOperator(Operator):
    """Base of operators that keep cells of aggregates by key, in memory or on disk."""

    state: RunningState | DiskRunningState
    """The state whose name is STATE."""

    def __init__(self, ctx: OperatorContext, states: Mapping[str, KeptAggregates]) -> None:
        """Create the operator. `states` are all states that it keeps, by name."""
        super().__init__(ctx)
        self._kept = states
        self._keys = ctx.ports[0].keys
        self._make()

    def _make(self) -> None:
        """Create the states, without any key."""
        ctx = self.ctx
        self._files: RunningFiles | None = None
        self._in_memory: dict[str, MemoryRunningState] = {}
        prepared, ctx.prepared = ctx.prepared, None
        if isinstance(prepared, PreparedRunningStates):
            self._in_memory = prepared.states
        elif ctx.state.backend is Backend.MEMORY:
            self._in_memory = {
                name: (MemoryValues if of.within else MemoryRunningState)(
                    of, name=name, max_parallelism=ctx.max_parallelism
                )
                for name, of in self._kept.items()
            }
        elif ctx.scratch is None:
            raise ConfigurationError(
                "the state backend rocksdb needs a local disk, but this runtime has no disk",
                hint="use the state backend in memory, or another runtime",
            )
        else:
            self._files = RunningFiles(
                self._kept,
                ctx.key_groups,
                ctx.max_parallelism,
                folder=ctx.scratch,
                writer=f"{ctx.attempt}-{ctx.subtask}",
                memory_bytes=ctx.state_bytes,
            )
        self.states: Mapping[str, RunningState | DiskRunningState] = (
            self._in_memory if self._files is None else self._files.states
        )
        self.state = self.states[STATE]

    def open(self, restored: Restored) -> None:
        files = restored.get(FILES)
        sets = files.files if isinstance(files, RestoredState) else ()
        tables = {name: restored.get(name, ()) for name in self._kept}
        if self._files is not None:
            self._files.open(sets, tables)
            return
        if not sets:
            for name, state in self._in_memory.items():
                state.restore(tables[name])
            return
        disk = self._disk_for_files()
        for name, table in tables_of_sets(sets, self._kept, self.ctx.key_groups, disk):
            self._in_memory[name].thaw(table)

    def prepared_state(self) -> PreparedState | None:
        return PreparedRunningStates(self._in_memory) if self._files is None else None

    def _disk_for_files(self) -> str:
        if self.ctx.scratch is None:
            raise UnrestorableError(
                "the state was stored by the backend rocksdb, and reading it needs a local "
                "disk, which this runtime does not have",
                hint="restore from a savepoint, which every backend can read",
            )
        return self.ctx.scratch

    def close(self) -> None:
        if self._files is not None:
            self._files.close()

    def slots_of(self, batch: Batch) -> Slots:
        """Return the slots of a batch's keys. Raise an error if a key is null."""
        try:
            return self.state.slots_of([batch.column(key) for key in self._keys])
        except NullKeyError as error:
            raise error.located_in(batch, self._keys, self.ctx.ports[0].keyed_at) from None

    def too_large(self, error: SumTooLarge, batch: Batch, aggregates: Mapping[str, Agg]) -> InputError:
        """Return the error for a sum of `aggregates` after a row of the batch."""
        record = row_values(batch, error.row)
        what, hint = error.text(aggregates.values())
        return InputError(
            what,
            site=self.ctx.site,
            operator=self.ctx.name,
            record=str(record),
            key=", ".join(repr(record[key]) for key in self._keys),
            hint=hint,
        )

    def keys_held(self) -> int | None:
        return len(self.state) if self._files is None else None

    def next_keys(self) -> None:
        self.close()
        self._make()

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        if self._files is not None:
            return self._files.snapshot()
        return Snapshot([state.snapshot() for state in self._in_memory.values()])

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        if self._files is not None:
            return self._files.savepoint()
        written = {part.state: part for part in snapshot.parts}
        return [state.savepoint(written[name]) for name, state in self._in_memory.items()]

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        for state in self._in_memory.values():
            state.force_full()


class RunningOperator(RunningStateOperator):
    """Adds the running aggregates to each row of a keyed stream."""

    def __init__(self, ctx: OperatorContext, spec: RunningSpec) -> None:
        port = ctx.ports[0]
        super().__init__(ctx, {STATE: KeptAggregates(port.schema, port.keys, spec.aggregates)})
        self._aggregates = spec.aggregates
        output = ctx.outputs.get(MAIN)
        self._schema = None if output is None else output.schema
        self._native = None if output is None else NativeForm(port.keys, output.schema, spec.aggregates)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if batch.num_rows == 0:
            return
        native, kernels, state = self._native, library.current(), self.state
        if native is not None and kernels is not None and isinstance(state, MemoryRunningState):
            whole = native.run(kernels, state, batch, self.slots_of)
            if whole is not None:
                yield Out(whole)
                return
        slots = self.slots_of(batch)
        try:
            made = self.state.run(slots, batch)
        except SumTooLarge as error:
            raise self.too_large(error, batch, self._aggregates) from None
        if self._schema is not None:
            arrays = [made[name] if name in made else batch.column(name) for name in self._schema.names]
            yield Out(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
