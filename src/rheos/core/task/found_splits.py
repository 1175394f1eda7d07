"""A slot's side of the splits that are found while the job runs, and of those that are gone: it hands
them to their sources."""

from __future__ import annotations

from collections.abc import Mapping

from rheos.core.errors import TransportError
from rheos.core.operators.contract import Operator
from rheos.core.operators.source import SourceOperator
from rheos.core.protocol.control import SplitsFound, SplitsTaken
from rheos.core.protocol.ids import OperatorId


class FoundSplits:
    """Of one slot."""

    def __init__(self, subtask: int, operators: Mapping[OperatorId, Operator]) -> None:
        self._subtask = subtask
        self._operators = operators
        self._taken: dict[OperatorId, int] = {}
        """How many were sent of each source."""

    def take(self, message: SplitsFound) -> SplitsTaken:
        """Those that were sent before are ignored. Raises TransportError where some are missing: then
        the subtasks would not deal out the same (CP35); InputError, with the user's line, for one that
        comes too late."""
        taken = self._taken.get(message.operator, 0)
        if message.before > taken:
            raise TransportError(
                f"splits {taken} to {message.before} of source {message.operator!r} have not come"
            )
        source = self._operators[message.operator]
        assert isinstance(source, SourceOperator), "the driver watches sources"
        source.found(message.splits[taken - message.before :])
        source.gone(message.gone, whole=message.whole)
        taken = max(taken, message.before + len(message.splits))
        self._taken[message.operator] = taken
        return SplitsTaken(
            attempt=message.attempt, subtask=self._subtask, operator=message.operator, taken=taken
        )
