"""The timers of a keyed operator: by key, in event time and in processing time. They are state, too.

They fire in the order of their timestamps; timers with equal timestamps fire in the order of their
encoded keys. An event-time timer registered at or before the current watermark is *overdue*: it fires
once the watermark advances, as in Flink. So the order of calls depends on the watermark alone, and not
on how rows are cut into batches.
"""

from __future__ import annotations

import heapq
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa

from rheos.core.errors import StateAccessError
from rheos.core.graph.functions import defines
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.protocol.snapshots import PartMode, SnapshotPart
from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.parts import (
    DELETED,
    DeltaChain,
    Entries,
    restored_rows,
    row_part,
    stored_values,
)
from rheos.core.state.scope import KeyScope

TIMERS = "timers"
"""Name of the state. No declaration can have it."""

NAMESPACE = struct.Struct(">cq")
"""Encoding of a timer's namespace: its mark and its time."""

_FIRED = struct.Struct(">q")
"""Value of an overdue timer: the watermark at the time when it was stored. Other timers, and those
stored by version 0.1, have no value."""

EVENT, PROCESSING = b"e", b"p"
"""Marks of the two kinds of timers, with which their namespaces begin."""

_DELETED_IN_HEAP = 1024
"""Maximum number of deleted timers in the heap, in addition to the number of existing ones."""

Timer = tuple[int, Key]

_Frozen: TypeAlias = tuple[bytes, int, list[Timer], list[Timer]]
"""One kind of timers: mark, watermark up to which they have fired, timers to write and to delete."""


def stored_value(timestamp_ms: int, fired_ms: int) -> bytes:
    """Return the stored value of a timer, if timers up to `fired_ms` have fired."""
    return _FIRED.pack(fired_ms) if timestamp_ms <= fired_ms else b""


def fired_of(value: bytes) -> int:
    """Return the watermark up to which timers had fired, from the stored value of one of them."""
    fired_ms: int = _FIRED.unpack(value)[0] if value else MIN_TIMESTAMP_MS
    return fired_ms


class TimerQueue(ABC):
    """The timers of one kind."""

    heap: list[tuple[int, bytes, Key]]
    """Timers by time and encoded key. The first is the next timer, or a deleted timer that would have
    fired before it. The heap is empty if no timers exist."""

    fired_ms = MIN_TIMESTAMP_MS
    """Watermark up to which timers have fired. A timer that is registered later, at or before it, waits
    until the watermark advances. For processing time, it is always the least timestamp."""

    def fired(self, until_ms: int) -> None:
        """Note that all timers up to this watermark have fired."""
        if until_ms > self.fired_ms:
            self.fired_ms = until_ms

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def add(self, timestamp_ms: int, key: Key) -> None:
        """Add a timer. Adding the same timer again has no effect."""

    @abstractmethod
    def delete(self, timestamp_ms: int, key: Key) -> None:
        """Delete a timer. Does nothing if it does not exist."""

    @abstractmethod
    def next_ms(self) -> int | None: ...

    @abstractmethod
    def pop(self, until_ms: int) -> Timer | None:
        """Remove and return the first timer at or before `until_ms`. Return None if no such timer
        exists, or if the watermark has not advanced to it since timers last fired."""

    @abstractmethod
    def clear(self) -> None: ...

    def upcoming(self, count: int) -> list[Key]:
        """Return approximately the keys of the next timers, so that their state can be prepared."""
        return [key for _, _, key in self.heap[:count]]


