"""Committer of staged epochs. In a task it commits those of its own writer, in a driver that recovers
those of all writers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from rheos.connectors.calls.outside_calls import carried
from rheos.connectors.kafka.client_options import ClientOptions
from rheos.connectors.kafka.epoch_commits import IfUnknown
from rheos.connectors.kafka.staged_epochs import StagedEpoch, StagedEpochs, decode_epoch
from rheos.connectors.kafka.transactions import Transactions
from rheos.core.connectors.contract import Committer
from rheos.core.protocol.ids import Attempt, JobId
from rheos.core.redaction import redacted_repr

_AT_ONCE = 8


@dataclass(frozen=True, repr=False)
class EpochCommitter(Committer):
    options: ClientOptions
    folder: str
    if_unknown: IfUnknown
    own: tuple[str, Transactions] | None = None
    """Name of the writer and its connection, in a committer of a task."""

    __repr__ = redacted_repr

    def commit(self, committables: Sequence[bytes]) -> None:
        by_writer: dict[str, list[StagedEpoch]] = {}
        for epoch in map(decode_epoch, committables):
            by_writer.setdefault(epoch.writer, []).append(epoch)
        if len(by_writer) == 1:
            for epochs in by_writer.values():
                self._commit(epochs)
            return
        # A driver that recovers has one writer per subtask, and each takes several round trips.
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="rheos-kafka") as threads:
            commits = [carried(partial(self._commit, epochs)) for epochs in by_writer.values()]
            for commit in [threads.submit(each) for each in commits]:
                commit.result()

    def _commit(self, epochs: Sequence[StagedEpoch]) -> None:
        """Commit epochs of one writer."""
        with self._transactions(epochs[0]) as transactions:
            transactions.commit(epochs, StagedEpochs(self.folder))

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        StagedEpochs(self.folder).clear(before, list(map(decode_epoch, keep)))

    @contextlib.contextmanager
    def _transactions(self, epoch: StagedEpoch) -> Iterator[Transactions]:
        if self.own is not None and self.own[0] == epoch.writer:
            yield self.own[1]
            return
        # Epochs staged for another topic, before the program was changed, go to that topic.
        transactions = Transactions(epoch.writer, epoch.topic, self.options, self.if_unknown)
        try:
            yield transactions
        finally:
            transactions.close()
