"""The database of an operator's running states: restored from the files of earlier subtasks, and stored
in snapshots as files.

Half of the memory is for recently used keys, the other half for the database's buffers.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pyarrow as pa

from rheos.core.operators.running_disk import DiskRunningState
from rheos.core.operators.running_state import KeptAggregates
from rheos.core.operators.running_values import DiskValues
from rheos.core.protocol.snapshots import PartMode, RestoredFiles, Snapshot, SnapshotPart, StateKind
from rheos.core.protocol.state_config import MIB
from rheos.core.state.rocksdb.database import Database
from rheos.core.state.rocksdb.files import FileSets, open_sets
from rheos.core.state.rocksdb.packed_entries import PackedEntries

_VIEW_BYTES = 4 * MIB


class RunningFiles:
    """Snapshots and restores the running states of one operator, which share a database."""

    def __init__(
        self,
        states: Mapping[str, KeptAggregates],
        groups: range,
        max_parallelism: int,
        *,
        folder: str,
        writer: str,
        memory_bytes: int,
    ) -> None:
        """Create the files of a subtask. No other subtask or operator may use `folder`. `writer` is a
        name that no other subtask has during the job."""
        self._of = states
        self._groups = groups
        self._folder = folder
        self._memory_bytes = memory_bytes // 2
        self._files = FileSets(folder, writer)
        self._database: Database | None = None
        self.states = {
            name: (DiskValues if of.within else DiskRunningState)(
                of,
                name=name,
                groups=groups,
                max_parallelism=max_parallelism,
                memory_bytes=self._memory_bytes // len(states),
            )
            for name, of in states.items()
        }

    def open(self, sets: Sequence[RestoredFiles], tables: Mapping[str, Iterable[pa.Table]]) -> None:
        """Open the database: the key groups for which `sets` are restored, or the rows of `tables`."""
        database, names = open_sets(sets, self._folder, self._memory_bytes)
        self._database = database
        if all(state.open(database) for state in self.states.values()):
            self._files.took_over(names)
            return
        if sets:
            self._database = Database(str(Path(self._folder, "rewritten")), self._memory_bytes)
        for name, state in self.states.items():
            stored = state.stored(database)
            state.write(self._database, tables.get(name, ()) if stored is None else stored)
        if database is not self._database:
            database.close()
            shutil.rmtree(database.folder, ignore_errors=True)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    @property
    def database(self) -> Database:
        assert self._database is not None, "state is used only after it was opened"
        return self._database

    def snapshot(self) -> Snapshot:
        for state in self.states.values():
            state.flush()
        return self._files.snapshot(self.database)

    def savepoint(self) -> list[SnapshotPart]:
        """Return all rows as snapshot parts. Called right after `snapshot`."""
        view = _View(self._files.take(self.database)[0], self._of, self._groups)
        return [
            SnapshotPart(name, StateKind.KEYED, partial(view.tables, name), PartMode.FULL)
            for name in self.states
        ]


def tables_of_sets(
    sets: Sequence[RestoredFiles], states: Mapping[str, KeptAggregates], groups: range, folder: str
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of states that were stored as files, each with the state's name."""
    database, _ = open_sets(sets, str(Path(folder, "restored")), _VIEW_BYTES)
    try:
        for name, of in states.items():
            found = PackedEntries.stored(database, name, len(of.keys))
            if found is not None:
                yield from ((name, table) for table in found.tables(database, groups))
    finally:
        database.close()
        shutil.rmtree(database.folder, ignore_errors=True)


class _View:
    """The rows at the time of a snapshot, in a folder of hard links, which the last reader deletes."""

    def __init__(self, folder: str, states: Mapping[str, KeptAggregates], groups: range) -> None:
        self._folder = folder
        self._states = states
        self._groups = groups
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def tables(self, name: str) -> Iterator[pa.Table]:
        """Yield the tables of a state. They are read from a separate database, so several reads may run
        at a time, on any thread."""
        with closing(Database(self._folder, _VIEW_BYTES, read_only=True)) as database:
            found = PackedEntries.stored(database, name, len(self._states[name].keys))
            assert found is not None, "an opened state was declared"
            yield from found.tables(database, self._groups)
