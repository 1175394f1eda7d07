"""Reads of state that a checkpoint stores as RocksDB databases, one for each operator and subtask.

A database can be opened only if all of its files are local. So they are copied into a temporary folder
once. Files never change: a newer checkpoint needs only a copy of its new ones. Databases are opened
read-only, and the checkpoint's own files are not touched.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rheos.core.errors import ConfigurationError, StateError, TransportError
from rheos.core.protocol.snapshots import StateHandle
from rheos.core.state.rocksdb import database_rows
from rheos.core.state.rocksdb.database import Database, failure, make_current
from rheos.core.state.rocksdb.files import local_names
from rheos.core.state.rocksdb.layout import DatabaseCatalogue
from rheos.core.state.rocksdb.packed_entries import PackedEntries
from rheos.runtimes.host.scratch import folder_of

COPIED_BYTES = 4 << 30
"""Maximum size in bytes of all copied files."""


class _Copy(NamedTuple):
    path: Path
    size_bytes: int


class _OpenDatabase(NamedTuple):
    database: Database
    folder: Path
    paths: frozenset[str]
    """Paths in the store of the files that it consists of."""


class DatabaseReads:
    """Copies of the files of databases, and the databases that are open. Any thread may use it; one
    reads at a time.

    Args:
        read: Returns the checked content of a file; called with its handle and the deadline.
        now_s: Monotonic clock, in seconds.
        most_bytes: Maximum size in bytes of all copies. The least recently used are deleted.
    """

    def __init__(
        self,
        read: Callable[[StateHandle, float], bytes],
        now_s: Callable[[], float],
        most_bytes: int = COPIED_BYTES,
    ) -> None:
        self._read = read
        self._now_s = now_s
        self._most_bytes = most_bytes
        self._folder: Path | None = None
        self._copies: OrderedDict[str, _Copy] = OrderedDict()
        """The least recently used first, by the path in the store."""
        self._opened: dict[frozenset[str], _OpenDatabase] = {}
        self._made = 0
        self._lock = threading.Lock()

    @property
    def copied_bytes(self) -> int:
        return sum(copy.size_bytes for copy in self._copies.values())

    def parts(
        self,
        files: Sequence[StateHandle],
        state: str,
        groups: range,
        deadline_s: float,
        *,
        deciding: int,
    ) -> list[pa.Table]:
        """Return the rows of some key groups, as a snapshot in memory has them.

        Args:
            files: All files of the database of one subtask.
            state: Name of the state.
            groups: Key groups of this subtask.
            deadline_s: Time on the clock when copying stops. A later call continues.
            deciding: Number of columns of the key that decide the key group.

        Raises:
            ConfigurationError: The database is too large to be copied.
            TransportError: The time is up.
            CheckpointError: A file is damaged or gone.
            StateError: The local disk failed.
        """
        if not groups:
            return []
        size = sum(file.size_bytes for file in files)
        if size > self._most_bytes:
            raise ConfigurationError(
                f"the state {state!r} of a subtask has {size / 1e9:.1f} GB in RocksDB, but a reader "
                f"copies at most {self._most_bytes / 1e9:.1f} GB",
                hint="take a savepoint, and read it by rh.savepoint; or raise the parallelism",
            )
        with self._exclusive_access(deadline_s):
            database = self._database(files, deadline_s)
            found = DatabaseCatalogue.read(database).states.get(state)
            if found is None:
                return []
            packed = PackedEntries.stored(database, state, deciding)
            if packed is not None:
                return list(packed.tables(database, groups))
            return [pa.concat_tables(database_rows.tables(database, found.id, found.form, groups))]

    @contextmanager
    def _exclusive_access(self, deadline_s: float) -> Iterator[None]:
        if not self._lock.acquire(timeout=max(0.0, deadline_s - self._now_s())):
            raise TransportError(
                "another read copies files of the state, and has not ended in time",
                hint="try again, when the files are on the driver's disk",
            )
        try:
            yield
        finally:
            self._lock.release()

    def _database(self, files: Sequence[StateHandle], deadline_s: float) -> Database:
        paths = frozenset(file.path for file in files)
        self._copy(files, paths, deadline_s)
        opened = self._opened.get(paths)
        if opened is None:
            opened = self._opened[paths] = self._open(files, paths)
        return opened.database

    def _copy(self, files: Sequence[StateHandle], paths: frozenset[str], deadline_s: float) -> None:
        """Copy the missing files. On an error the others stay, so that a later call continues."""
        for file in files:
            if file.path in self._copies:
                self._copies.move_to_end(file.path)
        for file in files:
            if file.path in self._copies:
                continue
            data = self._read(file, deadline_s)
            self._make_room(len(data), paths)
            copy = self._new_path("file")
            try:
                copy.write_bytes(data)
            except OSError as error:
                copy.unlink(missing_ok=True)
                raise failure(str(copy.parent), error) from error
            self._copies[file.path] = _Copy(copy, len(data))

    def _make_room(self, size_bytes: int, kept: frozenset[str]) -> None:
        """Delete the least recently used copies, and close their databases."""
        for path in [path for path in self._copies if path not in kept]:
            if self.copied_bytes + size_bytes <= self._most_bytes:
                return
            for opened in [each for each in self._opened.values() if path in each.paths]:
                self._close(opened)
            self._copies.pop(path).path.unlink(missing_ok=True)

    def _open(self, files: Sequence[StateHandle], paths: frozenset[str]) -> _OpenDatabase:
        """Open a database in a new folder, which links to the copies."""
        # Files that a newer checkpoint shares stay; a database of the same subtask is used no more.
        for older in [each for each in self._opened.values() if each.paths & paths]:
            self._close(older)
        folder = self._new_path("database")
        names, manifest = local_names(file.file for file in files)
        copies = {file.file: self._copies[file.path].path for file in files}
        try:
            folder.mkdir()
            for name, local in names.items():
                os.link(copies[name], folder / local)
            make_current(str(folder), manifest)
            return _OpenDatabase(Database(str(folder), read_only=True), folder, paths)
        except (OSError, StateError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise failure(str(folder), error) from error

    def _close(self, opened: _OpenDatabase) -> None:
        del self._opened[opened.paths]
        opened.database.close()
        shutil.rmtree(opened.folder, ignore_errors=True)

    def _new_path(self, kind: str) -> Path:
        if self._folder is None:
            self._folder = Path(folder_of(self, "rheos-reads-"))
        self._made += 1
        return self._folder / f"{kind}-{self._made}"
