"""Committer of a Delta table: the driver appends the files of a checkpoint in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import pyarrow as pa

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.delta.changed_files import KeyedChanges
from rheos.connectors.delta.copy_on_write import CopyOnWrite
from rheos.connectors.delta.delta_log import DeltaLog, DeltaTarget, lone_call, readable_columns
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.files.publication.contract import damaged
from rheos.connectors.table_log.epoch_append import (
    Append,
    StagedDataFile,
    TableVersion,
    UncertainAppendError,
    append_steps,
)
from rheos.connectors.table_log.execution import take
from rheos.connectors.table_log.staged_data_files import decoded_file, other_table, sink_id
from rheos.core.connectors.contract import Committer
from rheos.core.errors import UnrestorableError
from rheos.core.protocol.ids import Attempt, JobId


@dataclass(frozen=True)
class DeltaTableCommitter(Committer):
    target: DeltaTarget
    log: str = ""

    on_driver = True

    def of_log(self, log: str) -> DeltaTableCommitter:
        return replace(self, log=log)

    def commit(self, committables: Sequence[bytes]) -> None:
        files = [self._decoded(committable) for committable in committables]
        if files:
            log = DeltaLog(self.target, sink_id(self.log, files[0]), files[0].job)
            location, commit = self.target.location, self._upsert if self.target.key else self._append
            doing = f"write to the Delta table {location}"
            lone_call(location, doing, lambda progressed: commit(log, files, progressed))

    def _append(self, log: DeltaLog, files: Sequence[StagedDataFile], progressed: Progressed) -> None:
        take(append_steps(files), log)

    def _upsert(self, log: DeltaLog, files: Sequence[StagedDataFile], progressed: Progressed) -> None:
        """Write a version for each checkpoint, so that only its own changes are in memory."""
        folder = SinkFolder(self.target.location)
        for _, group in groupby(sorted(files, key=_age), key=lambda file: file.checkpoint):
            changes = list(group)
            take(append_steps(changes), UpsertLog(log, changes, progressed))
            for file in changes:  # No driver needs them any more: the sink's number is known (DL9).
                folder.remove(file.path)

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        """DL7: files that no version contains are left for the table's own VACUUM."""

    def _decoded(self, committable: bytes) -> StagedDataFile:
        file = decoded_file(committable)
        if len(file.partition) != (0 if file.key else len(self.target.partition_by)):
            raise damaged(f"the file {file.path!r} has {len(file.partition)} partition values")
        if (file.table, tuple(file.key)) != (self.target.identity, self.target.key):
            raise other_table(file, f"Delta table than {self.target.location}, or for another key")
        return file


def _age(file: StagedDataFile) -> tuple[int, int]:
    return file.checkpoint, file.order


class UpsertLog:
    """Executor of the actions of `append_steps` for the changes of one checkpoint."""

    def __init__(
        self, log: DeltaLog, changes: Sequence[StagedDataFile], progressed: Progressed
    ) -> None:
        self._log = log
        self._progressed = progressed
        self._changes = changes
        self._columns: pa.Schema | None = None
        self._files: CopyOnWrite | None = None

    def look(self) -> TableVersion:
        return self._log.look()

    def append(self, action: Append) -> None:
        table = action.snapshot.version
        columns = readable_columns(table, self._log.target.location)
        if self._files is None or columns != self._columns:
            self._columns = columns
            self._files = CopyOnWrite(
                KeyedChanges(self._log.target, columns, self._changes, self._progressed)
            )
        try:
            removed, added = self._files.on(self._log.live_files(table))
        except UnrestorableError as error:
            # Another driver has published the checkpoint, or another writer has replaced the file: the
            # next look shows it. If the file is lost, the last look raises the error (DL4).
            raise UncertainAppendError(error) from error
        self._log.write(table, action.checkpoint, added, removed)
