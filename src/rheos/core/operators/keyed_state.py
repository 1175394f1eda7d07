"""Common parts of operators whose keyed state is in a state backend: the choice of the backend, the
shapes of the state, snapshots."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import assert_never

import msgspec
import pyarrow as pa

from rheos.core.errors import ConfigurationError
from rheos.core.graph.state import StateDeclaration
from rheos.core.graph.types import canonical, key_type
from rheos.core.operators.contract import Operator, OperatorContext, Out, PortType, Restored
from rheos.core.operators.prepared_state import PreparedState
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shapes import WINDOW, FieldShape, StatePurpose, StateShape, TypeShape
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart, StateKind
from rheos.core.protocol.state_config import Backend
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.keys import WINDOW_COLUMNS, KeyCodec
from rheos.core.state.kinds import shape_of
from rheos.core.state.memory import MemoryBackend
from rheos.core.state.rocksdb.backend import RocksDbBackend
from rheos.core.state.scope import NO_KEY, KeyScope


class PreparedTables(PreparedState):
    """Keyed state and timers in memory that are restored ahead."""

    def __init__(self, backend: MemoryBackend) -> None:
        self.backend = backend
        self._names = backend.restored_ahead()

    @property
    def names(self) -> Collection[str]:
        return self._names

    def apply(self, state: str, tables: Iterable[pa.Table]) -> None:
        self.backend.restore_ahead(state, tables)

    def forget(self, state: str) -> bool:
        self.backend.forget_ahead(state)
        return True


class KeyedStateOperator(Operator):
    """Base of operators with keyed state. A subclass creates `backend` before it is opened, and returns
    the output of its rows in `on_rows`. It adds any other state to snapshots itself."""

    backend: KeyedStateBackend

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        """Process a batch. Rows of a broadcast port have no key, and the call sets none."""
        raise NotImplementedError

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if self.ctx.ports[port].broadcast:
            return self._without_key(port, batch)
        return self.on_rows(port, batch)

    def _without_key(self, port: int, batch: Batch) -> Iterator[Out]:
        scope = self.backend.scope
        scope.key = NO_KEY
        for out in self.on_rows(port, batch):
            yield out
            assert scope.key is NO_KEY, "EX17: rows of a broadcast port change no keyed state"
        assert scope.key is NO_KEY, "EX17: rows of a broadcast port change no keyed state"

    def open(self, restored: Restored) -> None:
        self.adopt_prepared()
        self.backend.restore(restored)

    def adopt_prepared(self) -> None:
        """Take the state that was restored ahead, if there is any. Called before `restore`."""
        prepared, self.ctx.prepared = self.ctx.prepared, None
        if isinstance(prepared, PreparedTables):
            assert isinstance(self.backend, MemoryBackend)
            self.backend.adopt(prepared.backend)

    def prepared_state(self) -> PreparedState | None:
        if not isinstance(self.backend, MemoryBackend) or not self.backend.restored_ahead():
            return None
        return PreparedTables(self.backend)

    def keys_held(self) -> int | None:
        return self.backend.keys_held()

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        return self.backend.snapshot()

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        return self.backend.savepoint()

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        self.backend.force_full()

    def next_keys(self) -> None:
        self.backend.forget()

    def close(self) -> None:
        self.backend.close()


def make_backend(
    ctx: OperatorContext, keys: KeyCodec, scope: KeyScope | None = None
) -> KeyedStateBackend:
    """Return the configured state backend. `scope` holds the current key of calls. It is None for
    operators that use the backend's stores directly."""
    scope = KeyScope(ctx.clock) if scope is None else scope
    scope.limit = ctx.key_limit
    match ctx.state.backend:
        case Backend.MEMORY:
            return MemoryBackend(keys, ctx.max_parallelism, scope, ctx.scratch)
        case Backend.ROCKSDB:
            if ctx.scratch is None:
                raise ConfigurationError(
                    "the state backend rocksdb needs a local disk, but this runtime has no disk",
                    hint="use the state backend in memory, or another runtime",
                )
            return RocksDbBackend(
                keys,
                ctx.max_parallelism,
                ctx.key_groups,
                scope,
                folder=ctx.scratch,
                writer=f"{ctx.attempt}-{ctx.subtask}",
                memory_bytes=ctx.state_bytes,
            )
        case _:
            assert_never(ctx.state.backend)


def keyed_shape(
    port: PortType, holds: StatePurpose, value: TypeShape, *, exact: bool = False
) -> StateShape:
    """Return the shape of a state by the key of this port, which is the first keyed one."""
    key = _key_of(port)
    return StateShape(kind=StateKind.KEYED, holds=holds, key=key, value=value, exact=exact)


def declared_shape(port: PortType, declared: StateDeclaration) -> StateShape:
    """Return the shape of declared state by the key of this port."""
    return msgspec.structs.replace(shape_of(declared), key=_key_of(port))


def columns_shape(schema: pa.Schema, name: str = "columns") -> TypeShape:
    """Return the shape of stored rows with these columns. Nullable columns may also be missing."""
    fields = [
        FieldShape(name=f.name, type=TypeShape(name=str(canonical(f.type))), required=not f.nullable)
        for f in schema
    ]
    return TypeShape(name=name, fields=fields)


def by_window(shape: StateShape) -> StateShape:
    """Return the shape of a state by key and window, from that of the state by key."""
    bounds = [
        FieldShape(name=name, type=TypeShape(name="int64", label=WINDOW)) for name in WINDOW_COLUMNS
    ]
    return msgspec.structs.replace(shape, key=[*shape.key, *bounds])


def _key_of(port: PortType) -> list[FieldShape]:
    return [
        FieldShape(name=name, type=TypeShape(name=key_type(port.schema.field(name).type)))
        for name in port.keys
    ]
