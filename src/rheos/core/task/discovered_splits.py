"""A slot's side of the splits that are found while the job runs, and of those that are gone: it hands
them to their sources."""

from __future__ import annotations

from collections.abc import Mapping

from rheos.core.errors import TransportError
from rheos.core.operators.contract import Operator
from rheos.core.operators.source import SourceOperator
from rheos.core.protocol.control import SplitsFound, SplitsTaken
from rheos.core.protocol.ids import OperatorId


class DiscoveredSplits:
    """The splits that one slot was sent at run time."""

    def __init__(self, subtask: int, operators: Mapping[OperatorId, Operator]) -> None:
        self._subtask = subtask
        self._operators = operators
        self._taken: dict[OperatorId, int] = {}
        """Number of splits that were sent, by source."""

    def take(self, message: SplitsFound) -> SplitsTaken:
        """Pass new splits to their source; ignore splits that were sent before. Raises TransportError
        if some are missing: the subtasks would then disagree about who reads them (CP35). Raises
        InputError, with the user's line, for a split that comes too late."""
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
