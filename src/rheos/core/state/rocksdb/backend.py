"""Keyed state in RocksDB, by the contract of keyed state.

A snapshot consists of the database's files: changes are written to a new table file, all files are
linked into a folder, and each file is uploaded once. A savepoint consists of rows, which are read from
such a folder piece by piece while processing continues.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from rheos.core.protocol.snapshots import RestoredState, Snapshot, SnapshotPart, StateKind
from rheos.core.protocol.state_config import MIB
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.expiry import Expiry, Sweeper
from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.rocksdb import database_rows
from rheos.core.state.rocksdb.cache import CachedTable, SegmentPlaces
from rheos.core.state.rocksdb.database import Database
from rheos.core.state.rocksdb.files import FILES, FileSets, open_sets
from rheos.core.state.rocksdb.layout import DatabaseCatalogue, EntryForm, Places, range_start
from rheos.core.state.rocksdb.timers import DiskTimerQueue
from rheos.core.state.rocksdb.value_tables import RocksListTable, RocksMapTable, RocksValueTable
from rheos.core.state.scope import KeyScope
from rheos.core.state.timers import EVENT, PROCESSING, TIMERS, TimerService

_STRIDE = 1024
_LEAST_STRIDE = 16
_PLACE_BYTES = 200
"""Approximate memory in bytes of the place of a key."""
_CHANGED_TIMER_BYTES = 250
_VIEW_BYTES = 4 * MIB
"""Memory in bytes for reading the rows that a savepoint writes."""

T = TypeVar("T", bound=CachedTable[Any])


class RocksDbBackend(KeyedStateBackend):
    """Keyed state in a RocksDB database. Half of the memory is for decoded values, the other half for
    the database's buffers and blocks.

    `folder` belongs to this subtask of this operator alone, and is deleted with it. `writer` is a name
    that no other subtask has during the job, such as "<attempt>-<subtask>".
    """

    def __init__(
        self,
        keys: KeyCodec,
        max_parallelism: int,
        groups: range,
        scope: KeyScope,
        *,
        folder: str,
        writer: str,
        memory_bytes: int,
    ) -> None:
        super().__init__()
        self.scope = scope
        self.stride = _STRIDE
        self._keys = keys
        self._groups = groups
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._places = Places(keys, max_parallelism)
        self._place = SegmentPlaces()
        self._tables: dict[str, CachedTable[Any]] = {}
        self._queues: tuple[DiskTimerQueue, ...] = ()
        self._files = FileSets(folder, writer)
        self._catalogue = DatabaseCatalogue()
        self._database: Database | None = None

    # --- methods that operators call --------------------------------------------------------------

    def values(self, name: str, declared: Any, expiry: Expiry | None = None) -> RocksValueTable:
        return self._keep(RocksValueTable(name, declared, self._places, expiry))

    def value_table(self, name: str) -> RocksValueTable:
        table = self._tables[name]
        assert isinstance(table, RocksValueTable)
        return table

    def lists(self, name: str, declared: Any, expiry: Expiry | None = None) -> RocksListTable:
        return self._keep(RocksListTable(name, declared, self._places, self._place, expiry))

    def list_table(self, name: str) -> RocksListTable:
        table = self._tables[name]
        assert isinstance(table, RocksListTable)
        return table

    def maps(self, name: str, key: Any, value: Any, expiry: Expiry | None = None) -> RocksMapTable:
        return self._keep(RocksMapTable(name, key, value, self._places, expiry))

    def map_table(self, name: str) -> RocksMapTable:
        table = self._tables[name]
        assert isinstance(table, RocksMapTable)
        return table

    def _keep(self, table: T) -> T:
        self._tables[table.name] = table
        if table.expiry is not None:
            self.sweepers.append(Sweeper(table, table.expiry))
        return table

    def timers(self, *, event_time: bool) -> TimerService:
        queues = [
            DiskTimerQueue(mark, self._keys, self._places, self._groups, self._flush)
            for mark in (EVENT, PROCESSING)
        ]
        self._queues = tuple(queues)
        return TimerService(self.scope, *queues, event_time=event_time)

    def prepare(self, keys: Sequence[Key]) -> None:
        self._places.expect(keys)
        super().prepare(keys)
        used = sum(table.weight() for table in self._tables.values())
        used += len(self._places) * _PLACE_BYTES
        used += sum(queue.pending for queue in self._queues) * _CHANGED_TIMER_BYTES
        if used > self._memory_bytes // 4:
            self._rotate()

    # --- memory -----------------------------------------------------------------------------------

    @property
    def database(self) -> Database:
        assert self._database is not None, "state is used only after it was restored"
        return self._database

    def _flush(self) -> None:
        """Write all changes to the database. They remain in memory, too."""
        for table in self._tables.values():
            table.flush()
        for queue in self._queues:
            queue.flush()

    def _rotate(self) -> None:
        self._flush()
        generation = self._memory_bytes // 4
        largest = 1
        for table in self._tables.values():
            table.rotate(generation // 4 // table.item_bytes)
            largest = max(largest, table.item_bytes)
        for queue in self._queues:
            queue.settle()
        self._places.forget()
        # The keys of one stride must be few, compared with all keys in memory.
        self.stride = min(_STRIDE, max(_LEAST_STRIDE, generation // 4 // largest))

    # --- snapshots --------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        for queue in self._queues:
            queue.note_overdue()
        self._flush()
        if self._catalogue.next_place != self._place.next:
            self._catalogue.next_place = self._place.next
            self._catalogue.write(self.database)
        return self._files.snapshot(self.database)

    def savepoint(self) -> list[SnapshotPart]:
        for queue in self._queues:
            queue.note_overdue()
        self._flush()
        view = _View(self._files.take(self.database)[0], self._groups)
        return [
            SnapshotPart(
                name, StateKind.KEYED, partial(view.tables, state.id, state.form, self._living(name))
            )
            for name, state in self._catalogue.states.items()
        ]

    def _living(self, name: str) -> Callable[[bytes], bool] | None:
        """Return a test of whether a stored value of a state has not expired; None if none expires."""
        table = self._tables.get(name)
        if table is None or table.expiry is None:
            return None
        gone_ms, stamp_of = table.expiry.gone_ms(), table.stamp_of
        return lambda data: stamp_of(data) > gone_ms

    def force_full(self) -> None:
        """Do nothing: every snapshot is the whole set of files."""

    # --- restoring --------------------------------------------------------------------------------

    def restore(self, restored: Mapping[str, Iterable[pa.Table]]) -> None:
        files = restored.get(FILES)
        sets = files.files if isinstance(files, RestoredState) else ()
        database, names = open_sets(sets, self._folder, self._memory_bytes // 2)
        self._database = database
        self._files.took_over(names)
        self._catalogue = DatabaseCatalogue.read(database)
        self._place.next = self._catalogue.next_place
        forms = {name: table.form for name, table in self._tables.items()}
        if self._queues:
            forms[TIMERS] = EntryForm.TIMERS
        self._drop_others(forms)
        for name, form in forms.items():
            id = self._catalogue.declare(name, form)
            if name in restored:
                see = self._see_place if form is EntryForm.LIST else None
                database_rows.load(database, id, form, restored[name], see)
        self._catalogue.next_place = self._place.next
        self._catalogue.write(database)
        for name, table in self._tables.items():
            table.attach(database, self._catalogue.states[name].id)
        for queue in self._queues:
            queue.attach(database, self._catalogue.states[TIMERS].id)
        if restored:
            for queue in self._queues:
                queue.read()

    def _drop_others(self, forms: Mapping[str, EntryForm]) -> None:
        """Delete states that the program no longer declares, or declares with another form."""
        for name, state in list(self._catalogue.states.items()):
            if forms.get(name) is not state.form:
                self.database.delete_range(range_start(state.id), range_start(state.id + 1))
                del self._catalogue.states[name]

    def _see_place(self, namespace: bytes) -> None:
        self._place.next = max(self._place.next, int.from_bytes(namespace, "big") + 1)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


class _View:
    """An immutable view of the database, in a folder of hard links that its last reader deletes."""

    def __init__(self, folder: str, groups: range) -> None:
        self._folder = folder
        self._groups = groups
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def tables(
        self, id: int, form: EntryForm, living: Callable[[bytes], bool] | None
    ) -> Iterator[pa.Table]:
        """Yield the rows of a state. Threads may call it concurrently, because each call opens its own
        database."""
        database = Database(self._folder, _VIEW_BYTES, read_only=True)
        try:
            yield from database_rows.tables(database, id, form, self._groups, living)
        finally:
            database.close()


@contextmanager
def tables_of_files(files: RestoredState, folder: str) -> Iterator[Mapping[str, Iterable[pa.Table]]]:
    """Yield the canonical rows of a snapshot that was stored as files, for another backend. While they
    are read, the files are in `folder`."""
    place = str(Path(folder, "restored"))
    try:
        database, _ = open_sets(files.files, place, _VIEW_BYTES)
        groups = range(
            min((of.groups.start for of in files.files), default=0),
            max((of.groups.stop for of in files.files), default=0),
        )
        with closing(database):
            yield {
                name: database_rows.tables(database, state.id, state.form, groups)
                for name, state in DatabaseCatalogue.read(database).states.items()
            }
    finally:
        shutil.rmtree(place, ignore_errors=True)