class MemoryTimerQueue(TimerQueue):
    """A heap, the set of existing timers, and the changes."""

    def __init__(self, mark: bytes, encode: Callable[[Key], bytes]) -> None:
        self.mark = mark
        """Prefix of the namespaces of its entries."""
        self.heap = []
        self._encode = encode
        self._live: set[Timer] = set()
        self._added: set[Timer] = set()
        self._removed: set[Timer] = set()
        self._overdue_again: set[Timer] = set()
        """Stored timers that were removed and added again. Their rows lack the present watermark."""

    def __len__(self) -> int:
        return len(self._live)

    def add(self, timestamp_ms: int, key: Key) -> None:
        timer = (timestamp_ms, key)
        if timer in self._live:
            return
        self._live.add(timer)
        if timer in self._removed:
            self._removed.remove(timer)
            if timestamp_ms <= self.fired_ms:
                self._overdue_again.add(timer)
        else:
            self._added.add(timer)
        heapq.heappush(self.heap, (timestamp_ms, self._encode(key), key))
        if len(self.heap) > 2 * len(self._live) + _DELETED_IN_HEAP:
            # In place, because the code that fires timers keeps a reference to the list.
            self.heap[:] = sorted({entry for entry in self.heap if (entry[0], entry[2]) in self._live})

    def delete(self, timestamp_ms: int, key: Key) -> None:
        timer = (timestamp_ms, key)
        if timer in self._live:
            self._forget(timer)

    def _forget(self, timer: Timer) -> None:
        self._live.remove(timer)
        # A timer that was added and removed between two snapshots is in neither.
        if timer in self._added:
            self._added.remove(timer)
        else:
            self._overdue_again.discard(timer)
            self._removed.add(timer)

    def next_ms(self) -> int | None:
        heap, live = self.heap, self._live
        while heap and (heap[0][0], heap[0][2]) not in live:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop(self, until_ms: int) -> Timer | None:
        next_ms = self.next_ms()
        if next_ms is None or next_ms > until_ms or until_ms <= self.fired_ms:
            return None
        timestamp_ms, _, key = heapq.heappop(self.heap)
        timer = (timestamp_ms, key)
        self._forget(timer)
        return timer

    def clear(self) -> None:
        for timer in list(self._live):
            self._forget(timer)
        self.heap.clear()

    def forget(self) -> None:
        """Forget all timers, and the watermark."""
        self._live.clear()
        self.settle()
        self.heap.clear()
        self.fired_ms = MIN_TIMESTAMP_MS

    def changes(self) -> int:
        return len(self._added) + len(self._removed) + len(self._overdue_again)

    def settle(self) -> None:
        """Reset the changes: the stored parts contain them."""
        self._added.clear()
        self._removed.clear()
        self._overdue_again.clear()

    def adopt(self, other: MemoryTimerQueue) -> None:
        """Take the timers of a restored queue. This one is empty."""
        # In place, because the code that fires timers keeps a reference to the list.
        self.heap[:] = other.heap
        self._live.update(other._live)

    def standing(self) -> list[Timer]:
        return list(self._live)

    def freeze(self, full: bool) -> tuple[list[Timer], list[Timer]]:
        """Return the timers to write and those to delete, and reset the changes."""
        if full:
            frozen = self.standing(), list[Timer]()
        else:
            frozen = [*self._added, *self._overdue_again], list(self._removed)
        self.settle()
        return frozen


class TimerService:
    """All timers of a subtask. The user's context has this object as `timers`."""

    def __init__(
        self, scope: KeyScope, event: TimerQueue, processing: TimerQueue, *, event_time: bool = True
    ) -> None:
        self._scope = scope
        self._event_time = event_time
        self.event = event
        self.processing = processing
        self.expected = False
        """Whether an event-time timer may be due within the delivery (`expect`)."""
        self._until_ms = MIN_TIMESTAMP_MS

    def expect(self, until_ms: int) -> None:
        """Announce that the watermark will reach `until_ms` among the next delivered rows. From now on
        `expected` is true if a timer is due by then, including timers that are registered meanwhile."""
        heap = self.event.heap
        self._until_ms = until_ms
        self.expected = bool(heap) and heap[0][0] <= until_ms

    def refuse_without_event_time(self) -> None:
        """Raise StateAccessError if event-time timers cannot be registered."""
        if not self._event_time:
            raise StateAccessError(
                "an event-time timer was registered on a stream that has no event time",
                hint="set watermark= on the source, or use register_processing",
            )

    def register(self, timestamp_ms: int) -> None:
        if not self._event_time:
            self.refuse_without_event_time()
        whole_ms = _whole(timestamp_ms)
        self.event.add(whole_ms, self._scope.key)
        if whole_ms <= self._until_ms:
            self.expected = True

    def delete(self, timestamp_ms: int) -> None:
        self.event.delete(_whole(timestamp_ms), self._scope.key)

    def register_processing(self, timestamp_ms: int) -> None:
        self.processing.add(_whole(timestamp_ms), self._scope.key)

    def delete_processing(self, timestamp_ms: int) -> None:
        self.processing.delete(_whole(timestamp_ms), self._scope.key)


