"""Where the slowest split of a source is, over all subtasks, so that those that are ahead wait for it.

Pure. Subtasks report where their own slowest split is, and hear of the least of all. What is known is a
little behind, so it bounds the drift only loosely, and no result depends on it.
"""

from __future__ import annotations

from rheos.core.protocol.control import Align, Reached
from rheos.core.protocol.ids import OperatorId


class SourceDrift:
    """Of the attempt that runs."""

    def __init__(self) -> None:
        self._reached: dict[OperatorId, dict[int, int | None]] = {}
        """By source and subtask; None where it has no split that counts."""
        self._least: dict[OperatorId, int | None] = {}

    def begin(self) -> None:
        """An attempt is started: its subtasks report again."""
        self._reached.clear()
        self._least.clear()

    def reported(self, event: Reached) -> list[Align]:
        """What all subtasks are to hear of it."""
        reached = self._reached.setdefault(event.operator, {})
        reached[event.subtask] = event.watermark_ms
        least = min((mark for mark in reached.values() if mark is not None), default=None)
        if least == self._least.get(event.operator):
            return []
        self._least[event.operator] = least
        return [Align(attempt=event.attempt, operator=event.operator, least_ms=least)]
