"""The splits that an attempt's subtasks have read, for sources in which some splits follow others.

CP48: a split is opened only when the splits that it follows have been read, in all subtasks.
"""

from __future__ import annotations

from rheos.core.checkpoint.events import Action, SendToAll
from rheos.core.protocol.control import SplitsEnded, SplitsRead
from rheos.core.protocol.ids import Attempt, OperatorId

_MOST_SPLITS = 500
"""Maximum number of splits in one message."""


class ReadSplits:
    """Splits that were read in the running attempt. Repeated reports are harmless."""

    def __init__(self) -> None:
        self._attempt = Attempt(0)
        self._parallelism = 0
        self._reporting: dict[OperatorId, set[int]] = {}
        """Subtasks that have reported, so that they receive messages."""
        self._unsent: dict[OperatorId, list[str]] = {}

    def begin(self, attempt: Attempt, parallelism: int) -> None:
        """Record the start of an attempt; its subtasks know what the checkpoint lists as read."""
        self._attempt = attempt
        self._parallelism = parallelism
        self._reporting.clear()
        self._unsent.clear()

    def reported(self, event: SplitsRead) -> list[Action]:
        """Record splits that a subtask has read. Return the actions that announce them to all."""
        reporting = self._reporting.setdefault(event.operator, set())
        reporting.add(event.subtask)
        unsent = self._unsent.setdefault(event.operator, [])
        unsent += event.splits
        if len(reporting) < self._parallelism:
            return []
        self._unsent[event.operator] = []
        return [
            SendToAll(
                SplitsEnded(
                    attempt=self._attempt,
                    operator=event.operator,
                    splits=unsent[at : at + _MOST_SPLITS],
                )
            )
            for at in range(0, len(unsent), _MOST_SPLITS)
        ]
