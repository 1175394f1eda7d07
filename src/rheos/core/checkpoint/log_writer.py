"""Adds entries to the log, one at a time (CP1).

Pure: an entry is sent as an action, and the answer arrives as an event.
"""

from __future__ import annotations

from rheos.core.checkpoint.events import AppendLog
from rheos.core.checkpoint.log_entries import CheckpointCompleted, LogEntry
from rheos.core.protocol.ids import CheckpointId


class LogWriter:
    """Adds the entries of one driver to the log."""

    def __init__(self) -> None:
        self.next_number: int | None = None
        """Number of the next entry, after this driver's last read or write; None before it first read
        the log."""
        self._entry: LogEntry | None = None

    @property
    def busy(self) -> bool:
        """Return whether an entry is being written. Then no other entry may be written."""
        return self._entry is not None

    @property
    def checkpoint(self) -> CheckpointId | None:
        """Return the checkpoint whose entry is being written."""
        return self._entry.checkpoint if isinstance(self._entry, CheckpointCompleted) else None

    def append(self, entry: LogEntry) -> AppendLog:
        assert self._entry is None, "CP1: one entry is written at a time"
        assert self.next_number is not None, "CP1: the log was read"
        self._entry = entry
        return AppendLog(self.next_number, entry)

    def answered(self, number: int) -> LogEntry:
        """Return the entry for which an answer has arrived. It may or may not be in the log."""
        entry = self._entry
        assert entry is not None, "CP1: an entry is being written"
        assert number == self.next_number, "CP1: the answer is to the entry that was given"
        self._entry = None
        return entry

    def appended(self, number: int) -> LogEntry:
        """Record that the entry is in the log, and return it."""
        entry = self.answered(number)
        self.next_number = number + 1
        return entry
