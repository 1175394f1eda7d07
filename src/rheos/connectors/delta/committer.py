"""Committer of a Delta table: the driver publishes the files of a checkpoint in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.delta.delta_log import DeltaLog
from rheos.connectors.delta.delta_table import DeltaTarget, lone_call
from rheos.connectors.table_log.committer import TableLogCommitter


@dataclass(frozen=True)
class DeltaTableCommitter(TableLogCommitter[DeltaTarget]):
    def _opened_log(self, sink: str, job: str) -> DeltaLog:
        return DeltaLog(self.target, sink, job)

    def _call(self, doing: str, work: Callable[[Progressed], None], sink: str) -> None:
        lone_call(self.target.folder, doing, work)
