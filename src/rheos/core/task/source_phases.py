"""A slot's side of the phases of splits: it reports what it has read, and opens what it may."""

from __future__ import annotations

from collections.abc import Mapping

from rheos.core.operators.contract import Operator
from rheos.core.operators.source import SourceOperator
from rheos.core.protocol.control import OpenPhase, PhaseRead
from rheos.core.protocol.ids import Attempt, OperatorId


class PhaseReporter:
    """Reports of one slot, whose operators are open."""

    def __init__(
        self, attempt: Attempt, subtask: int, operators: Mapping[OperatorId, Operator]
    ) -> None:
        self._attempt = attempt
        self._subtask = subtask
        self._reported: dict[OperatorId, int] = {}
        self._sources: dict[OperatorId, SourceOperator] = {
            id: operator
            for id, operator in operators.items()
            if isinstance(operator, SourceOperator) and operator.waits_for_others
        }
        """Sources with a later phase, which other subtasks have to reach, too."""
        self.watches = bool(self._sources)

    def opened(self, message: OpenPhase) -> None:
        if message.operator in self._sources:
            self._sources[message.operator].open_phase(message.phase)

    def poll(self) -> list[PhaseRead]:
        """Return the news since the last call."""
        news = []
        for id, source in self._sources.items():
            phase = source.reached_phase()
            if phase > self._reported.get(id, 0):
                self._reported[id] = phase
                news.append(
                    PhaseRead(attempt=self._attempt, subtask=self._subtask, operator=id, phase=phase)
                )
        return news
