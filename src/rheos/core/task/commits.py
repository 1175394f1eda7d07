"""The second phase of sinks in a subtask: their staged output, and its commit once its checkpoint is in
the log.

Each sink commits separately, so an unavailable target does not delay the others. A commit that fails
because the target is unavailable (`UnavailableError`) is retried until it succeeds; rows and
checkpoints continue meanwhile. Any other error fails the attempt, and recovery commits what the log
contains.

Staged output is kept here, and is listed in every acknowledgement, until its commit has succeeded. So a
checkpoint in the log always contains everything that is staged and not yet published.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from rheos.core.connectors.backoff import Backoff
from rheos.core.errors import UnavailableError
from rheos.core.operators.contract import CommittingOperator, Operator
from rheos.core.operators.runtime_context import Distribution
from rheos.core.protocol.control import CommittableHandle
from rheos.core.protocol.ids import CheckpointId, OperatorId
from rheos.core.protocol.ports import Completion, IoExecutor
from rheos.core.task.deadlines import earlier

LOGGER = logging.getLogger("rheos.sinks")

_FIRST_RETRY_US = 100_000
_LONGEST_RETRY_US = 1_000_000
_FOR_EVER_US = 1 << 62
_NONE = CheckpointId(0)


class Committing:
    """The commits of all sinks of a subtask."""

    def __init__(
        self, operators: Mapping[OperatorId, Operator], io: IoExecutor, now_us: Callable[[], int]
    ) -> None:
        """Create the commits of the sinks among `operators`.

        Args:
            operators: all operators of the subtask, by id. Entries may be added until the first call.
            io: runs the commits, one at a time for each sink.
            now_us: the monotonic clock, in microseconds.
        """
        self._operators = operators
        self._io = io
        self._now_us = now_us
        self._sinks: dict[OperatorId, SinkCommits] = {}
        self._requested = _NONE
        self._reported = _NONE
        self.at: OperatorId | None = None
        """Sink whose commits are being handled."""

    @property
    def sinks(self) -> Mapping[OperatorId, SinkCommits]:
        """Return the sinks that have staged something since the attempt began."""
        return self._sinks

    def stage(self, checkpoint: CheckpointId, operator: OperatorId, committables: list[bytes]) -> None:
        """Record what a sink staged at the barrier of the checkpoint."""
        if not committables:
            return
        if operator not in self._sinks:
            sink = self._operators[operator]
            assert isinstance(sink, CommittingOperator)
            self._sinks[operator] = SinkCommits(sink, self._io, self._now_us)
        self._sinks[operator].stage(checkpoint, committables)

    def staged(self, up_to: CheckpointId) -> list[CommittableHandle]:
        """Return everything that is staged up to the checkpoint and not known to be committed."""
        return [
            CommittableHandle(operator, payload)
            for operator, sink in self._sinks.items()
            for payload in sink.staged(up_to)
        ]

    def complete(self, checkpoint: CheckpointId) -> None:
        """Commit everything staged up to the checkpoint, which is in the log. Output that the driver
        publishes waits for `published`."""
        if checkpoint <= self._requested:
            return
        self._requested = checkpoint
        for sink in self._visit_sinks():
            sink.complete(checkpoint)

    def published(self, operator: OperatorId, checkpoint: CheckpointId) -> None:
        """Commit what the sink staged up to the checkpoint, after the driver has published it."""
        for sink in self._visit_sinks():
            if self.at == operator:
                sink.request(checkpoint)

    def poll(self) -> CheckpointId | None:
        """Return the checkpoint up to which all sinks have committed, if it has risen since the last
        call. Start retries that are due. Raise the error of a failed commit, unless it is retried."""
        for operator, sink in self._sinks.items():  # Each turn calls this: not by `_visit_sinks`.
            self.at = operator
            sink.poll()
        self.at = None
        requested = self._requested
        committed = min([requested, *(sink.done_up_to(requested) for sink in self._sinks.values())])
        if committed <= self._reported:
            return None
        self._reported = committed
        return committed

    def _visit_sinks(self) -> Iterator[SinkCommits]:
        """Yield each sink, with `at` set to it while it is handled."""
        try:
            for operator, sink in self._sinks.items():
                self.at = operator
                yield sink
        finally:
            self.at = None

    def next_us(self) -> int | None:
        """Return when the next retry is due, on the monotonic clock; None if none is."""
        next_us: int | None = None
        for sink in self._sinks.values():
            next_us = earlier(next_us, sink.retry_at_us)
        return next_us


class SinkCommits:
    """The commits of one sink in one subtask: one at a time, in the order of checkpoints."""

    def __init__(self, sink: CommittingOperator, io: IoExecutor, now_us: Callable[[], int]) -> None:
        self._sink = sink
        self._io = io
        self._now_us = now_us
        self._staged: dict[CheckpointId, list[bytes]] = {}
        self._requested = _NONE
        self._complete_us: dict[CheckpointId, int] = {}
        """Time of the request for each staged checkpoint that the log contains."""
        self._running: tuple[CheckpointId, Completion[None]] | None = None
        self._back_off = Backoff(_FOR_EVER_US, first_us=_FIRST_RETRY_US, longest_us=_LONGEST_RETRY_US)
        self.retry_at_us: int | None = None
        """Time of the next retry of a failed commit; None if no retry is due."""
        self._began_us = 0
        self._published_us = now_us()
        self.commits = 0
        """Number of commits that succeeded since the attempt began."""
        self.took_ms = Distribution()
        """Duration of the commits that succeeded, retries excluded."""

    def stage(self, checkpoint: CheckpointId, committables: list[bytes]) -> None:
        """Record what the sink staged at the barrier of the checkpoint."""
        self._staged.setdefault(checkpoint, []).extend(committables)

    def staged(self, up_to: CheckpointId) -> list[bytes]:
        """Return what is staged up to the checkpoint, oldest first."""
        return [
            payload
            for checkpoint in sorted(self._staged)
            if checkpoint <= up_to
            for payload in self._staged[checkpoint]
        ]

    def complete(self, checkpoint: CheckpointId) -> None:
        """Record that the checkpoint is in the log. Commit it, unless the driver must publish first."""
        now_us = self._now_us()
        for complete in self._staged:
            if complete <= checkpoint:
                self._complete_us.setdefault(complete, now_us)
        if not self._sink.published_by_driver:
            self.request(checkpoint)

    def request(self, checkpoint: CheckpointId) -> None:
        """Commit everything staged up to the checkpoint, as soon as no other commit runs."""
        self._requested = checkpoint
        if self._running is None and self.retry_at_us is None:
            self._start()

    def done_up_to(self, requested: CheckpointId) -> CheckpointId:
        """Return the newest checkpoint, at most `requested`, up to which everything is committed."""
        oldest = min(self._staged, default=None)
        return requested if oldest is None else min(requested, CheckpointId(oldest - 1))

    def waiting(self) -> int:
        """Return the number of complete checkpoints whose output is not yet published."""
        return len(self._complete_us)

    def since_published_ms(self) -> float:
        """Return the time since the last successful commit, or since the sink first staged."""
        return (self._now_us() - self._published_us) / 1000

    def unpublished_ms(self) -> float:
        """Return how long the output of the oldest complete checkpoint has waited for publication."""
        since_us = min(self._complete_us.values(), default=self._now_us())
        return (self._now_us() - since_us) / 1000

    def poll(self) -> None:
        """Process the outcome of a commit, and start the next one that is due."""
        if self._running is None:
            if self.retry_at_us is not None and self._now_us() >= self.retry_at_us:
                self._start()
            return
        checkpoint, completion = self._running
        if not completion.done():
            return
        self._running = None
        now_us = self._now_us()
        try:
            completion.result()
        except UnavailableError as error:
            self._failed(error, now_us)
            return
        self._succeeded(checkpoint, now_us)
        if self._requested > checkpoint:
            self._start()

    def _start(self) -> None:
        self.retry_at_us = None
        payloads = self.staged(self._requested)
        if payloads:
            self._began_us = self._now_us()
            self._running = self._requested, self._io.submit(lambda: self._sink.commit(payloads))

    def _failed(self, error: UnavailableError, now_us: int) -> None:
        if not self._back_off.failing:
            LOGGER.warning("%s; the sink retries until it can publish", error.what)
        wait_us = self._back_off.failed(now_us)
        assert wait_us is not None, "a sink retries a commit forever"
        self.retry_at_us = now_us + wait_us

    def _succeeded(self, checkpoint: CheckpointId, now_us: int) -> None:
        if self._back_off.failing:
            failing_s = self._back_off.failing_for_us(now_us) / 1e6
            LOGGER.warning("the sink publishes again, after %.0f s", failing_s)
        self._back_off.restore()
        self.commits += 1
        self.took_ms.add((now_us - self._began_us) / 1000)
        self._published_us = now_us
        for done in [each for each in self._staged if each <= checkpoint]:
            del self._staged[done]
            self._complete_us.pop(done, None)
