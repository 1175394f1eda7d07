"""Keyed state as Python objects in dicts. Changes are tracked, so a snapshot costs only as much as they
do."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from rheos.core.protocol.snapshots import PartMode, RestoredState, Snapshot, SnapshotPart
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.expiry import Expiry, Sweeper
from rheos.core.state.keys import KeyCodec
from rheos.core.state.memory_tables import MemoryListTable, MemoryMapTable, MemoryValueTable, StateTable
from rheos.core.state.parts import row_part
from rheos.core.state.rocksdb.backend import tables_of_files
from rheos.core.state.rocksdb.files import FILES
from rheos.core.state.scope import KeyScope
from rheos.core.state.timers import TIMERS, MemoryTimers, TimerService

T = TypeVar("T", bound=StateTable)


class MemoryBackend(KeyedStateBackend):
    """State that fits in the worker's memory.

    `scratch` is a local folder for reading state that another backend stored as files. Without it, such
    state cannot be restored.
    """

    stride = sys.maxsize

    def __init__(
        self,
        keys: KeyCodec,
        max_parallelism: int,
        scope: KeyScope,
        scratch: str | None = None,
    ) -> None:
        super().__init__()
        self.scope = scope
        self._keys = keys
        self._max_parallelism = max_parallelism
        self._scratch = scratch
        self._tables: dict[str, StateTable] = {}
        self._timers: MemoryTimers | None = None

    def keys_held(self) -> int | None:
        return max((table.keys_held() for table in self._tables.values()), default=None)

    # --- stores -------------------------------------------------------------------------------------

    def values(self, name: str, declared: Any, expiry: Expiry | None = None) -> MemoryValueTable:
        return self.keep(name, MemoryValueTable(name, declared, expiry))

    def value_table(self, name: str) -> MemoryValueTable:
        table = self._tables[name]
        assert isinstance(table, MemoryValueTable)
        return table

    def lists(self, name: str, declared: Any, expiry: Expiry | None = None) -> MemoryListTable:
        return self.keep(name, MemoryListTable(name, declared, expiry))

    def list_table(self, name: str) -> MemoryListTable:
        table = self._tables[name]
        assert isinstance(table, MemoryListTable)
        return table

    def maps(self, name: str, key: Any, value: Any, expiry: Expiry | None = None) -> MemoryMapTable:
        return self.keep(name, MemoryMapTable(name, key, value, expiry))

    def map_table(self, name: str) -> MemoryMapTable:
        table = self._tables[name]
        assert isinstance(table, MemoryMapTable)
        return table

    def keep(self, name: str, table: T) -> T:
        """Include a table of the caller in snapshots and restores, in place of that of the same name.
        Call it when `values` is called."""
        before = self._tables.get(name)
        self.sweepers = [each for each in self.sweepers if each.store is not before]
        self._tables[name] = table
        if table.expiry is not None:
            self.sweepers.append(Sweeper(table, table.expiry))
        return table

    def timers(self, *, event_time: bool) -> TimerService:
        timers = MemoryTimers(self._keys, self._max_parallelism, self.scope, event_time=event_time)
        self._timers = timers
        return timers

    # --- snapshots ----------------------------------------------------------------------------------

    def restore(self, restored: Mapping[str, Iterable[pa.Table]]) -> None:
        files = restored.get(FILES)
        if files is not None and self._scratch is not None:
            assert isinstance(files, RestoredState)
            with tables_of_files(files, self._scratch) as tables:
                self._restore(tables)
            return
        if files is not None:
            # The iteration raises the error that explains why this is not possible.
            next(iter(files), None)
        self._restore(restored)

    def _restore(self, restored: Mapping[str, Iterable[pa.Table]]) -> None:
        for name, table in self._tables.items():
            tables = restored.get(name, ())
            table.restore(tables, self._keys)
            table.chain.resume_restored(tables)
        if self._timers is not None:
            self._timers.restore(restored)

    def restored_ahead(self) -> list[str]:
        """Return the names of the states whose parts can be restored one after another, before the
        operator is opened."""
        names = [name for name, table in self._tables.items() if table.is_adoptable]
        return names if self._timers is None else [*names, TIMERS]

    def restore_ahead(self, name: str, tables: Iterable[pa.Table]) -> None:
        """Restore tables of one of these states, which follow those of earlier calls."""
        if name == TIMERS:
            assert self._timers is not None
            self._timers.restore_ahead(tables)
        else:
            self._tables[name].restore(tables, self._keys)

    def forget_ahead(self, name: str) -> None:
        """Forget one of these states, so that its parts can be restored from the first one."""
        if name == TIMERS:
            assert self._timers is not None
            self._timers.forget()
        else:
            self._tables[name].forget()

    def adopt(self, other: MemoryBackend) -> None:
        """Take the state that another backend of the same operator has restored ahead. Called before
        `restore`, which adds the parts that follow."""
        for name, table in other._tables.items():
            if table.is_adoptable:
                self._tables[name].adopt(table)
        if self._timers is not None and other._timers is not None:
            self._timers.adopt(other._timers)

    def forget(self) -> None:
        for table in self._tables.values():
            table.forget()
        if self._timers is not None:
            self._timers.forget()

    def snapshot(self) -> Snapshot:
        parts = []
        for name, table in self._tables.items():
            mode, frozen = table.next_part()
            parts.append(row_part(name, mode, self._keys, self._max_parallelism, *frozen))
        if self._timers is not None:
            parts.append(self._timers.snapshot())
        return Snapshot(parts)

    def savepoint(self) -> list[SnapshotPart]:
        parts = []
        for name, table in self._tables.items():
            mode, frozen = PartMode.FULL, table.copy()
            parts.append(row_part(name, mode, self._keys, self._max_parallelism, *frozen))
        if self._timers is not None:
            parts.append(self._timers.savepoint())
        return parts

    def force_full(self) -> None:
        for table in self._tables.values():
            table.chain.force_full()
        if self._timers is not None:
            self._timers.force_full()
