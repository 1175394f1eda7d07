"""The files of a job in its store: the log's entries and the files of state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from rheos.core.checkpoint.events import (
    AppendLog,
    Event,
    LogAppended,
    LogFailed,
    LogLost,
    LogRead,
    LogUnreadable,
    SweepFiles,
)
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.names import state_folder
from rheos.core.checkpoint.retention import stale
from rheos.core.errors import CheckpointError
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.ports import Completion, IoExecutor, Store

_SURELY_LEFT_S = 3600
"""Time in seconds after which no driver can still be writing an entry of the log."""


class StoredFiles:
    """The files of one job. `io` compacts the log; everything else blocks."""

    def __init__(self, store: Store, job: JobId, log_block: int, io: IoExecutor) -> None:
        self._store = store
        self._folder = state_folder(job)
        self._io = io
        self.log = JobLog(store, job, log_block)
        self._compaction: Completion[int] | None = None

    def read_log(self, free_slots: int | None) -> Event:
        """Read the log. `free_slots` is passed on in the event."""
        try:
            return LogRead(self.log.read(), free_slots)
        except CheckpointError as error:
            return LogUnreadable(error)

    def append(self, action: AppendLog) -> Event:
        """Add an entry to the log if its number is free."""
        try:
            if self.log.append(action.number, action.entry):
                return LogAppended(action.number)
            return LogLost(action.number)
        except CheckpointError as error:
            return LogFailed(action.number, error)

    def drop_entries(self, numbers: Iterable[int]) -> None:
        """Delete entries of the log. Those that cannot be deleted stay."""
        for number in numbers:
            with contextlib.suppress(CheckpointError):
                self.log.drop(number)

    def compact(self) -> bool:
        """Delete entries of the log that nothing needs (CP42), concurrently with the steps. If the
        store fails, the entries stay until the next block. Return whether a compaction has ended."""
        has_ended = self._compaction is not None and self._compaction.done()
        if self._compaction is not None and has_ended:
            with contextlib.suppress(CheckpointError):
                self.log.compacted(self._compaction.result())
            self._compaction = None
        if self._compaction is None and (work := self.log.compaction()) is not None:
            self._compaction = self._io.submit(work)
        return has_ended

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files of state. The sweep of the next attempt finds those that remain."""
        for path in paths:
            with contextlib.suppress(OSError):
                self._store.delete(path)

    def sweep(self, action: SweepFiles) -> None:
        """Delete what earlier attempts have left."""
        with contextlib.suppress(OSError):
            files = self._store.list(self._folder)
            self.delete(stale(files, action.attempt, action.keep, action.through))
            # Some of the attempt's own files are being written now.
            halves = self._store.unfinished(self._folder)
            self.delete(stale(halves, action.attempt, frozenset()))
            self.delete(self._store.unfinished(self.log.folder, _SURELY_LEFT_S))
