"""Adds entries to the log, one at a time (CP1).

Pure: an entry goes out as an action, and its answer comes back as an event.
"""

from __future__ import annotations

from rheos.core.checkpoint.events import AppendLog
from rheos.core.checkpoint.log_entries import CheckpointCompleted, LogEntry
from rheos.core.protocol.ids import CheckpointId


class LogWriter:
    """Adds the entries of one driver to the log."""

    def __init__(self) -> None:
        self.next_number: int | None = None
        """As far as this driver has read or written; None before it first continued the log."""
        self._entry: LogEntry | None = None

    @property
    def busy(self) -> bool:
        """Whether an entry is being written: then no other may be."""
        return self._entry is not None

    @property
    def checkpoint(self) -> CheckpointId | None:
        """The checkpoint that is being entered."""
        return self._entry.checkpoint if isinstance(self._entry, CheckpointCompleted) else None

    def append(self, entry: LogEntry) -> AppendLog:
        assert self._entry is None, "CP1: one entry is written at a time"
        assert self.next_number is not None, "CP1: the log was read"
        self._entry = entry
        return AppendLog(self.next_number, entry)

    def answered(self, number: int) -> LogEntry:
        """The entry that the answer is to; nothing is known of whether it is there."""
        entry = self._entry
        assert entry is not None, "CP1: an entry is being written"
        assert number == self.next_number, "CP1: the answer is to the entry that was given"
        self._entry = None
        return entry

    def appended(self, number: int) -> LogEntry:
        """It is in the log."""
        entry = self.answered(number)
        self.next_number = number + 1
        return entry
