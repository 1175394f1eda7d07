"""Committer of an Iceberg table: the driver appends the files of a checkpoint in one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rheos.connectors.files.publication.contract import damaged
from rheos.connectors.iceberg.iceberg_log import IcebergLog, IcebergTarget, lone_call
from rheos.connectors.table_log.epoch_append import StagedDataFile, append_steps
from rheos.connectors.table_log.execution import take
from rheos.connectors.table_log.staged_data_files import decoded_file, other_table, sink_id
from rheos.core.connectors.contract import Committer
from rheos.core.protocol.ids import Attempt, JobId


@dataclass(frozen=True)
class IcebergTableCommitter(Committer):
    target: IcebergTarget
    log: str = ""
    """The job's log, from which the sink's id is derived."""

    on_driver = True

    def of_log(self, log: str) -> IcebergTableCommitter:
        return replace(self, log=log)

    def commit(self, committables: Sequence[bytes]) -> None:
        files = [self._decoded(committable) for committable in committables]
        if files:
            steps = append_steps(files)
            target, sink = self.target, sink_id(self.log, files[0])
            log = IcebergLog(target, sink)
            lone_call(target.catalog, target.name, "append to", lambda: take(steps, log), sink)

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        """IC7: files that no snapshot contains are left for the table's own cleaning."""

    def _decoded(self, committable: bytes) -> StagedDataFile:
        file = decoded_file(committable)
        if len(file.partition) != len(self.target.partitioning.names):
            raise damaged(f"the file {file.path!r} has {len(file.partition)} partition values")
        if file.table != self.target.identity:
            raise other_table(file, f"Iceberg table than {self.target.name}")
        return file
