"""Output that only the driver can publish: at checkpoints, after a failure, and at the end of a job."""

from __future__ import annotations

from collections.abc import Callable

from rheos.core.checkpoint.events import (
    EndJob,
    Event,
    Outcome,
    Published,
    PublishFailed,
    PublishOnDriver,
    Recover,
    Recovered,
    RecoveryFailed,
)
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import Attempt, JobId
from rheos.core.protocol.ports import Clock, Completion, IoExecutor
from rheos.runtimes.driver.driver_work import DriverWork
from rheos.runtimes.driver.sources_and_sinks import (
    abort_stale,
    begin_targets,
    check_targets,
    publish,
    publish_listed,
    published_here,
    publishes,
)

_CLEAR_WITHIN_US = 5_000_000
"""Maximum time for which the end of a job waits for the cleanup of leftovers at sinks."""


class Publications:
    """The publications of one job, on the I/O executor, concurrently with the steps of the master.

    `log_identity` returns the identity of the claimed log. It is called only if a sink needs it.
    """

    def __init__(
        self,
        plan: PhysicalPlan,
        writer: JobId,
        io: IoExecutor,
        clock: Clock,
        log_identity: Callable[[], str],
    ) -> None:
        self._plan = plan
        self._writer = writer
        self._io = io
        self._clock = clock
        self._publishes = publishes(plan)
        self._read_identity = log_identity
        self._identity = None if published_here(plan) else ""
        self._work = DriverWork(io)
        self._cleanup: Completion[None] | None = None
        self.deadline_us: int | None = None
        """Monotonic time at which the job ends without the cleanup; None if no cleanup has begun."""

    def recover(self, action: Recover) -> list[Event]:
        """Begin to publish what the newest checkpoint lists. Return the event if the job publishes
        nothing."""
        if not self._publishes:
            return [Recovered(action.attempt)]
        plan, writer, log = self._plan, self._writer, self._log()

        def recover() -> None:
            if action.fresh:
                check_targets(plan)
                begin_targets(plan)
            publish(plan, writer, log, action.attempt, action.checkpoint)

        self._work.begin(
            recover,
            lambda error: (
                Recovered(action.attempt) if error is None else RecoveryFailed(action.attempt, error)
            ),
        )
        return []

    def publish(self, action: PublishOnDriver) -> None:
        """Begin to publish the committables of one operator."""
        plan, log, listed = self._plan, self._log(), action.committables
        operator, checkpoint = action.operator, action.checkpoint
        self._work.begin(
            lambda: publish_listed(plan, log, listed),
            lambda error: (
                Published(operator, checkpoint)
                if error is None
                else PublishFailed(operator, checkpoint, error)
            ),
        )

    def poll(self) -> list[Event]:
        """Return the outcomes of the publications that have ended since the last call."""
        return self._work.poll()

    def clear_away(self, end: EndJob, attempt: Attempt, newest: CheckpointCompleted | None) -> None:
        """Abort output that workers of earlier attempts have staged since this one began, as they may
        have outlived their driver. The next attempt aborts what remains. Without a next attempt, it
        remains as unused files next to the output. So the end of the job need not wait for a server
        that does not answer."""
        if end.outcome is Outcome.FAILED or end.finished_before is not None:
            return
        if self._work.busy or not self._publishes:
            return
        plan, writer = self._plan, self._writer
        self._cleanup = self._io.submit(lambda: abort_stale(plan, writer, attempt, newest))
        self.deadline_us = self._clock.monotonic_us() + _CLEAR_WITHIN_US

    def is_cleared(self) -> bool:
        """Return whether the job's end need not wait for the cleanup."""
        if self._cleanup is None or self.deadline_us is None:
            return True
        return self._cleanup.done() or self._clock.monotonic_us() >= self.deadline_us

    def _log(self) -> str:
        if self._identity is None:
            self._identity = self._read_identity()
        return self._identity
