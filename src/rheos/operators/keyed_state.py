"""Which backend keeps an operator's keyed state."""

from __future__ import annotations

from rheos.errors import ConfigurationError
from rheos.operators.contract import OperatorContext
from rheos.protocol.state_config import Backend
from rheos.state.backend import KeyedStateBackend, KeyScope
from rheos.state.keys import KeyCodec
from rheos.state.memory import MemoryBackend
from rheos.state.rocksdb.backend import RocksDbBackend


def make_backend(
    ctx: OperatorContext, keys: KeyCodec, scope: KeyScope | None = None
) -> KeyedStateBackend:
    """The backend that the job is configured for. `scope` tells it the key that code runs under."""
    match ctx.state.backend:
        case Backend.MEMORY:
            return MemoryBackend(keys, ctx.max_parallelism, scope, ctx.scratch)
        case Backend.ROCKSDB:
            if ctx.scratch is None:
                raise ConfigurationError(
                    "the state backend rocksdb needs a local disk, and there is none here",
                    hint="use the state backend in memory, or another runtime",
                )
            return RocksDbBackend(
                keys,
                ctx.max_parallelism,
                ctx.key_groups,
                folder=ctx.scratch,
                writer=f"{ctx.attempt}-{ctx.subtask}",
                memory_bytes=ctx.state_bytes,
                scope=scope,
            )
