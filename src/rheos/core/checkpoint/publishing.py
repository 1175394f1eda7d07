"""Publications that only the driver can make: which checkpoint each such sink publishes next.

    entered in the log -> (waits for the one before) -> running -> published
                                                          |   ^
                                                          +---+  retried

Each sink is published separately, so an unavailable target does not delay other sinks. A publication
that fails because its target is unavailable (`UnavailableError`) is retried until it succeeds. Any
other error is retried a bounded number of times, and then fails the attempt.

Pure: the coordinator reports events and receives actions. A checkpoint repeats the unpublished
committables of those before it. So if several wait, publishing the newest publishes all.
"""

from __future__ import annotations

from rheos.core.checkpoint.config import ExponentialDelay
from rheos.core.checkpoint.events import Action, PublishOnDriver, SendToAll
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.restart import may_restart
from rheos.core.connectors.backoff import Backoff
from rheos.core.errors import RheosError, UnavailableError
from rheos.core.protocol.control import CheckpointComplete, SinkPublished
from rheos.core.protocol.ids import CheckpointId, OperatorId

PAUSES_MS = (100, 1000)
"""Pauses before the second and the third try, after an error that is not an UnavailableError."""
_FOR_EVER_US = 1 << 62


class Publishing:
    """The publications of all sinks that the driver publishes."""

    def __init__(self, on_driver: frozenset[OperatorId]) -> None:
        self._sinks = {operator: _SinkPublications(operator) for operator in sorted(on_driver)}

    @property
    def under_way(self) -> bool:
        """Return whether a publication is running. Recovery must not publish meanwhile (CP29)."""
        return any(sink.under_way is not None for sink in self._sinks.values())

    def retry_ms(self) -> int | None:
        """Return when the next retry is due, on the monotonic clock; None if none is."""
        due = (sink.retry[0] for sink in self._sinks.values() if sink.retry is not None)
        return min(due, default=None)

    def failing(self) -> dict[OperatorId, RheosError]:
        """Return the newest error of each sink whose publication is being retried."""
        return {
            operator: sink.error for operator, sink in self._sinks.items() if sink.error is not None
        }

    def entered(self, entry: CheckpointCompleted) -> list[Action]:
        """Announce a checkpoint that is in the log, and publish what it lists for the driver."""
        actions: list[Action] = [
            SendToAll(CheckpointComplete(attempt=entry.attempt, checkpoint=entry.checkpoint))
        ]
        for sink in self._sinks.values():
            actions += sink.entered(entry)
        return actions

    def published(self, operator: OperatorId, checkpoint: CheckpointId) -> list[Action]:
        """Notify the subtasks (CP28), and start the publication that has waited for this one."""
        return self._sinks[operator].published(checkpoint)

    def failed(
        self, operator: OperatorId, checkpoint: CheckpointId, error: RheosError, now_ms: int
    ) -> RheosError | None:
        """Record a failed publication. Return the error if it fails the attempt, without a retry."""
        return self._sinks[operator].failed(checkpoint, error, now_ms)

    def tick(self, now_ms: int) -> list[Action]:
        """Start the retries that are due."""
        return [action for sink in self._sinks.values() for action in sink.tick(now_ms)]

    def abandon(self) -> None:
        """Start no further publications (CP30): the attempt has ended, or another driver owns the log.
        Recovery publishes what the log lists."""
        for sink in self._sinks.values():
            sink.abandon()


class _SinkPublications:
    """The publications of one sink, one at a time, in the order of checkpoints."""

    def __init__(self, operator: OperatorId) -> None:
        self._operator = operator
        self._waiting: PublishOnDriver | None = None
        """Newest checkpoint with committables whose publication has not begun."""
        self.under_way: PublishOnDriver | None = None
        self._is_over = False
        """Whether the attempt of the running publication has ended."""
        self._failures = 0
        self._back_off = Backoff(_FOR_EVER_US, first_us=PAUSES_MS[0] * 1000)
        self.retry: tuple[int, PublishOnDriver] | None = None
        """The failed publication, and the time of its retry."""
        self.error: RheosError | None = None
        """Error of the publication that is retried."""

    def entered(self, entry: CheckpointCompleted) -> list[Action]:
        listed = tuple(each for each in entry.committables if each.operator == self._operator)
        if not listed:
            return []
        self._waiting = PublishOnDriver(entry.attempt, entry.checkpoint, self._operator, listed)
        return self._next()

    def published(self, checkpoint: CheckpointId) -> list[Action]:
        action = self._answered(checkpoint)
        self._restore()
        if self._is_over:
            return []
        notice = SinkPublished(
            attempt=action.attempt, operator=self._operator, checkpoint=action.checkpoint
        )
        return [SendToAll(notice), *self._next()]

    def failed(self, checkpoint: CheckpointId, error: RheosError, now_ms: int) -> RheosError | None:
        action = self._answered(checkpoint)
        if self._is_over:
            return None
        if isinstance(error, UnavailableError):
            pause_us = self._back_off.failed(now_ms * 1000)
            assert pause_us is not None, "a sink retries an unavailable target forever"
            pause_ms = pause_us // 1000
        else:
            self._failures += 1
            if self._failures > len(PAUSES_MS) or not may_restart(ExponentialDelay(), error):
                return error
            pause_ms = PAUSES_MS[self._failures - 1]
        self.retry = now_ms + pause_ms, action
        self.error = error
        return None

    def tick(self, now_ms: int) -> list[Action]:
        if self.retry is None or now_ms < self.retry[0]:
            return []
        _, self.under_way = self.retry
        self.retry = None
        self._is_over = False
        return [self.under_way]

    def abandon(self) -> None:
        self._waiting = self.retry = None
        self._is_over = True
        self._restore()

    def _restore(self) -> None:
        self._failures = 0
        self._back_off.restore()
        self.error = None

    def _answered(self, checkpoint: CheckpointId) -> PublishOnDriver:
        action = self.under_way
        assert action is not None, "CP29: one is published at a time"
        assert action.checkpoint == checkpoint, "CP29: in the order of checkpoints"
        self.under_way = None
        return action

    def _next(self) -> list[Action]:
        if self.under_way is not None or self.retry is not None or self._waiting is None:
            return []
        self.under_way, self._waiting = self._waiting, None
        self._is_over = False
        return [self.under_way]
