"""The timers of a keyed operator: by key, in event time and in processing time. They are state, too.

They fire in the order of their timestamps, and of their encoded keys where these are equal.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import pyarrow as pa

from rheos.protocol.snapshots import SnapshotPart, StateKind
from rheos.state.backend import KeyScope
from rheos.state.keys import KeyCodec
from rheos.state.memory import row_table

TIMERS = "timers"
"""The name of the state; no declaration can take it, as `timers` is the context's."""

_NAMESPACE = struct.Struct(">cq")


class TimerKind(Enum):
    EVENT = b"e"
    PROCESSING = b"p"


class _Queue:
    """Timers of one kind: a heap, and the set of those not deleted."""

    def __init__(self, codec: KeyCodec) -> None:
        self._codec = codec
        self._heap: list[tuple[int, bytes, Any]] = []
        self.live: set[tuple[int, Any]] = set()

    def add(self, timestamp_ms: int, key: Any) -> None:
        timer = (timestamp_ms, key)
        if timer not in self.live:
            self.live.add(timer)
            heapq.heappush(self._heap, (timestamp_ms, self._codec.encode(key), key))

    def next_ms(self) -> int | None:
        heap = self._heap
        while heap and (heap[0][0], heap[0][2]) not in self.live:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop(self, until_ms: int) -> tuple[int, Any] | None:
        """The first timer at or before `until_ms`."""
        next_ms = self.next_ms()
        if next_ms is None or next_ms > until_ms:
            return None
        timestamp_ms, _, key = heapq.heappop(self._heap)
        self.live.discard((timestamp_ms, key))
        return timestamp_ms, key


class TimerService:
    """All timers of a subtask. It is also what the user's context has as `timers`."""

    def __init__(self, codec: KeyCodec, max_parallelism: int, scope: KeyScope) -> None:
        self._codec = codec
        self._max_parallelism = max_parallelism
        self._scope = scope
        self.event = _Queue(codec)
        self.processing = _Queue(codec)

    # --- for the user, under the current key --------------------------------------------------------

    def register(self, timestamp_ms: int) -> None:
        self.event.add(timestamp_ms, self._scope.key)

    def delete(self, timestamp_ms: int) -> None:
        self.event.live.discard((timestamp_ms, self._scope.key))

    def register_processing(self, timestamp_ms: int) -> None:
        self.processing.add(timestamp_ms, self._scope.key)

    def delete_processing(self, timestamp_ms: int) -> None:
        self.processing.live.discard((timestamp_ms, self._scope.key))

    # --- for the operator ---------------------------------------------------------------------------

    def snapshot(self) -> SnapshotPart:
        frozen = [
            (kind, timer)
            for kind, queue in ((TimerKind.EVENT, self.event), (TimerKind.PROCESSING, self.processing))
            for timer in queue.live
        ]

        def write() -> pa.Table:
            keys = [key for _, (_, key) in frozen]
            namespaces = [_NAMESPACE.pack(kind.value, ts) for kind, (ts, _) in frozen]
            return row_table(self._codec, self._max_parallelism, keys, namespaces, [b""] * len(keys))

        return SnapshotPart(TIMERS, StateKind.KEYED, write)

    def restore(self, restored: Mapping[str, Iterable[pa.Table]]) -> None:
        for table in restored.get(TIMERS, ()):
            for data, namespace in zip(
                table.column("key").to_pylist(), table.column("namespace").to_pylist(), strict=True
            ):
                kind, timestamp_ms = _NAMESPACE.unpack(namespace)
                queue = self.event if kind == TimerKind.EVENT.value else self.processing
                queue.add(timestamp_ms, self._codec.decode(data))
