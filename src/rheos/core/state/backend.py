"""The contract of keyed state: stores of values by key, one per declaration, and their snapshots.

A backend belongs to one subtask of one operator; it only stores values. The operator sets `scope.key`
before each call of user code. Handles (`state/kinds/`) read and write the stores at that key.
`snapshot` is called at a barrier, between calls. Its synchronous part is short: immutable data is only
referenced, and encoded when the part is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

import pyarrow as pa

from rheos.core.protocol.snapshots import Snapshot, SnapshotPart
from rheos.core.state.expiry import Expiry, Sweeper
from rheos.core.state.key_limit import KeyLimit
from rheos.core.state.keys import Key
from rheos.core.state.scope import KeyScope
from rheos.core.state.stores import ListStore, MapStore, ValueStore
from rheos.core.state.timers import TimerService

_ONE_OF = 8
"""Divisor for samples: the backend checks the sizes of lists and maps for one in this many keys of a
batch."""


class KeyedStateBackend(ABC):
    """Keeps the state of one subtask's key groups."""

    scope: KeyScope
    stride: int
    """Approximate number of rows or timers between two calls of `prepare`."""

    def __init__(self) -> None:
        self.sweepers: list[Sweeper] = []
        """Sweepers of the stores whose entries expire."""
        self._watched: list[tuple[ListStore | MapStore, KeyLimit]] = []
        self._turn = 0

    def keys_held(self) -> int | None:
        """Return the number of keys of the largest state; None if they would have to be counted."""
        return None

    @abstractmethod
    def values(self, name: str, declared: Any, expiry: Expiry | None = None) -> ValueStore:
        """Return the store of a state with one value per key, of a declared type. Like the methods
        below, called before `restore`, once for each name.

        With an `expiry`, stored values are pairs (stamp, value), and expired ones are removed after
        some time; `declared` is the type of the value alone. Raise SchemaError if the declared type
        cannot be stored.
        """

    @abstractmethod
    def value_table(self, name: str) -> ValueStore:
        """Return the store that `values` returned for this name."""

    @abstractmethod
    def lists(self, name: str, declared: Any, expiry: Expiry | None = None) -> ListStore:
        """Return the store of a list per key. `declared` is the type of its elements, which expire."""

    @abstractmethod
    def list_table(self, name: str) -> ListStore:
        """Return the store that `lists` returned for this name."""

    @abstractmethod
    def maps(self, name: str, key: Any, value: Any, expiry: Expiry | None = None) -> MapStore:
        """Return the store of a dict per key, for these types of keys and values. Entries expire."""

    @abstractmethod
    def map_table(self, name: str) -> MapStore:
        """Return the store that `maps` returned for this name."""

    @abstractmethod
    def timers(self, *, event_time: bool) -> TimerService:
        """Return the subtask's timers, which are state, too. The operator calls it at most once, before
        `restore`."""

    def prepare(self, keys: Sequence[Key]) -> None:
        """Prepare for the next calls of user code, which use approximately these keys. It is called
        between calls of user code. Values that were read before must be read again."""
        self.sweep(len(keys))
        if self._watched:
            self.check_limits(keys)

    def watch(self, store: ListStore | MapStore, limit: KeyLimit) -> None:
        """Limit the lists or maps of a store. Only some keys of a batch are checked, in turn, so a key
        may exceed the limit by the rows of a few batches."""
        self._watched.append((store, limit))

    def check_limits(self, keys: Sequence[Key]) -> None:
        """Check the limits of some of the keys of a batch."""
        self._turn = (self._turn + 1) % _ONE_OF
        if not keys:
            return
        some = keys[self._turn % len(keys) :: _ONE_OF]
        for store, limit in self._watched:
            values: Mapping[Key, Sized] = store.values
            for key in some:
                found = values.get(key)
                if found is not None and len(found) > limit.due:
                    limit.see(len(found), key)

    def sweep(self, keys: int) -> None:
        """Remove a few expired entries. Called between calls of user code, as by `prepare`."""
        for sweeper in self.sweepers:
            sweeper.step(keys)

    def forget(self) -> None:
        """Forget all keys, as if none had arrived. Only a backend in memory supports this."""
        raise NotImplementedError

    @abstractmethod
    def restore(self, restored: Mapping[str, Iterable[pa.Table]]) -> None:
        """Restore the tables of each state, in the order in which they apply. Called before use."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return a snapshot of all state and the timers. Its cost depends on the changes."""

    @abstractmethod
    def savepoint(self) -> list[SnapshotPart]:
        """Return a FULL part for each declared state, with rows that every backend reads. This does not
        affect the next snapshot."""

    @abstractmethod
    def force_full(self) -> None:
        """Note that the last snapshot was not stored, so the next one must include its changes."""

    def close(self) -> None:
        """Release all resources; no other call follows. May be called several times."""
