"""The slots of a job that restore checkpoints ahead of its next attempt (UP10, UP12).

At most one group of them exists. A driver that waits for a job has it instead of an attempt; a running
job has it next to its attempt. The group ends when an attempt takes it, or when one of its slots fails.
After a failure the next group starts after a pause, which grows with each failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rheos.core.checkpoint.savepoint import Restore
from rheos.core.connectors.backoff import Backoff
from rheos.core.errors import RheosError
from rheos.core.protocol import control
from rheos.core.protocol.ids import CheckpointId, JobId
from rheos.runtimes.continuous.control import AHEAD, BeginAttempt, RestoreAhead
from rheos.runtimes.continuous.control_server import ControlServer
from rheos.runtimes.continuous.preparation_progress import PreparationProgress, SlotsState
from rheos.runtimes.driver.driver_logs import LOGGER

_FIRST_PAUSE_US = 1_000_000
_LONGEST_PAUSE_US = 300_000_000
_FOR_EVER_US = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class SlotStage:
    """A Spark job with a task for each slot."""

    tag: str
    """Tag by which Spark cancels the job; empty if nothing cancels it."""
    server: ControlServer
    """Control channel of its slots."""


@dataclass(frozen=True, slots=True)
class _Request:
    restore: Restore
    parallelism: int


@dataclass(frozen=True, slots=True)
class _Group:
    """Slots that wait for an attempt."""

    stage: SlotStage
    progress: PreparationProgress


class PreparedSlots:
    """The slots that restore state ahead. For the thread of the master, except `are_current`."""

    def __init__(
        self,
        job: JobId,
        *,
        room: Callable[[int], str | None],
        start: Callable[[Restore, int], SlotStage],
        cancel: Callable[[SlotStage], None],
        now_us: Callable[[], int],
    ) -> None:
        """Start nothing yet.

        Args:
            job: id of the job, for warnings.
            room: returns why the master cannot run this number of slots now; None if it can.
            start: starts slots that restore this checkpoint, under the number AHEAD.
            cancel: lets Spark end a stage.
            now_us: returns the monotonic time.
        """
        self._job = job
        self._room = room
        self._start = start
        self._cancel = cancel
        self._now_us = now_us
        self.may_start = False
        """Whether the processes of the slots have imported the program."""
        self._request: _Request | None = None
        """Newest request, until it is carried out."""
        self._group: _Group | None = None
        self._failure: str | None = None
        """Why no slots restore state, though it was requested."""
        self._pauses = Backoff(_FOR_EVER_US, first_us=_FIRST_PAUSE_US, longest_us=_LONGEST_PAUSE_US)
        self._paused_until_us = 0

    @property
    def stage(self) -> SlotStage | None:
        """Stage of the slots that wait; None if none do."""
        return None if self._group is None else self._group.stage

    def request(self, restore: Restore, parallelism: int) -> None:
        """Let slots restore this checkpoint. They start if none exist and there is room."""
        self._request = _Request(restore, parallelism)
        self.carry_out()

    def carry_out(self) -> None:
        """Carry out the newest request, if that is possible now."""
        wanted = self._request
        if wanted is None or not self.may_start or self._is_paused():
            return
        if self._group is None:
            self._request = None
            self._begin(wanted)
        elif self._group.progress.state is SlotsState.READY:
            self._request = None
            self._group.progress.requested(wanted.restore.entry.checkpoint)
            self._group.stage.server.send(RestoreAhead(attempt=AHEAD, restore=wanted.restore))

    def _begin(self, wanted: _Request) -> None:
        shortage = self._room(wanted.parallelism)
        if shortage is not None:
            self._fail(shortage)
            return
        stage = self._start(wanted.restore, wanted.parallelism)
        checkpoint = wanted.restore.entry.checkpoint
        self._group = _Group(stage, PreparationProgress(wanted.parallelism, checkpoint))

    def take(self, attempt: BeginAttempt, parallelism: int) -> SlotStage | None:
        """Let the slots begin an attempt, if all have joined and the attempt is as wide. Otherwise end
        them, and return None."""
        group, self._group, self._request = self._group, None, None
        self.may_start = True
        if group is None:
            return None
        if group.progress.state is SlotsState.READY and group.progress.parallelism == parallelism:
            group.stage.server.send(attempt)
            return group.stage
        self._release(group.stage)
        return None

    def joined(self) -> None:
        """Record that all slots have joined."""
        if self._group is not None and self._group.progress.state is SlotsState.STARTING:
            self._group.progress.state = SlotsState.READY

    def restored(self, subtask: int, checkpoint: CheckpointId) -> None:
        """Record that a slot has restored a checkpoint."""
        if self._group is None:
            return
        progress = self._group.progress
        progress.restored(subtask, checkpoint)
        if progress.state is SlotsState.READY and progress.are_current():
            self._failure = None
            self._pauses.restore()

    def failed(self, error: RheosError | None) -> None:
        """Release the slots, because one of them has failed. An attempt does not take them."""
        if self._group is None or self._group.progress.state is SlotsState.FAILED:
            return
        self._group.progress.state = SlotsState.FAILED
        self._release(self._group.stage)
        reason = "they have ended" if error is None else error.what
        self._fail(f"the slots that restore state ahead have failed: {reason}")

    def ended(self, stage: SlotStage, error: RheosError | None) -> None:
        """Record the end of a stage. New slots may start when nothing of the failed ones runs."""
        if self._group is not None and stage is self._group.stage:
            self.failed(error)
            self._group = None

    def are_current(self) -> bool:
        """Return whether waiting would not make the next start shorter: all slots have restored a
        recent checkpoint, none was requested, or they failed. For any thread."""
        group = self._group
        if group is None:
            return self._request is None or self._is_paused()
        if group.progress.state is SlotsState.FAILED:
            return True
        return self._request is None and group.progress.are_current()

    def has_prepared(self) -> bool:
        """Return whether slots exist that have restored a recent checkpoint. For any thread."""
        group = self._group
        return group is not None and group.progress.state is SlotsState.READY and self.are_current()

    def not_prepared(self) -> str | None:
        """Return why no slots restore state, though it was requested; None if they do, or start."""
        return self._failure

    def _is_paused(self) -> bool:
        return self._now_us() < self._paused_until_us

    def _fail(self, reason: str) -> None:
        if reason != self._failure:
            LOGGER.warning("a restart of the job %r would take longer: %s", self._job, reason)
        self._failure = reason
        now_us = self._now_us()
        self._paused_until_us = now_us + (self._pauses.failed(now_us) or 0)

    def _release(self, stage: SlotStage) -> None:
        stage.server.send(control.Cancel(attempt=AHEAD, replaced=True))
        self._cancel(stage)
