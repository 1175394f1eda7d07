"""Which backend keeps an operator's keyed state."""

from __future__ import annotations

from typing import assert_never

from rheos.errors import ConfigurationError
from rheos.operators.contract import OperatorContext
from rheos.protocol.state_config import Backend
from rheos.state.backend import KeyedStateBackend
from rheos.state.keys import KeyCodec
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
