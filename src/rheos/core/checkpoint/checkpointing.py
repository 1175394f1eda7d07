"""The checkpoints of a job over its attempts: when they are opened, what their entries contain, and who
is notified.

Pure: the coordinator reports events and receives actions. This module combines open checkpoints
(`open_checkpoints`), requests (`savepoint_requests`) and retained checkpoints (`retention`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.checkpoint.continuation import Continuation
from rheos.core.checkpoint.events import (
    Action,
    AfterSavepoint,
    CheckpointStats,
    DeleteFiles,
    DropEntries,
    JobShape,
    SavepointRequested,
    SendToAll,
    SweepFiles,
)
from rheos.core.checkpoint.log_entries import (
    AttemptStarted,
    CheckpointCompleted,
    JobCounts,
    JobFinished,
    Rescaled,
)
from rheos.core.checkpoint.open_checkpoints import OpenCheckpoint, OpenCheckpoints
from rheos.core.checkpoint.publishing import Publishing
from rheos.core.checkpoint.rescaling import impossible, refusal, wanted_parallelism
from rheos.core.checkpoint.retention import ExpiredFiles, Retention
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.checkpoint.savepoint_requests import SavepointRequests, Stage
from rheos.core.errors import CheckpointError, RheosError
from rheos.core.protocol.control import (
    Acknowledge,
    CheckpointAborted,
    Committed,
    Cost,
    Decline,
    Drain,
    Totals,
    TriggerCheckpoint,
)
from rheos.core.protocol.ids import Attempt, CheckpointId


class AwaitedRequest(NamedTuple):
    """A request that has no answer so far."""

    request: SavepointRequested
    stage: Stage | None
    """Stage of the request; None if it has not begun."""
    subtasks: tuple[int, ...]
    """Subtasks that the request waits for: to end their input, to acknowledge, or to commit."""


class Checkpointing:
    def __init__(self, owner: str, config: CheckpointConfig, shape: JobShape) -> None:
        self._owner = owner
        self._config = config
        self._shape = shape
        self._open = OpenCheckpoints(config)
        self._retention = Retention(config.retain)
        self.savepoints = SavepointRequests()
        self.publishing = Publishing(shape.on_driver)
        self.stats = CheckpointStats()
        self.attempt = Attempt(0)
        self.parallelism = shape.parallelism
        """Parallelism of the attempt."""
        self._earlier = JobCounts()
        self._from = Continuation(Attempt(0), CheckpointId(1), None, None, ())
        self._outlived: tuple[int, ...] = ()
        self.rescaled: Rescaled | None = None
        """Parallelism that a command gave the job, as the newest entry stores it."""
        self._given_up = False
        """Whether a checkpoint was aborted since the last one that completed. Then files may exist that
        no subtask has reported."""
        self._drained: set[int] = set()
        self._committed: dict[int, CheckpointId] = {}
        """Newest checkpoint that each subtask has committed in this attempt."""
        self.final: CheckpointId | None = None
        """Final checkpoint, once it is in the log."""

    @property
    def kept(self) -> tuple[CheckpointCompleted, ...]:
        """Return the retained checkpoints, oldest first."""
        return self._retention.kept

    @property
    def restore(self) -> Restore | None:
        """Return the checkpoint or savepoint that the attempt starts from."""
        return self._from.restore

    @property
    def own(self) -> CheckpointCompleted | None:
        """Return the checkpoint that the attempt starts from, if it is in the job's own log."""
        return self._from.own

    # --- an attempt -------------------------------------------------------------------------------

    def begin(
        self,
        continuation: Continuation,
        outlived: tuple[int, ...],
        parallelism: int,
        rescaled: Rescaled | None,
        earlier: JobCounts,
    ) -> AttemptStarted:
        """Return the claim of the next attempt.

        Args:
            continuation: the attempt, and the state that it starts from.
            outlived: the entries of checkpoints that no longer count.
            parallelism: number of subtasks of the attempt.
            rescaled: parallelism that a command gave the job.
            earlier: counts of the job from before this driver.
        """
        wanted = wanted_parallelism(self._shape, rescaled)
        assert parallelism <= wanted, "CP40: no attempt is wider than the log has it"
        self.rescaled = rescaled
        self._earlier = earlier
        self._from = continuation
        self._outlived = outlived
        self.attempt = continuation.attempt
        self.parallelism = parallelism
        self._retention = Retention(self._config.retain, continuation.completed)
        assert not self.publishing.under_way, "CP29: what is under way has answered"
        self._open.begin(continuation.next_checkpoint, parallelism)
        self._given_up = False
        self._drained.clear()
        self._committed.clear()
        self.final = None
        own = continuation.own
        return AttemptStarted(
            attempt=self.attempt,
            owner=self._owner,
            reserved_to=self._open.reserve(),
            origin=continuation.origin,
            rescaled=rescaled,
            counts=self._counts(),
            from_checkpoint=own.checkpoint if own else None,
            parallelism=parallelism,
            completed=self._retention.numbers,
        )

    def claimed(self) -> list[Action]:
        """Delete, after the claim, everything that is no longer needed (CP10)."""
        outlived: list[Action] = [DropEntries(self._outlived)] if self._outlived else []
        expired = _expire(self._retention.trim())
        return [*outlived, *expired, SweepFiles(self.attempt, self._retention.needed)]

    def connected(self, now_ms: int, *, soon: bool) -> None:
        """Begin to open checkpoints. If `soon`, the first one does not wait for the interval (UP11)."""
        self._open.run(now_ms, soon=soon)

    def drained(self, subtask: int) -> None:
        self._drained.add(subtask)

    def recovered(self) -> list[Action]:
        """Record that the restored checkpoint's committables are committed."""
        own = self._from.own
        if own is None:
            return []
        if own.final:
            self.final = own.checkpoint
        return self.savepoints.committed(own.checkpoint)

    def finished(self) -> JobFinished:
        assert self.final is not None, "CP9: the final checkpoint is in the log"
        return JobFinished(
            attempt=self.attempt,
            owner=self._owner,
            reserved_to=self._open.reserved_to,
            origin=self._from.origin,
            rescaled=self.rescaled,
            counts=self._counts(),
            checkpoint=self.final,
            kept=self._retention.numbers,
        )

    # --- opening ----------------------------------------------------------------------------------

    def _all_drained(self) -> bool:
        return len(self._drained) == self.parallelism

    def _opening_ms(self) -> int | None:
        """Return the time at which the next checkpoint is due; None as long as none may be opened."""
        if self.final is not None or self.savepoints.holds:
            return None
        if self._all_drained():
            # No checkpoint can follow the final one, so it waits to carry the pending request.
            busy = self._open.any_open() or self.savepoints.one_behind
            return None if busy else self._open.retry_ms()
        if self.savepoints.stage in (Stage.DRAINING, Stage.OPEN):
            return None
        if self.savepoints.next is not None:
            return None if self._open.any_open() else 0
        return self._open.due_ms()

    def deadline_ms(self) -> int | None:
        """Return the time at which a Tick changes something; None if there is no such time."""
        deadlines = [self._open.timeout_ms(), self._opening_ms(), self.publishing.retry_ms()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def proceed(self, now_ms: int) -> list[Action]:
        """Open the next checkpoint if it is due. The caller must not call it while an entry is being
        written."""
        opening_ms = self._opening_ms()
        if opening_ms is None or now_ms < opening_ms:
            return []
        if self._all_drained():
            opened = self._open.open(now_ms, final=True, savepoint=self.savepoints.open())
        elif self.savepoints.next is None:
            opened = self._open.open(now_ms)
        elif self.savepoints.next.after is AfterSavepoint.DRAIN:
            # CP16: no checkpoint is opened before the final one. If the job fails in between, it
            # continues from before the input's end, as if no savepoint had been requested.
            self.savepoints.drain()
            return [SendToAll(Drain(attempt=self.attempt))]
        else:
            opened = self._open.open(now_ms, savepoint=self.savepoints.open())
        directory = opened.savepoint.directory if opened.savepoint else None
        return [
            SendToAll(
                TriggerCheckpoint(attempt=self.attempt, checkpoint=opened.id, savepoint=directory)
            )
        ]

    # --- outcomes of checkpoints ------------------------------------------------------------------

    def acknowledge(self, event: Acknowledge, now_ms: int, running: bool) -> None:
        self._retention.noted(event.checkpoint, event.handles)
        if running:
            self._open.acknowledge(event, now_ms)

    def decline(self, event: Decline, now_ms: int) -> tuple[list[Action], RheosError | None]:
        open = self._open.declinable(event.checkpoint, event.subtask)
        if open is None:
            return [], None
        return self._abort(open, f"subtask {event.subtask}: {event.reason}", now_ms)

    def overdue(self, now_ms: int) -> tuple[list[Action], RheosError | None]:
        actions: list[Action] = []
        for open in self._open.overdue(now_ms):
            missing = self._open.missing(open)
            reason = f"subtasks {missing} did not acknowledge in {self._config.timeout_ms} ms"
            aborted, error = self._abort(open, reason, now_ms)
            actions += aborted
            if error is not None:
                return actions, error
        return actions, None

    def _abort(
        self, open: OpenCheckpoint, reason: str, now_ms: int
    ) -> tuple[list[Action], RheosError | None]:
        """Abort an open checkpoint and notify all subtasks (CP8). If there were too many failures, also
        return the error that fails the attempt."""
        failures = self._open.fail(open, now_ms)
        self.stats.failed += 1
        self.stats.failure = reason
        self._given_up = True
        actions: list[Action] = [self._aborted(open)]
        if open.savepoint is not None:
            actions += self.savepoints.fail(
                CheckpointError(
                    f"the savepoint failed: {reason}",
                    hint=f"the job {'finishes without it' if open.final else 'continues'}; check the "
                    "savepoint's directory and the state's size",
                )
            )
        if failures <= self._config.tolerable_failures:
            return actions, None
        return actions, CheckpointError(
            f"{failures} checkpoints in a row failed; the last one, {open.id}: {reason}",
            hint="check the checkpoint directory and the state's size; the checkpoint configuration "
            "sets timeout and tolerable failures",
        )

    def _aborted(self, open: OpenCheckpoint) -> SendToAll:
        return SendToAll(CheckpointAborted(attempt=self.attempt, checkpoint=open.id))

    def entry(self, wall_ms: int) -> CheckpointCompleted | None:
        """Return the entry to add to the log now; None if no checkpoint is complete."""
        open = self._open.newest_complete()
        if open is None:
            return None
        assert open.complete_ms is not None
        shares = [open.acknowledged[subtask] for subtask in range(self.parallelism)]
        restored = self._from.restore
        before = restored.entry.totals if restored else Totals()
        return CheckpointCompleted(
            attempt=self.attempt,
            owner=self._owner,
            reserved_to=self._open.reserve(),
            origin=self._from.origin,
            rescaled=self._rescaled_by(open),
            counts=self._counts(completed=1),
            checkpoint=open.id,
            final=open.final,
            parallelism=self.parallelism,
            max_parallelism=self._shape.max_parallelism,
            operators=dict(self._shape.operators),
            handles=[handle for share in shares for handle in share.handles],
            committables=[committable for share in shares for committable in share.committables],
            totals=reduce(Totals.plus, (share.totals for share in shares), before),
            states={operator: dict(states) for operator, states in self._shape.states.items()},
            targets=dict(self._shape.targets),
            kept=self._retention.numbers_with_next,
            widths=dict(self._shape.widths),
            cost=reduce(Cost.plus, (share.cost for share in shares)),
            duration_ms=open.complete_ms - open.opened_ms,
            completed_ms=wall_ms,
            savepoint=(open.savepoint.directory if open.savepoint else None) or "",
            successor=None if open.final or open.savepoint is None else open.savepoint.successor,
        )

    def _counts(self, completed: int = 0) -> JobCounts:
        """Return the counts of the job so far. `completed` adds the checkpoint of the entry itself."""
        earlier, own = self._earlier, self.stats
        return JobCounts(
            drivers=earlier.drivers + 1,
            restarts=earlier.restarts + own.restarts,
            completed=earlier.completed + own.completed + completed,
            failed=earlier.failed + own.failed,
        )

    def _rescaled_by(self, open: OpenCheckpoint) -> Rescaled | None:
        """Return the change of the parallelism to store in the entry. A job whose input has ended is
        not rescaled."""
        request = open.savepoint
        if open.final or request is None or request.after is not AfterSavepoint.RESCALE:
            return self.rescaled
        return Rescaled(request.parallelism, self._shape.parallelism)

    def not_rescalable(self, request: SavepointRequested) -> RheosError | None:
        """Return why the running attempt cannot be rescaled as requested; None if it can."""
        return impossible(request, self._shape) or self.not_endable("rescaled")

    def not_endable(self, what: str) -> RheosError | None:
        """Return why the running attempt cannot end now for the job to continue; None if it can.
        `what` names the purpose in the error."""
        ending = self.final is not None or self._all_drained()
        return refusal(what, busy=self.savepoints.busy, ending=ending)

    def is_as_wide(self, parallelism: int) -> bool:
        """Return whether the attempt has the requested parallelism, and no other rescale is
        requested."""
        wanted = wanted_parallelism(self._shape, self.rescaled)
        return self.parallelism == wanted == parallelism

    def entered(
        self, number: int, entry: CheckpointCompleted, now_ms: int, running: bool
    ) -> list[Action]:
        """Process a checkpoint that is now in the log: it exists, even if its attempt fails (CP3)."""
        open, subsumed = self._open.entered(entry.checkpoint, now_ms)
        expired = _expire(self._retention.completed(number, entry))
        self.rescaled = entry.rescaled
        self.stats.completed += 1
        self.stats.failure = None
        self.stats.last_id = entry.checkpoint
        self.stats.last_duration_ms = now_ms - open.opened_ms
        notices: list[Action] = []
        if running:
            notices += self.publishing.entered(entry)
            notices += [self._aborted(older) for older in subsumed]
            if entry.final:
                self.final = entry.checkpoint
        carried = self.savepoints.entered(open, entry) if open.savepoint else []
        if self._given_up or subsumed or entry.final:
            expired.append(SweepFiles(self.attempt, self._retention.needed, entry.checkpoint))
        self._given_up = False
        return [*notices, *carried, *expired]

    def committed(self, event: Committed) -> list[Action]:
        """Record a subtask's commit. Return the action that writes a due savepoint's manifest."""
        before = self._committed.get(event.subtask, event.checkpoint)
        self._committed[event.subtask] = max(before, event.checkpoint)
        return self.savepoints.committed(self._committed_everywhere())

    def _committed_everywhere(self) -> CheckpointId:
        if len(self._committed) < self.parallelism:
            return CheckpointId(0)
        return min(self._committed.values())

    def awaited(self) -> AwaitedRequest | None:
        """Return what the oldest unanswered savepoint, stop or rescale waits for; None without one."""
        asked = self.savepoints.awaited
        if asked is None:
            return None
        request, stage = asked
        subtasks: Sequence[int] = ()
        everyone = range(self.parallelism)
        match stage:
            case Stage.DRAINING:
                subtasks = [each for each in everyone if each not in self._drained]
            case Stage.OPEN | None:
                subtasks = self._open.unacknowledged()
            case Stage.COMMITTING:
                entry = self.savepoints.entry
                assert entry is not None
                subtasks = [
                    each for each in everyone if self._committed.get(each, 0) < entry.checkpoint
                ]
            case Stage.WRITING | Stage.TAKEN | Stage.RESCALING:
                pass
        return AwaitedRequest(request, stage, tuple(subtasks))

    def is_done(self) -> bool:
        """Return whether the final checkpoint is committed everywhere, its savepoint settled (CP9)."""
        return (
            self.final is not None
            and self._committed_everywhere() >= self.final
            and not self.savepoints.is_of(self.final)
        )

    def abandon(self, entering: CheckpointId | None, error: RheosError) -> list[Action]:
        """Abandon all open checkpoints of a failed attempt, except one whose entry is being written."""
        self.stats.failed += len(self._open.abandon(entering))
        self.publishing.abandon()
        return self.savepoints.attempt_failed(entering, error)

    def check(self) -> None:
        """Assert the invariants that always hold."""
        self._open.check()
        assert self.final is None or not self._open.any_open(), (
            "CP9: nothing is opened after the final checkpoint"
        )


def _expire(expired: ExpiredFiles) -> list[Action]:
    actions: list[Action] = []
    if expired.numbers:
        actions.append(DropEntries(expired.numbers))
    if expired.paths:
        actions.append(DeleteFiles(expired.paths))
    return actions
