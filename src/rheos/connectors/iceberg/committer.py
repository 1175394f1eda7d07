"""Committer of an Iceberg table: the driver appends the files of a checkpoint in one snapshot."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from rheos.connectors.delta.committer import take
from rheos.connectors.delta.epoch_append import StagedDataFile, append_steps
from rheos.connectors.files.publication.contract import damaged
from rheos.connectors.iceberg.iceberg_log import IcebergLog, IcebergTarget, lone_call
from rheos.core.connectors.contract import Committer
from rheos.core.errors import UnrestorableError
from rheos.core.protocol.ids import Attempt, JobId

_decoder = msgspec.msgpack.Decoder(StagedDataFile)


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
            target, sink = self.target, self._sink(files[0])
            log = IcebergLog(target, sink)
            lone_call(target.catalog, target.name, "append to", lambda: take(steps, log), sink)

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        """IC7: files that no snapshot contains are left for the table's own cleaning."""

    def _sink(self, file: StagedDataFile) -> str:
        """Return the sink's id in the table (IC5)."""
        log = hashlib.sha256(self.log.encode()).hexdigest()[:12]
        return f"rheos/{file.job}/{file.operator}/{log}"

    def _decoded(self, committable: bytes) -> StagedDataFile:
        try:
            file = _decoder.decode(committable)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise damaged(str(error)) from error
        if "\0" in file.path or {"", ".", ".."} & set(file.path.split("/")):  # CP32
            raise damaged(f"the name of a data file is {file.path!r}")
        if len(file.partition) != len(self.target.partitioning.names):
            raise damaged(f"the file {file.path!r} has {len(file.partition)} partition values")
        if file.table != self.target.identity:
            raise UnrestorableError(
                f"{file.rows} rows are staged for another Iceberg table than {self.target.name}",
                hint="publish them with the unchanged job: start it once more, stop it with a "
                "savepoint, and start the changed program from there",
            )
        return file
