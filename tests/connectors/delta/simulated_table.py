"""A table with a log, in memory: versions that follow each other, and the files and numbers of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from rheos.connectors.table_log.epoch_append import (
    Append,
    StagedDataFile,
    TableVersion,
    UncertainAppendError,
)
from rheos.core.errors import UnavailableError


@dataclass(frozen=True)
class Version:
    files: dict[str, tuple[str, ...]]
    """Rows of the live files, by path."""
    numbers: dict[str, int]


@dataclass
class SimulatedTable:
    versions: list[Version] = field(default_factory=lambda: [Version({}, {})])
    conditional: bool = True
    """Whether an append fails if its version exists."""

    def look(self, sink: str) -> TableVersion:
        newest = self.versions[-1]
        return TableVersion(newest.numbers.get(sink, 0), len(self.versions))

    def append(self, sink: str, action: Append) -> None:
        if self.conditional and action.snapshot.version != len(self.versions):
            raise UncertainAppendError(UnavailableError("the version exists"))
        newest = self.versions[-1]
        files = newest.files | {file.path: (file.path,) for file in action.files}
        self.versions.append(Version(files, newest.numbers | {sink: action.checkpoint}))

    # --- other writers ----------------------------------------------------------------------------

    def write(self, row: str) -> None:
        newest = self.versions[-1]
        self.versions.append(Version(newest.files | {row: (row,)}, newest.numbers))

    def compact(self, random: Random) -> None:
        """Replace some files by one with their rows."""
        newest = self.versions[-1]
        merged = [path for path in newest.files if random.random() < 0.6]
        rows = tuple(row for path in merged for row in newest.files[path])
        kept = {path: rows for path, rows in newest.files.items() if path not in merged}
        made = {f"compacted {len(self.versions)}": rows} if rows else {}
        self.versions.append(Version(kept | made, newest.numbers))

    def rows(self) -> list[str]:
        return [row for rows in self.versions[-1].files.values() for row in rows]


def data_file(path: str, checkpoint: int, job: str = "job") -> StagedDataFile:
    return StagedDataFile("table", job, "sink", checkpoint, path, 1, 1, [], "{}")
