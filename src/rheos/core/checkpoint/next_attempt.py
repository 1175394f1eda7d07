"""Determines the next attempt from the log: its state and its parallelism.

Pure: it maps what was read to the next step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.checkpoint.continuation import Continuation, decide, fitted, needed_savepoint
from rheos.core.checkpoint.events import Action, JobShape, LogRead, PrepareState, SavepointRead
from rheos.core.checkpoint.log import LogView
from rheos.core.checkpoint.log_entries import (
    CheckpointCompleted,
    JobCounts,
    JobFinished,
    LogEntry,
    NumberedCheckpoint,
    Origin,
    Rescaled,
)
from rheos.core.checkpoint.placement import Placement, ReportShortage, StartDecision, WaitForSlots
from rheos.core.checkpoint.rescaling import wanted_parallelism
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.checkpoint.upgrade import Upgrade
from rheos.core.errors import CheckpointError, FencedError, RheosError
from rheos.core.protocol.control import Totals
from rheos.core.protocol.ids import JobId


@dataclass(frozen=True, slots=True)
class FirstRead:
    """A step: first read the manifest in this folder."""

    directory: str
    thorough: bool
    """Whether to check all of the savepoint's files, too."""


@dataclass(frozen=True, slots=True)
class NoStep:
    """A step: do nothing, as the job has finished according to the log."""

    totals: Totals | None
    """Counts of the job, if it finished before this driver; None if it finished under this driver."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A step: claim this attempt."""

    continuation: Continuation
    parallelism: int
    outlived: tuple[int, ...]
    """Entries of checkpoints that no longer count."""
    rescaled: Rescaled | None = None
    """Parallelism that a command gave the job, if it still applies."""


Step: TypeAlias = FirstRead | NoStep | Ready | WaitForSlots | ReportShortage


class NextAttempt:
    """Prepares the attempts of one driver."""

    def __init__(
        self,
        job: JobId,
        owner: str,
        directory: str,
        shape: JobShape,
        config: CheckpointConfig,
        *,
        from_savepoint: str | None,
        upgrade: Upgrade,
        min_parallelism: int | None,
    ) -> None:
        self._job = job
        self.owner = owner
        self._directory = directory
        self._shape = shape
        self._from_savepoint = from_savepoint
        self._upgrade = upgrade
        self._placement = Placement(shape.parallelism, min_parallelism, config.slots_within_ms)
        self._read = LogRead(LogView())
        self._savepoint: SavepointRead | None = None
        self._prepared: NumberedCheckpoint | None = None
        """Checkpoint that slots restore ahead."""
        self.earlier = JobCounts()
        """Counts of the job from before this driver."""

    @property
    def next_number(self) -> int:
        """Return the log's next number, as of the last read."""
        return self._read.view.next_number

    def fenced(self) -> FencedError:
        return FencedError(
            f"another driver now runs the job {self._job!r} in {self._directory}",
            hint="run a job from one driver at a time, or give each job its own name",
        )

    def is_newest_without_offer(self, view: LogView) -> bool:
        """Return whether the newest entry is this driver's, and names no successor."""
        newest = view.newest
        offers = isinstance(newest, CheckpointCompleted) and newest.successor is not None
        return newest is not None and newest.owner == self.owner and not offers

    def misfit(self, view: LogView) -> RheosError | None:
        """Return why this program cannot continue from the newest checkpoint of the log; None if it
        can, or if that needs more than the log to find out."""
        if not view.completed:
            return None
        try:
            self._fitted(view.completed[-1].entry)
        except RheosError as error:
            return error
        return None

    def preparation(self, view: LogView) -> list[Action]:
        """Return the action that restores the newest checkpoint ahead of the next attempt (UP10). The
        list is empty if no checkpoint exists, or if that one was returned before. The caller has
        checked that it fits (`misfit`)."""
        if not view.completed:
            return []
        newest = view.completed[-1]
        if newest == self._prepared:
            return []
        self._prepared = newest
        rescaled = self._rescaled(view.newest, view.origin)
        restore = Restore(entry=self._fitted(newest.entry))
        return [PrepareState(restore, wanted_parallelism(self._shape, rescaled))]

    def _fitted(self, newest: CheckpointCompleted) -> CheckpointCompleted:
        return fitted(newest, self._shape, "the newest checkpoint", self._upgrade)

    @staticmethod
    def totals(view: LogView) -> Totals:
        """Return the counts of a job that has finished."""
        return view.completed[-1].entry.totals if view.completed else Totals()

    def attempt_failed(self, now_ms: int) -> None:
        """Record the failure of an attempt, which may have lost slots."""
        self._placement.lost(now_ms)

    def log_read(self, event: LogRead, known: int | None, now_ms: int) -> Step:
        """Return the next step after a read of the log. `known` is the next number of the log as far as
        this driver wrote or read it; None before the first read.

        Raise FencedError if another driver has written since, and CheckpointError if entries are
        missing. Also raise the errors of `decide`.
        """
        self._read = event
        view = event.view
        if known is None and view.newest is not None and view.newest.owner != self.owner:
            self.earlier = view.newest.counts
        if known is not None and view.next_number != known:
            # More entries than this driver knows: if they are its own, a failed write did succeed.
            if view.newest is None or view.next_number < known:
                raise CheckpointError(f"entries of the log of job {self._job!r} have disappeared")
            if view.newest.owner != self.owner:
                raise self.fenced()
        if known is not None and isinstance(view.newest, JobFinished):
            return NoStep(None)
        needed = needed_savepoint(event.view, self._from_savepoint)
        if needed is not None and (self._savepoint is None or self._savepoint.directory != needed):
            return FirstRead(needed, thorough=bool(event.view.completed))
        return self._choose(now_ms)

    def savepoint_read(self, event: SavepointRead, now_ms: int) -> Step:
        """Return the next step after a read of the savepoint. Raise the errors of `decide`."""
        self._savepoint = event
        return self._choose(now_ms)

    def _choose(self, now_ms: int) -> Step:
        view = self._read.view
        continuation = decide(
            view,
            self._shape,
            self._job,
            self._directory,
            self._savepoint,
            from_savepoint=self._from_savepoint,
            upgrade=self._upgrade,
        )
        if continuation is None:
            return NoStep(self.totals(view))
        rescaled = self._rescaled(view.newest, continuation.origin)
        wanted = wanted_parallelism(self._shape, rescaled)
        self._placement.want(wanted)
        slots = wanted if self._read.slots is None else self._read.slots
        choice = self._placement.choose(slots, now_ms)
        if not isinstance(choice, StartDecision):
            return choice
        counting = {kept.number for kept in continuation.completed}
        outlived = tuple(kept.number for kept in view.completed if kept.number not in counting)
        return Ready(continuation, choice.parallelism, outlived, rescaled)

    def _rescaled(self, newest: LogEntry | None, origin: Origin | None) -> Rescaled | None:
        """Return the rescaling in the log, unless a later start chose another parallelism (CP40)."""
        if newest is None or newest.rescaled is None or newest.origin != origin:
            return None
        rescaled = newest.rescaled
        as_started = rescaled.instead_of == self._shape.parallelism
        return rescaled if as_started and rescaled.parallelism <= self._shape.max_parallelism else None
