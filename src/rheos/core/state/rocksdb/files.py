"""A snapshot as a set of files, and a database restored from the sets of earlier subtasks.

A set consists of the table files, which never change, and the manifest, which lists them. It is the
state at the barrier, although its last table files are written later (`BegunCheckpoint`). RocksDB
numbers its files, and continues counting after a restore. A name must always mean the same content over
the life of a job. So it begins with the attempt and the subtask that wrote the file (CP20).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from rheos.core.errors import UnrestorableError
from rheos.core.protocol.snapshots import RestoredFiles, Snapshot, SnapshotFile, SnapshotFiles
from rheos.core.state.file_memory import memory_for
from rheos.core.state.rocksdb.database import Database, failure, is_manifest, make_current
from rheos.core.state.rocksdb.layout import DatabaseCatalogue, range_start

FILES = "rocksdb files"
"""Name of the state to which the files belong. No declaration can have this name."""

_COPIED_BYTES = 4 * 1024 * 1024


class FileSets:
    """Creates the snapshots of one database, below a folder of its own."""

    def __init__(self, folder: str, writer: str) -> None:
        self._folder = folder
        self._writer = writer
        """Prefix of the names of new files: the attempt and the subtask."""
        self._names: dict[str, str] = {}
        """Names of restored files in snapshots, by their names in the database."""
        self._taken = 0

    def took_over(self, names: dict[str, str]) -> None:
        self._names = names

    def take(self, database: Database) -> tuple[str, list[str]]:
        """Return a new folder with the current database, and the files in it."""
        folder = self._next_folder()
        return folder, database.checkpoint(folder)

    def snapshot(self, database: Database) -> Snapshot:
        """Return a snapshot of the current database."""
        begun = database.begin_checkpoint(self._next_folder())
        number = self._taken

        def complete() -> list[SnapshotFile]:
            return [
                SnapshotFile(self._global(name, number), partial(_read, begun.folder, name))
                for name in begun.names()
            ]

        return Snapshot(files=SnapshotFiles(FILES, begun.prepare, complete), release=begun.abandon)

    def _next_folder(self) -> str:
        self._taken += 1
        return str(Path(self._folder, f"snapshot-{self._taken}"))

    def _global(self, name: str, number: int) -> str:
        """Return the name of a file in the snapshot of this number."""
        if is_manifest(name):
            # It grows, so it is a different file in every snapshot.
            return f"{self._writer}-{number}.{name}"
        return self._names.get(name) or f"{self._writer}-{name}"


def _read(folder: str, name: str) -> memoryview:
    try:
        with Path(folder, name).open("rb") as file:
            data = memory_for(os.fstat(file.fileno()).st_size)
            return data[: file.readinto(data)]
    except OSError as error:
        raise failure(folder, error) from error


def local_names(names: Iterable[str]) -> tuple[dict[str, str], str]:
    """Return the names of a set's files in a database's folder, by their names in the set, and the name
    of the manifest there. Raise UnrestorableError if the set is invalid."""
    there: dict[str, str] = {}
    manifest = None
    for name in names:
        if "." in name and is_manifest(name.partition(".")[2]):
            local = manifest = name.partition(".")[2]
        else:
            local = name.rpartition("-")[2]
        if Path(local).name != local:
            raise UnrestorableError(f"{name!r} is not the name of a state file")
        there[name] = local
    if manifest is None:
        raise UnrestorableError("a set of state files lacks its manifest")
    return there, manifest


def fetch(restored: RestoredFiles, folder: str) -> dict[str, str]:
    """Write the files of a set into a new folder, ready to be opened, and return the names of its
    tables.

    Raise UnrestorableError if the set is invalid, and StateError if the disk fails.
    """
    there, manifest = local_names(restored.files)
    for name, read in restored.files.items():
        data = read()
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            Path(folder, there[name]).write_bytes(data)
        except OSError as error:
            raise failure(folder, error) from error
    make_current(folder, manifest)
    return {local: name for name, local in there.items() if local != manifest}


def open_sets(
    sets: Sequence[RestoredFiles], folder: str, memory_bytes: int
) -> tuple[Database, dict[str, str]]:
    """Return a database with the wanted key groups of the sets, and the names of its tables.

    The set with the most of these groups is opened in place, without its other groups. The rest is
    copied.
    """
    largest = max(sets, key=lambda files: len(files.groups), default=None)
    path = str(Path(folder, "db"))
    if largest is None:
        return Database(path, memory_bytes), {}
    names = fetch(largest, path)
    database = Database(path, memory_bytes)
    catalogue = DatabaseCatalogue.read(database)
    if not largest.whole:
        for state in catalogue.states.values():
            database.delete_range(range_start(state.id), range_start(state.id, largest.groups.start))
            database.delete_range(range_start(state.id, largest.groups.stop), range_start(state.id + 1))
    for number, files in enumerate(sets):
        if files is not largest:
            other = str(Path(folder, f"restored-{number}"))
            fetch(files, other)
            _copy(other, files.groups, database, catalogue)
            shutil.rmtree(other, ignore_errors=True)
    if len(sets) > 1:
        catalogue.write(database)
    return database, names


def _copy(folder: str, groups: range, target: Database, catalogue: DatabaseCatalogue) -> None:
    source = Database(folder, read_only=True)
    found = DatabaseCatalogue.read(source)
    catalogue.next_place = max(catalogue.next_place, found.next_place)
    try:
        for name, state in found.states.items():
            prefix = range_start(catalogue.declare(name, state.form))[:2]
            start, stop = range_start(state.id, groups.start), range_start(state.id, groups.stop)
            for entries in _bounded(source.scan(start, stop)):
                batch = target.batch()
                for place, value in entries:
                    batch.put(prefix + place[2:], value)
                target.write(batch)
    finally:
        source.close()


def _bounded(entries: Iterator[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    taken: list[tuple[bytes, bytes]] = []
    size = 0
    for entry in entries:
        taken.append(entry)
        size += len(entry[0]) + len(entry[1])
        if size >= _COPIED_BYTES:
            yield taken
            taken, size = [], 0
    if taken:
        yield taken
