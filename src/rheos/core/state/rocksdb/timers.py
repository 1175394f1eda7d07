"""Timers on disk, of which only the next ones are in memory.

All timers are in the database, or among the changes to be written to it next. In addition, memory has
all timers up to a *horizon*: the heap from which they fire. When the heap is empty, the horizon
advances, and the next timers of every key group are read. When the heap is too large, the horizon moves
back.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import islice

from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.rocksdb.database import Database
from rheos.core.state.rocksdb.layout import EntryForm, Places, join, range_start, split
from rheos.core.state.timers import NAMESPACE, Timer, TimerQueue, fired_of, stored_value

_IN_MEMORY = 16_384
"""Number of timers in memory; up to twice as many are permitted."""

_EVERYTHING = (1 << 70, b"")
_NOTHING = (-(1 << 70), b"")


class DiskTimerQueue(TimerQueue):
    """The timers of one kind. `flush_all` writes the changes of all states before the queue reads."""

    def __init__(
        self,
        mark: bytes,
        codec: KeyCodec,
        places: Places,
        groups: range,
        flush_all: Callable[[], None],
    ) -> None:
        self.mark = mark
        self.heap = []
        self._codec = codec
        self._places = places
        self._groups = groups
        self._flush_all = flush_all
        self._most = _IN_MEMORY
        self._live: set[Timer] = set()
        """Timers up to the horizon. Other timers in the heap are deleted ones."""
        self._horizon = _EVERYTHING
        """Time and encoded key up to which all timers are in memory."""
        self._changes: dict[Timer, bool] = {}
        """Changes to be written: whether each timer exists."""

    def attach(self, database: Database, id: int) -> None:
        """Set the opened database, and the id of the timers' state in it."""
        self._database = database
        self._state = id

    def read(self) -> None:
        """Read the next timers, because the database may have some already."""
        self._horizon = _NOTHING
        self._refill()

    def __len__(self) -> int:
        self._flush_all()
        return sum(1 for group in self._groups for _ in self._stored(group))

    def add(self, timestamp_ms: int, key: Key) -> None:
        timer = (timestamp_ms, key)
        if timer in self._live:
            return
        self._changes[timer] = True
        encoded = self._codec.encode(key)
        if (timestamp_ms, encoded) <= self._horizon:
            self._live.add(timer)
            heapq.heappush(self.heap, (timestamp_ms, encoded, key))

    def delete(self, timestamp_ms: int, key: Key) -> None:
        timer = (timestamp_ms, key)
        self._live.discard(timer)
        self._changes[timer] = False

    def next_ms(self) -> int | None:
        heap, live = self.heap, self._live
        while heap:
            if (heap[0][0], heap[0][2]) in live:
                return heap[0][0]
            heapq.heappop(heap)
            self._advance()
        return None

    def pop(self, until_ms: int) -> Timer | None:
        next_ms = self.next_ms()
        if next_ms is None or next_ms > until_ms or until_ms <= self.fired_ms:
            return None
        timestamp_ms, _, key = heapq.heappop(self.heap)
        timer = (timestamp_ms, key)
        self._live.remove(timer)
        self._changes[timer] = False
        self._advance()
        return timer

    def clear(self) -> None:
        self._flush_all()
        for group in self._groups:
            start = self._start(group)
            self._database.delete_range(start, start[:-1] + bytes((start[-1] + 1,)))
        self._live.clear()
        self.heap.clear()
        self._horizon = _EVERYTHING

    def _advance(self) -> None:
        """Advance the horizon, so that the heap is empty only if there are no timers at all."""
        if not self.heap and self._horizon is not _EVERYTHING:
            self._refill()

    def _refill(self) -> None:
        self._flush_all()
        each = max(self._most // max(len(self._groups), 1), 1)
        found: list[tuple[int, bytes, Key]] = []
        horizon = _EVERYTHING
        decode, note = self._codec.decode, self._places.note
        for group in self._groups:
            last = None
            stored = islice(self._stored(group, self._horizon), each + 1)
            for count, (place, value) in enumerate(stored):
                if count == each:
                    # More timers exist than were read: nothing is known about later times.
                    assert last is not None
                    horizon = min(horizon, last)
                    break
                encoded, namespace = split(EntryForm.TIMERS, place[4:])
                last = (NAMESPACE.unpack(namespace)[1], encoded)
                self.fired(fired_of(value))
                found.append((*last, decode(encoded)))
                note(found[-1][2], place[2:4] + encoded)
        self._horizon = horizon
        # In place, because the code that fires timers keeps a reference to the list.
        self.heap[:] = sorted(timer for timer in found if timer[:2] <= horizon)
        self._live.update((timestamp_ms, key) for timestamp_ms, _, key in self.heap)

    def _start(self, group: int) -> bytes:
        return range_start(self._state, group) + self.mark

    def _stored(self, group: int, after: tuple[int, bytes] = _NOTHING) -> Iterator[tuple[bytes, bytes]]:
        """Yield the places of a group's timers after this one, in order, with their values."""
        prefix = self._start(group)
        start = prefix
        if after is not _NOTHING:
            namespace = NAMESPACE.pack(self.mark, after[0])
            start = (
                range_start(self._state, group) + join(EntryForm.TIMERS, after[1], namespace) + b"\0"
            )
        return self._database.scan(start, prefix[:-1] + bytes((prefix[-1] + 1,)))

    # --- writing ----------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        return len(self._changes)

    def note_overdue(self) -> None:
        """Write overdue timers again before a snapshot, with the watermark up to which they fired.
        Timers that were written within a batch do not have that watermark yet."""
        if self.heap and self.heap[0][0] <= self.fired_ms:
            overdue = ((at, key) for at, _, key in self.heap if at <= self.fired_ms)
            self._changes |= {timer: True for timer in overdue if timer in self._live}

    def flush(self) -> None:
        """Write all changes to the database, and mark the timers as unchanged."""
        prefix = range_start(self._state)[:2]
        starts = self._places.of_all(key for _, key in self._changes)
        places: list[bytes] = []
        values: list[bytes | None] = []
        for (timer, stands), start in zip(self._changes.items(), starts, strict=True):
            namespace = NAMESPACE.pack(self.mark, timer[0])
            places.append(prefix + start[:2] + join(EntryForm.TIMERS, start[2:], namespace))
            values.append(stored_value(timer[0], self.fired_ms) if stands else None)
        self._database.write_entries(places, lambda some: [values[at] for at in some])
        self._changes.clear()

    def settle(self) -> None:
        """Reduce the timers in memory to their limit. Called between calls, without pending changes."""
        if len(self.heap) <= 2 * self._most:
            return
        live = sorted({timer for timer in self.heap if (timer[0], timer[2]) in self._live})
        self.heap[:] = live[: self._most]
        if len(live) > self._most:
            self._horizon = self.heap[-1][:2]
            self._live = {(timestamp_ms, key) for timestamp_ms, _, key in self.heap}
        self._advance()
