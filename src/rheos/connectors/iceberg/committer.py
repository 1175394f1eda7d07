"""Committer of an Iceberg table: the driver publishes the files of a checkpoint in one commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.iceberg.iceberg_log import IcebergLog
from rheos.connectors.iceberg.iceberg_table import IcebergTarget, lone_call
from rheos.connectors.table_log.committer import TableLogCommitter


@dataclass(frozen=True)
class IcebergTableCommitter(TableLogCommitter[IcebergTarget]):
    def _opened_log(self, sink: str, job: str) -> IcebergLog:
        return IcebergLog(self.target, sink, job)

    def _call(self, doing: str, work: Callable[[Progressed], None], sink: str) -> None:
        lone_call(self.target.catalog, self.target.name, doing, work, sink)
