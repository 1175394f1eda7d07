"""The phase of the splits that an attempt's sources may open.

CP25: a split is opened only when all subtasks have read all splits of lower phases.
"""

from __future__ import annotations

from rheos.core.checkpoint.events import Action, SendToAll
from rheos.core.protocol.control import OpenPhase, PhaseRead
from rheos.core.protocol.ids import Attempt, OperatorId


class SourcePhases:
    """Phases of the sources in the running attempt. The phases that subtasks report only rise, so
    repeated reports are harmless."""

    def __init__(self) -> None:
        self._attempt = Attempt(0)
        self._parallelism = 0
        self._read: dict[OperatorId, dict[int, int]] = {}
        """Phase that each subtask has reached, by source and subtask."""
        self._open: dict[OperatorId, int] = {}

    def begin(self, attempt: Attempt, parallelism: int) -> None:
        """Record the start of an attempt; its subtasks report again."""
        self._attempt = attempt
        self._parallelism = parallelism
        self._read.clear()
        self._open.clear()

    def reported(self, event: PhaseRead) -> list[Action]:
        """Record the phases that a subtask has finished reading. Return the actions that open further
        phases."""
        read = self._read.setdefault(event.operator, {})
        read[event.subtask] = max(read.get(event.subtask, 0), event.phase)
        if len(read) < self._parallelism:
            return []
        phase = min(read.values())
        if phase <= self._open.get(event.operator, 0):
            return []
        self._open[event.operator] = phase
        return [SendToAll(OpenPhase(attempt=self._attempt, operator=event.operator, phase=phase))]
