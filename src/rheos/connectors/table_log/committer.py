"""Committer of a table with a log: the driver publishes a checkpoint in transactions of the table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.files.publication.contract import damaged
from rheos.connectors.table_log.compaction_policy import Compaction
from rheos.connectors.table_log.compactor import compact
from rheos.connectors.table_log.epoch_append import StagedDataFile
from rheos.connectors.table_log.expirer import expire
from rheos.connectors.table_log.expiry_policy import VersionExpiry
from rheos.connectors.table_log.staged_data_files import decoded_file, other_table, sink_id
from rheos.connectors.table_log.target import TableTarget
from rheos.connectors.table_log.upserts import UpsertableLog, publish
from rheos.core.connectors.contract import Committer
from rheos.core.protocol.ids import Attempt, JobId

TargetT = TypeVar("TargetT", bound=TableTarget)


@dataclass(frozen=True)
class TableLogCommitter(Committer, Generic[TargetT]):
    target: TargetT
    compaction: Compaction | None = None
    """Policy by which small data files are merged after a commit."""
    expiry: VersionExpiry | None = None
    """Policy by which old versions are removed after a commit."""
    log: str = ""
    """The job's log, from which the sink's id is derived."""

    on_driver = True

    def of_log(self, log: str) -> Self:
        return replace(self, log=log)

    @abstractmethod
    def _opened_log(self, sink: str, job: str) -> UpsertableLog:
        """Return the table's log for the sink with an id."""

    @abstractmethod
    def _call(self, doing: str, work: Callable[[Progressed], None], sink: str) -> None:
        """Make a call with a time limit."""

    def commit(self, committables: Sequence[bytes]) -> None:
        files = [self._decoded(committable) for committable in committables]
        if files:
            sink = sink_id(self.log, files[0])
            log = self._opened_log(sink, files[0].job)
            doing = f"write to the {self.target.label}"
            self._call(doing, lambda progressed: self._publish(log, files, progressed), sink)

    def _publish(
        self, log: UpsertableLog, files: Sequence[StagedDataFile], progressed: Progressed
    ) -> None:
        before = publish(log, self.target, files, progressed)
        last = max(files, key=lambda file: file.checkpoint)
        if before is None:
            return
        name = self.target.name
        if self.compaction is not None and self.compaction.is_due(before, last.checkpoint):
            compact(log, name, self.compaction, last, progressed)
        if self.expiry is not None and self.expiry.is_due(before, last.checkpoint):
            expire(log, name, self.expiry, progressed)

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        """DL7, IC7: files that no version contains are left for the table's own cleaning."""

    def _decoded(self, committable: bytes) -> StagedDataFile:
        file = decoded_file(committable)
        if len(file.partition) != (0 if file.key else len(self.target.partitions)):
            raise damaged(f"the file {file.path!r} has {len(file.partition)} partition values")
        if (file.table, tuple(file.key)) != (self.target.identity, self.target.key):
            raise other_table(file, self.target.label)
        return file
