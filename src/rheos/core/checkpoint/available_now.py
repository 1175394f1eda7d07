"""Whether an attempt has read all that was there when the run began: then the job stops.

CP39: a run as of now stops when every subtask has caught up with every source, and not before.
"""

from __future__ import annotations

from rheos.core.protocol.control import CaughtUp
from rheos.core.protocol.ids import OperatorId


class AvailableNow:
    """Tracks which sources of the running attempt have caught up. `sources` is empty if the job does
    not end by itself. A source that has caught up stays so for the run, so repeated reports are
    harmless."""

    def __init__(self, sources: frozenset[OperatorId]) -> None:
        self._sources = sources
        self._parallelism = 0
        self._caught_up: set[tuple[OperatorId, int]] = set()

    def begin(self, parallelism: int) -> None:
        """An attempt is started: its subtasks read again, and say so again."""
        self._parallelism = parallelism
        self._caught_up.clear()

    def reported(self, event: CaughtUp) -> None:
        """A subtask of the attempt has given all that it has of a source."""
        if event.operator in self._sources:
            self._caught_up.add((event.operator, event.subtask))

    @property
    def all_read(self) -> bool:
        """Whether the job is to stop with its next checkpoint."""
        wanted = len(self._sources) * self._parallelism
        return wanted > 0 and len(self._caught_up) == wanted