class MemoryTimers(TimerService):
    """Timers in memory, with a chain of parts of their own."""

    event: MemoryTimerQueue
    processing: MemoryTimerQueue

    def __init__(
        self, codec: KeyCodec, max_parallelism: int, scope: KeyScope, *, event_time: bool = True
    ) -> None:
        event = MemoryTimerQueue(EVENT, codec.encode)
        processing = MemoryTimerQueue(PROCESSING, codec.encode)
        super().__init__(scope, event, processing, event_time=event_time)
        self._codec = codec
        self._max_parallelism = max_parallelism
        self._chain = DeltaChain()
        self._queues = {queue.mark: queue for queue in (event, processing)}
        self._overdue: dict[tuple[bytes, Timer], int] = {}
        """Watermark that was stored with each restored overdue timer, until the restore is complete."""

    def snapshot(self) -> SnapshotPart:
        queues = (self.event, self.processing)
        mode = self._chain.next_mode(sum(queue.changes() for queue in queues))
        full = mode is PartMode.FULL
        frozen = [(queue.mark, queue.fired_ms, *queue.freeze(full)) for queue in queues]
        self._chain.taken(mode, _rows(frozen))
        return self._part(mode, frozen)

    def savepoint(self) -> SnapshotPart:
        """Return a part with all timers. Changes since the last snapshot remain marked as changes."""
        queues = (self.event, self.processing)
        return self._part(PartMode.FULL, [(q.mark, q.fired_ms, q.standing(), []) for q in queues])

    def _part(self, mode: PartMode, frozen: Sequence[_Frozen]) -> SnapshotPart:
        def entries() -> Entries:
            keys: list[Key] = []
            namespaces: list[bytes] = []
            values: list[bytes | None] = []
            for mark, fired_ms, there, gone in frozen:
                for timers in (there, gone):
                    keys += [key for _, key in timers]
                    namespaces += [NAMESPACE.pack(mark, timestamp) for timestamp, _ in timers]
                values += [stored_value(timestamp, fired_ms) for timestamp, _ in there]
                values += [None] * len(gone)
            return Entries(keys, namespaces, stored_values(values))

        return row_part(TIMERS, mode, self._codec, self._max_parallelism, _rows(frozen), entries)

    def force_full(self) -> None:
        self._chain.force_full()

    def forget(self) -> None:
        """Forget all timers, and the watermark."""
        for queue in (self.event, self.processing):
            queue.forget()
        self._overdue.clear()

    def restore(self, restored: Mapping[str, Iterable[pa.Table]]) -> None:
        tables = restored.get(TIMERS, ())
        self.restore_ahead(tables)
        for (mark, _), fired_ms in self._overdue.items():
            self._queues[mark].fired(fired_ms)
        self._overdue.clear()
        self._chain.resume_restored(tables)

    def restore_ahead(self, tables: Iterable[pa.Table]) -> None:
        """Apply parts, in the order of their chain. `restore` follows with the parts that are left."""
        queues, overdue = self._queues, self._overdue
        for key, (mark, timestamp_ms), fired_ms in restored_rows(
            tables, self._codec, _namespaces, _fired_of_all
        ):
            if fired_ms is DELETED:
                queues[mark].delete(timestamp_ms, key)
            else:
                queues[mark].add(timestamp_ms, key)
            if fired_ms is not DELETED and fired_ms > MIN_TIMESTAMP_MS:
                overdue[mark, (timestamp_ms, key)] = fired_ms
            elif overdue:
                overdue.pop((mark, (timestamp_ms, key)), None)
        for queue in queues.values():
            queue.settle()

    def adopt(self, other: MemoryTimers) -> None:
        """Take the timers that another service has restored ahead. This one is empty."""
        self._overdue.update(other._overdue)
        for mark, queue in self._queues.items():
            queue.adopt(other._queues[mark])


def _namespaces(data: Sequence[bytes]) -> list[tuple[bytes, int]]:
    return [*map(NAMESPACE.unpack, data)]


def _fired_of_all(data: Sequence[bytes]) -> list[int]:
    return [*map(fired_of, data)]


def _rows(frozen: Sequence[_Frozen]) -> int:
    return sum(len(there) + len(gone) for _, _, there, gone in frozen)


def _whole(timestamp_ms: Any) -> int:
    if type(timestamp_ms) is int:
        return timestamp_ms
    if isinstance(timestamp_ms, np.integer):
        return int(timestamp_ms)
    raise TypeError(
        f"a timer must be set to an int, in milliseconds since the epoch, not to {timestamp_ms!r}; "
        'write ctx.timestamp + rh.duration("1m"), or int(at.timestamp() * 1000) of a datetime'
    )


class RefusingTimers:
    """Timers of a user's function. Registering one that no method of the function handles is an error,
    because the timer would have no effect."""

    def __init__(self, timers: Any, function: object, event: str, processing: str) -> None:
        """Wrap `timers`. `event` and `processing` name the methods for both kinds of timers."""
        self._timers = timers
        for register, method in (("register", event), ("register_processing", processing)):
            if not defines(function, method):
                setattr(self, register, partial(_refuse, type(function).__name__, method))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._timers, name)


def timers_for(timers: Any, function: object, event: str, processing: str = "") -> Any:
    """Return the timers that a function receives: `timers` itself if it handles both kinds."""
    handled = event, processing or event
    if all(defines(function, method) for method in handled):
        return timers
    return RefusingTimers(timers, function, *handled)


def _refuse(function: str, method: str, *_: Any) -> NoReturn:
    raise StateAccessError(
        f"{function} registers a timer, but has no method {method}, so the timer would have no effect",
        hint=f"define {method} in {function}",
    )
