"""Tracks whether an attempt has read all that it can read in this run. Then the job stops.

CP39: a run over the input that exists when it begins stops when every subtask has caught up with every
source, and not before. CP47: any run stops when a reader cannot continue with this program.
"""

from __future__ import annotations

from rheos.core.protocol.control import CaughtUp, StopNeeded
from rheos.core.protocol.ids import OperatorId


class AvailableNow:
    """The subtasks of the running attempt that have caught up, by source. `sources` is empty if the job
    does not end by itself. A subtask that has caught up does not fall behind again in the run, so
    repeated reports are harmless."""

    def __init__(self, sources: frozenset[OperatorId]) -> None:
        self._sources = sources
        self._parallelism = 0
        self._caught_up: set[tuple[OperatorId, int]] = set()
        self.stop_reason: str | None = None
        """Reason for which a source cannot continue with this program."""

    def begin(self, parallelism: int) -> None:
        """Record the start of an attempt. Its subtasks read again, and report again."""
        self._parallelism = parallelism
        self._caught_up.clear()
        self.stop_reason = None

    def reported(self, event: CaughtUp) -> None:
        """Record that a subtask of the attempt has emitted all it has to read of a source."""
        if event.operator in self._sources:
            self._caught_up.add((event.operator, event.subtask))

    def stop_needed(self, event: StopNeeded) -> None:
        """Record that a source cannot continue."""
        self.stop_reason = self.stop_reason or event.reason

    @property
    def is_over(self) -> bool:
        """Return whether the job must stop with its next checkpoint."""
        return self.stop_reason is not None or self.all_read

    @property
    def all_read(self) -> bool:
        """Return whether every subtask has caught up with every source."""
        wanted = len(self._sources) * self._parallelism
        return wanted > 0 and len(self._caught_up) == wanted
