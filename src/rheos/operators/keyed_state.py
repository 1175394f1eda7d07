"""Which backend keeps an operator's keyed state, and how that is described."""

from __future__ import annotations

from typing import assert_never

import msgspec

from rheos.errors import ConfigurationError
from rheos.graph.state import StateDeclaration
from rheos.graph.types import key_type
from rheos.operators.contract import OperatorContext, PortType
from rheos.protocol.shapes import FieldShape, Holds, StateShape, TypeShape
from rheos.protocol.snapshots import StateKind
from rheos.protocol.state_config import Backend
from rheos.state.backend import KeyedStateBackend
from rheos.state.keys import KeyCodec
from rheos.state.kinds import shape_of
from rheos.state.memory import MemoryBackend
from rheos.state.rocksdb.backend import RocksDbBackend
from rheos.state.scope import KeyScope


def make_backend(
    ctx: OperatorContext, keys: KeyCodec, scope: KeyScope | None = None
) -> KeyedStateBackend:
    """The backend that the job is configured for. `scope` holds the key that code runs under; None
    is for operators that use its stores themselves."""
    scope = KeyScope(ctx.clock) if scope is None else scope
    match ctx.state.backend:
        case Backend.MEMORY:
            return MemoryBackend(keys, ctx.max_parallelism, scope, ctx.scratch)
        case Backend.ROCKSDB:
            if ctx.scratch is None:
                raise ConfigurationError(
                    "the state backend rocksdb needs a local disk, and this runtime has none",
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


def keyed_shape(port: PortType, holds: Holds, value: TypeShape, *, exact: bool = False) -> StateShape:
    """The shape of a state by the key of this port. Of several keyed ports it is the first one's."""
    key = _key_of(port)
    return StateShape(kind=StateKind.KEYED, holds=holds, key=key, value=value, exact=exact)


def declared_shape(port: PortType, declared: StateDeclaration) -> StateShape:
    """The shape of declared state by the key of this port."""
    return msgspec.structs.replace(shape_of(declared), key=_key_of(port))


def _key_of(port: PortType) -> list[FieldShape]:
    return [
        FieldShape(name=name, type=TypeShape(name=key_type(port.schema.field(name).type)))
        for name in port.keys
    ]
