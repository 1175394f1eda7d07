"""A slot's side of a run as of now: it reports the sources of which it has given all."""

from __future__ import annotations

from collections.abc import Mapping

from rheos.core.operators.contract import Operator
from rheos.core.operators.source import SourceOperator
from rheos.core.protocol.control import CaughtUp
from rheos.core.protocol.ids import Attempt, OperatorId


class CaughtUpReporter:
    """Reports of one slot, whose operators are open."""

    def __init__(
        self, attempt: Attempt, subtask: int, operators: Mapping[OperatorId, Operator]
    ) -> None:
        self._attempt = attempt
        self._subtask = subtask
        self._reading = {
            id: operator
            for id, operator in operators.items()
            if isinstance(operator, SourceOperator) and operator.until_now
        }
        """Sources that have not returned all rows yet."""
        self.watches = bool(self._reading)

    def poll(self) -> list[CaughtUp]:
        """Return the news since the last call."""
        news = [id for id, source in self._reading.items() if source.has_caught_up()]
        for id in news:
            del self._reading[id]
        return [CaughtUp(attempt=self._attempt, subtask=self._subtask, operator=id) for id in news]
