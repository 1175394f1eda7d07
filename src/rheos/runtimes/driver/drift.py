"""The event time of a source's slowest split over all subtasks, for which faster splits wait. Pure.

Each subtask reports the time of its own slowest split, and receives the minimum over all subtasks.
These times are slightly old, so they bound the drift only loosely. No result depends on them.
"""

from __future__ import annotations

from rheos.core.protocol.control import Align, SourceWatermark
from rheos.core.protocol.ids import OperatorId


class SourceDrift:
    """The drift of the sources in the running attempt."""

    def __init__(self) -> None:
        self._reached: dict[OperatorId, dict[int, int | None]] = {}
        """Last watermark in ms that each subtask reported, by source and subtask. None if it has no
        split, or all its splits are idle."""
        self._least: dict[OperatorId, int | None] = {}

    def begin(self) -> None:
        """Forget the reports of the previous attempt: the subtasks of a new one report again."""
        self._reached.clear()
        self._least.clear()

    def reported(self, event: SourceWatermark) -> list[Align]:
        """Return the messages to all subtasks that result from a report."""
        reached = self._reached.setdefault(event.operator, {})
        reached[event.subtask] = event.watermark_ms
        least = min((mark for mark in reached.values() if mark is not None), default=None)
        if least == self._least.get(event.operator):
            return []
        self._least[event.operator] = least
        return [Align(attempt=event.attempt, operator=event.operator, least_ms=least)]
