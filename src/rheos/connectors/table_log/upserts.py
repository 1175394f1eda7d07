"""Upserts into a table with a log, and appends to it: each checkpoint once.

A version applies the changes of one checkpoint, or of several that wait: a slow table then gets fewer
versions instead of a longer queue. Only these changes are in memory (DL8, IC8).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Protocol

import pyarrow as pa

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.table_log.changed_files import KeyedChanges
from rheos.connectors.table_log.copy_on_write import CopyOnWrite
from rheos.connectors.table_log.epoch_append import (
    Append,
    StagedDataFile,
    TableVersion,
    UncertainAppendError,
    append_steps,
)
from rheos.connectors.table_log.execution import TableLog, take
from rheos.connectors.table_log.expiry_policy import VersionExpiry
from rheos.connectors.table_log.table_files import LiveFile, TableFiles
from rheos.connectors.table_log.target import TableTarget
from rheos.core.errors import UnrestorableError

MOST_ROWS = 200_000
"""Rows of changes that one version applies at most, unless a single checkpoint has more. Their keys are
in memory."""


class UpsertableLog(TableLog, Protocol):
    """Log of a table whose files a transaction can replace."""

    def files(self, version: Any) -> TableFiles:
        """Return the data files of a version."""

    def live_files(self, version: Any) -> list[LiveFile]:
        """Return descriptions of the data files of a version."""

    def write(
        self,
        version: Any,
        checkpoint: int | None,
        added: Sequence[StagedDataFile],
        removed: Sequence[LiveFile] = (),
    ) -> None:
        """Write the version that follows another one (DL2, IC2).

        Args:
            version: the version that it follows.
            checkpoint: the sink's number in the new version; None for a compaction, which leaves the
                number and the rows as they are.
            added: files that the new version has.
            removed: files of the earlier version that it does not have.

        Raises:
            UncertainAppendError: another writer was first, or the outcome is unknown.
        """

    def expire(self, policy: VersionExpiry, now_ms: int, progressed: Progressed) -> int:
        """Remove old versions of the table, and return the number of deleted files (DL12, IC12).

        Args:
            policy: the policy.
            now_ms: the current time.
            progressed: called after each step of bounded size.

        Raises:
            RheosError: the table cannot be read, or forbids it.
        """


def publish(
    log: UpsertableLog, target: TableTarget, files: Sequence[StagedDataFile], progressed: Progressed
) -> int | None:
    """Append data files to the table, or apply files of changes to it.

    Args:
        log: the log of the table.
        target: the table.
        files: what a checkpoint in the job's log lists.
        progressed: called after each step of bounded size.

    Returns:
        The sink's number before; None if nothing was missing.

    Raises:
        RheosError: the errors of `append_steps` and of the log.
    """
    if not target.key:
        return take(append_steps(files), log)
    before: int | None = None
    folder = SinkFolder(target.folder)
    for changes in together(files):
        number = take(append_steps(changes), _Upsert(log, progressed))
        before = number if before is None else before
        for file in changes:  # No driver needs them any more: the sink's number is known (DL9, IC9).
            folder.remove(file.path)
    return before


def together(files: Sequence[StagedDataFile], most_rows: int = MOST_ROWS) -> list[list[StagedDataFile]]:
    """Return the files of changes in the order of their age, in groups that one version applies.

    Args:
        files: files of changes.
        most_rows: rows of a group, unless a single checkpoint has more.

    Returns:
        Groups of whole checkpoints.
    """
    groups: list[list[StagedDataFile]] = []
    rows = 0
    for _, of_checkpoint in groupby(sorted(files, key=_age), key=lambda file: file.checkpoint):
        changes = list(of_checkpoint)
        further = sum(file.rows for file in changes)
        if not groups or rows + further > most_rows:
            groups.append([])
            rows = 0
        groups[-1] += changes
        rows += further
    return groups


def _age(file: StagedDataFile) -> tuple[int, int]:
    return file.checkpoint, file.order


class _Upsert:
    """Executor of the actions of `append_steps` for changes."""

    def __init__(self, log: UpsertableLog, progressed: Progressed) -> None:
        self._log = log
        self._progressed = progressed
        self._changes: tuple[StagedDataFile, ...] = ()
        self._columns: pa.Schema | None = None
        self._rewriting: CopyOnWrite | None = None

    def look(self) -> TableVersion:
        return self._log.look()

    def append(self, action: Append) -> None:
        version = action.snapshot.version
        files = self._log.files(version)
        known = self._rewriting is not None and self._changes == action.files
        if not known or not files.columns.equals(self._columns, check_metadata=True):
            self._columns, self._changes = files.columns, action.files
            self._rewriting = CopyOnWrite(KeyedChanges(files, self._changes, self._progressed))
        assert self._rewriting is not None
        try:
            removed, added = self._rewriting.on(self._log.live_files(version))
        except UnrestorableError as error:
            # Another driver has published the checkpoint, or another writer has replaced the file: the
            # next look shows it. If the file is lost, the last look raises the error (DL4).
            raise UncertainAppendError(error) from error
        self._log.write(version, action.checkpoint, added, removed)
