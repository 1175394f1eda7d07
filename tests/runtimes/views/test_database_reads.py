"""Reads of databases from a checkpoint's files: each file is copied once, and copies are bounded."""

from __future__ import annotations

import zlib
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from rheos.core.errors import ConfigurationError, TransportError, UnrestorableError
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.snapshots import PartMode, StateHandle, StateKind
from rheos.core.state.rocksdb.database import Database
from rheos.core.state.rocksdb.files import FileSets
from rheos.core.state.rocksdb.layout import DatabaseCatalogue, EntryForm, range_start
from rheos.runtimes.views.database_reads import DatabaseReads

GROUPS = range(4)


class Stored:
    """Files of the databases of several subtasks, and the reads of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, bytes] = {}
        self.reads: list[str] = []
        self.now_s = 0.0

    def read(self, handle: StateHandle, deadline_s: float) -> bytes:
        if self.now_s > deadline_s:
            raise TransportError("late")
        self.now_s += 1.0
        self.reads.append(handle.path)
        return self.files[handle.path]

    def reader(self, most_bytes: int = 1 << 30) -> DatabaseReads:
        return DatabaseReads(self.read, lambda: self.now_s, most_bytes)

    def written(self, subtask: int, checkpoints: int) -> list[list[StateHandle]]:
        """Write a database with a further key in each checkpoint, and return the files of each."""
        database = Database(str(self.folder / f"{subtask}" / "db"))
        sets = FileSets(str(self.folder / f"{subtask}"), f"1-{subtask}")
        catalogue = DatabaseCatalogue()
        state = catalogue.declare("total", EntryForm.VALUE)
        catalogue.write(database)
        with closing(database):
            return [self._checkpoint(database, sets, subtask, state, n) for n in range(checkpoints)]

    def _checkpoint(
        self, database: Database, sets: FileSets, subtask: int, state: int, number: int
    ) -> list[StateHandle]:
        batch = database.batch()
        batch.put(range_start(state, number) + b"key", b"%d of %d" % (number, subtask) * 100)
        database.write(batch)
        handles = []
        files = sets.snapshot(database).files
        assert files is not None
        for file in files.complete():
            path = f"{subtask}/{file.name}"
            self.files[path] = data = bytes(file.read())
            handles.append(
                StateHandle(
                    operator=OperatorId("totals"),
                    subtask=subtask,
                    state=files.state,
                    kind=StateKind.KEYED,
                    mode=PartMode.FILE,
                    size_bytes=len(data),
                    rows=0,
                    checksum=zlib.crc32(data),
                    path=path,
                    file=file.name,
                )
            )
        return handles


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path)


def groups_of(reads: DatabaseReads, files: list[StateHandle], deadline_s: float = 1e9) -> list[int]:
    (rows,) = reads.parts(files, "total", GROUPS, deadline_s, deciding=1)
    groups: list[int] = rows.column("key_group").to_pylist()
    return groups


def test_a_newer_checkpoint_copies_only_its_new_files(stored: Stored) -> None:
    reads = stored.reader()
    first, second, third = stored.written(0, 3)
    assert groups_of(reads, second) == [0, 1]
    assert groups_of(reads, third) == [0, 1, 2]
    assert groups_of(reads, first) == [0]
    assert len(stored.reads) == len(set(stored.reads))
    assert len(stored.reads) < len(first) + len(second) + len(third)
    assert reads.parts(first, "unknown", GROUPS, 1e9, deciding=1) == []


def test_copies_are_bounded(stored: Stored) -> None:
    sets = [stored.written(subtask, 1)[0] for subtask in range(5)]
    largest = max(sum(file.size_bytes for file in files) for files in sets)
    reads = stored.reader(2 * largest)
    for files in [*sets, *sets]:
        assert groups_of(reads, files) == [0]
        assert reads.copied_bytes <= 2 * largest
    assert groups_of(reads, sets[-2]) == [0]
    assert len(stored.reads) == 2 * sum(map(len, sets))
    with pytest.raises(ConfigurationError, match="a reader copies at most"):
        stored.reader(largest // 2).parts(sets[0], "total", GROUPS, 1e9, deciding=1)


def test_a_read_continues_the_copies_of_one_that_was_late(stored: Stored) -> None:
    reads = stored.reader()
    files = stored.written(0, 4)[-1]
    with pytest.raises(TransportError):
        groups_of(reads, files, deadline_s=1.5)
    assert groups_of(reads, files, deadline_s=1.5 + len(files)) == [0, 1, 2, 3]
    assert len(stored.reads) == len(files)


def test_a_file_cannot_be_written_elsewhere(stored: Stored) -> None:
    files = stored.written(0, 1)[0]
    named = msgspec.structs.replace(files[0], file="a-../../x")
    with pytest.raises(UnrestorableError, match="is not the name of a state file"):
        groups_of(stored.reader(), [named, *files[1:]])
