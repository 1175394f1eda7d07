"""What only the driver can publish: which checkpoint is next, and when subtasks may be notified.

    entered in the log -> (waits for the one before) -> under way -> published -> announced
                                                          |   ^
                                                          +---+  tried again, a bounded number of times

Pure: the coordinator reports events and gets actions. A checkpoint lists again what those before it
listed and was not announced: so where several wait, the newest is published for all.
"""

from __future__ import annotations

from rheos.checkpoint.config import ExponentialDelay
from rheos.checkpoint.events import Action, PublishOnDriver, SendToAll
from rheos.checkpoint.log_entries import CheckpointCompleted
from rheos.checkpoint.restart import may_restart
from rheos.errors import RheosError
from rheos.protocol.control import CheckpointComplete
from rheos.protocol.ids import CheckpointId, OperatorId

PAUSES_MS = (100, 1000)
"""Before it is tried a second time, and a third."""


class Publishing:
    def __init__(self, on_driver: frozenset[OperatorId]) -> None:
        self._on_driver = on_driver
        self._waiting: list[CheckpointCompleted] = []
        """In the log, and not announced; the oldest first."""
        self._under_way: PublishOnDriver | None = None
        self._failures = 0
        """Of what waits at the head."""
        self._retry: tuple[int, PublishOnDriver] | None = None
        """When to try what failed again."""

    @property
    def under_way(self) -> bool:
        """Whether the driver is publishing: until it has answered, nothing else may be published, by
        recovery neither (CP29)."""
        return self._under_way is not None

    def retry_ms(self) -> int | None:
        return self._retry[0] if self._retry else None

    def entered(self, entry: CheckpointCompleted) -> list[Action]:
        """The checkpoint is in the log. CP28: it is announced to the subtasks at once only where it
        lists nothing that the driver has to publish before."""
        self._waiting.append(entry)
        return self._next()

    def published(self, checkpoint: CheckpointId) -> list[Action]:
        action = self._answered(checkpoint)
        self._failures = 0
        return [*self._announce(action.checkpoint), *self._next()]

    def failed(self, checkpoint: CheckpointId, error: RheosError, now_ms: int) -> RheosError | None:
        """The error, where it is not tried again: then the attempt fails of it."""
        action = self._answered(checkpoint)
        if not self._waiting:
            return None  # The attempt is over already.
        self._failures += 1
        if self._failures > len(PAUSES_MS) or not may_restart(ExponentialDelay(), error):
            return error
        self._retry = now_ms + PAUSES_MS[self._failures - 1], action
        return None

    def tick(self, now_ms: int) -> list[Action]:
        if self._retry is None or now_ms < self._retry[0]:
            return []
        _, self._under_way = self._retry
        self._retry = None
        return [self._under_way]

    def abandon(self) -> None:
        """The attempt is over, or the log is another's: nothing more is begun (CP30). Recovery
        publishes what the log holds."""
        self._waiting.clear()
        self._failures = 0
        self._retry = None

    def _answered(self, checkpoint: CheckpointId) -> PublishOnDriver:
        action = self._under_way
        assert action is not None, "CP29: one is published at a time"
        assert action.checkpoint == checkpoint, "CP29: in the order of checkpoints"
        self._under_way = None
        return action

    def _next(self) -> list[Action]:
        if self.under_way or self._retry is not None or not self._waiting:
            return []
        newest = self._waiting[-1]
        listed = tuple(handle for handle in newest.committables if handle.operator in self._on_driver)
        if not listed:
            return self._announce(newest.checkpoint)
        self._under_way = PublishOnDriver(newest.attempt, newest.checkpoint, listed)
        return [self._under_way]

    def _announce(self, up_to: CheckpointId) -> list[Action]:
        notices: list[Action] = [
            SendToAll(CheckpointComplete(attempt=entry.attempt, checkpoint=entry.checkpoint))
            for entry in self._waiting
            if entry.checkpoint <= up_to
        ]
        self._waiting = [entry for entry in self._waiting if entry.checkpoint > up_to]
        return notices
