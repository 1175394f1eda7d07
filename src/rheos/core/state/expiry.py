"""Expiry of state: when an entry has expired, and how expired entries are removed.

An *entry* is a value, an element of a list, or an entry of a map. If it expires, it is stored as a pair
of its *stamp*, the time of its last update in ms, and its value. Visibility and removal are separate:

- **Visibility** is decided by the handles (`kinds/expiring.py`): an entry has expired if the time of
  the call is at or after its stamp plus the time to live.
- **Removal** is done by the backend: from time to time a *sweep* goes through a store, in small pieces
  between deliveries, and full snapshots leave out expired entries. Removal is never visible: it uses a
  time that no later call precedes (`Expiry.gone_ms`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from rheos.core.graph.state import TimeToLive
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.state.scope import KeyScope

Times = TypeVar("Times", int, npt.NDArray[np.int64], int | npt.NDArray[np.int64])
"""Time in ms since the epoch: of one call, or of each of many."""

SWEEPS = 2
"""Number of sweeps of a store per time to live. A store holds at most the entries of two of them."""

PIECE = 256
"""Approximate number of entries after which a sweep checks whether to pause."""

_ENTRIES_PER_KEY = 8
_MOST_ENTRIES_PER_KEY = 64
_MOST_PIECES = 64
"""Bounds of the sweep between two deliveries: the approximate number of entries per key of the next
delivery, and the maximum number of pieces if the sweep is late. A delivery writes fewer entries than
are swept."""


class Expiry:
    """The time to live of one state, measured by the clock of its scope."""

    def __init__(self, ttl: TimeToLive, scope: KeyScope) -> None:
        self.ttl_ms = ttl.ms
        self.renews_on_read = ttl.renewed_on == "read_and_write"
        self.goes_by_event_time = ttl.time == "event_time"
        self._scope = scope

    def now_ms(self) -> int:
        """Return the time of the current call."""
        return self._scope.event_time() if self.goes_by_event_time else self._scope.processing_time

    def times_of(self, event_times: npt.NDArray[np.int64] | None) -> int | npt.NDArray[np.int64]:
        """Return the times of many calls. `event_times` are their event times, which are passed if the
        state expires by event time."""
        if not self.goes_by_event_time:
            return self._scope.processing_time
        assert event_times is not None
        return event_times

    def latest_gone(self, now_ms: Times) -> Times:
        """Return the latest stamp of entries that have expired in a call at `now_ms`."""
        return now_ms - self.ttl_ms

    def gone_ms(self) -> int:
        """Return the latest stamp of entries that no later call can see."""
        scope = self._scope
        now_ms = scope.passed_ms if self.goes_by_event_time else scope.processing_time
        return self.latest_gone(now_ms)


class ExpiringStore(Protocol):
    """A store whose entries expire."""

    def sweep(self) -> Iterator[None]:
        """Remove expired entries. The iterator pauses after about `PIECE` entries. Entries may be
        written in between; new ones may be left to the next sweep."""
        ...

    def entries(self) -> int:
        """Return the approximate number of entries to sweep."""
        ...


class Sweeper:
    """Sweeps one store, at a pace that follows the clock."""

    def __init__(self, store: ExpiringStore, expiry: Expiry) -> None:
        self.store = store
        self._expiry = expiry
        self._every_ms = max(expiry.ttl_ms // SWEEPS, 1)
        self._next_ms = MIN_TIMESTAMP_MS
        self._sweep: Iterator[None] | None = None
        self._began_ms = 0
        self._pieces = 0
        self._done = 0

    def step(self, keys: int) -> None:
        """Sweep a few entries. `keys` is the number of keys for which the backend prepares. Called
        between calls of user code."""
        gone_ms = self._expiry.gone_ms()
        if self._sweep is None:
            if gone_ms < self._next_ms:
                return
            self._sweep = self.store.sweep()
            self._began_ms, self._done = gone_ms, 0
            self._pieces = self.store.entries() // PIECE
        by_clock = self._pieces * (gone_ms - self._began_ms) // self._every_ms - self._done
        at_least = 1 + _ENTRIES_PER_KEY * keys // PIECE
        at_most = _MOST_PIECES + _MOST_ENTRIES_PER_KEY * keys // PIECE
        for _ in range(min(max(by_clock, at_least), at_most)):
            if next(self._sweep, self) is self:
                self._sweep = None
                self._next_ms = self._began_ms + self._every_ms
                return
            self._done += 1
