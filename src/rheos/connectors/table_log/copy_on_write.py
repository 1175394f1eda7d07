"""Choice of the data files that a transaction replaces to change rows by their keys: copy on write.

A data file never changes. So a file with a row of a changed key is removed, and new files have its
other rows, together with the newest row of each changed key. This module decides which files to examine
and replace, also after another writer was first. `ChangedFiles` reads and writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rheos.connectors.table_log.epoch_append import StagedDataFile
from rheos.connectors.table_log.table_files import LiveFile


class ChangedFiles(Protocol):
    """Data files of the table, and the changes that one version applies."""

    def touched(self, files: Sequence[LiveFile]) -> list[LiveFile]:
        """Return the files that have a row with a changed key."""

    def rewrite(self, files: Sequence[LiveFile], *, with_changes: bool) -> list[StagedDataFile]:
        """Write new files with the rows of touched files whose keys are unchanged, and with the newest
        rows of the changed keys if `with_changes`."""

    def drop(self, files: Sequence[StagedDataFile]) -> None:
        """Remove new files that no version has or will have."""


class CopyOnWrite:
    """The files that one transaction removes and adds. The work for one version is used for the next,
    if another writer was first and changed none of the replaced files."""

    def __init__(self, changed: ChangedFiles) -> None:
        self._changed = changed
        self._begin()

    def _begin(self) -> None:
        self._examined: set[str] = set()
        self._removed: list[LiveFile] = []
        self._added: list[StagedDataFile] | None = None
        """New files; None before the changes are written."""

    def on(self, live: Sequence[LiveFile]) -> tuple[list[LiveFile], list[StagedDataFile]]:
        """Return the files to remove from a version, and those to add to it (DL8).

        Args:
            live: all data files of the version.
        """
        paths = {file.path for file in live}
        if any(file.path not in paths for file in self._removed):
            # Another writer has replaced one of them, in a version after the one that the last
            # transaction was based on. So that transaction can never take effect (DL2).
            self._changed.drop(self._added or [])
            self._begin()
        touched = self._changed.touched([file for file in live if file.path not in self._examined])
        self._examined |= paths
        if touched or self._added is None:
            first = self._added is None
            self._added = [*(self._added or []), *self._changed.rewrite(touched, with_changes=first)]
            self._removed += touched
        return list(self._removed), list(self._added)
