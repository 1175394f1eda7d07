"""The coordinator: opens checkpoints, enters them in the log, and takes a job through its attempts.

Pure decisions: `handle(event, now_ms)` returns the actions that follow, and the same events give the
same actions. It reads no clock and does no I/O; whoever drives it carries the actions out and tells it
what came of them. The numbers CP1 to CP12 are those of docs/protocols/checkpoints.md.

    NEW -> READING -> CLAIMING -> RECOVERING -> STARTING -> RUNNING -> FINISHING -> ENDED
              ^                       |            |           |
              |                       v            v           v
           WAITING <--------------- (restart strategy) <--- STOPPING
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import reduce

from rheos.checkpoint.config import CheckpointConfig
from rheos.checkpoint.events import (
    Action,
    Announce,
    AppendLog,
    AttemptEnded,
    AttemptLost,
    AttemptRunning,
    CancelRequested,
    CheckpointStats,
    DeleteFiles,
    DropEntries,
    EndJob,
    Event,
    JobShape,
    LogAppended,
    LogFailed,
    LogLost,
    LogRead,
    LogUnreadable,
    Outcome,
    ReadLog,
    Recover,
    Recovered,
    RecoveryFailed,
    SavepointNotWritten,
    SavepointRequested,
    SavepointWritten,
    SendToAll,
    Start,
    StartAttempt,
    StopAttempt,
    SubtaskFailed,
    SweepFiles,
    Tick,
)
from rheos.checkpoint.log import AttemptStarted, CheckpointCompleted, JobFinished, LogEntry, LogView
from rheos.checkpoint.recovery import decide
from rheos.checkpoint.restart import History, after_failure, primary
from rheos.checkpoint.retention import Expired, Retention, referred
from rheos.errors import CheckpointError, FencedError, RheosError, TransportError
from rheos.protocol.control import (
    Acknowledge,
    Cancel,
    CheckpointAborted,
    CheckpointComplete,
    Committed,
    Decline,
    Drained,
    Finish,
    Totals,
    TriggerCheckpoint,
)
from rheos.protocol.ids import Attempt, CheckpointId, JobId


class Phase(Enum):
    NEW = "new"
    READING = "reading the log"
    CLAIMING = "claiming the next attempt in the log"
    RECOVERING = "committing what the restored checkpoint lists"
    STARTING = "starting the attempt"
    RUNNING = "running"
    FINISHING = "the final checkpoint is committed everywhere"
    STOPPING = "ending a failed attempt"
    CANCELLING = "ending the attempt, as was asked"
    WAITING = "waiting to restart"
    ENDED = "ended"


@dataclass(slots=True)
class OpenCheckpoint:
    """A checkpoint between its trigger and its entry in the log."""

    id: CheckpointId
    opened_ms: int
    final: bool
    acknowledged: dict[int, Acknowledge] = field(default_factory=dict)
    """By subtask."""


MAX_OPEN = 1
"""How many checkpoints may be open at a time."""


class Coordinator:
    """Owned by the master of one driver. `now_ms` is monotonic."""

    def __init__(
        self,
        job: JobId,
        owner: str,
        config: CheckpointConfig,
        shape: JobShape,
        directory: str = "its checkpoint directory",
    ) -> None:
        self._job = job
        self._owner = owner
        self._config = config
        self._shape = shape
        self._directory = directory

        self.phase = Phase.NEW
        self.attempt = Attempt(0)
        self.restarts = 0
        self.stats = CheckpointStats()
        self.last_error: RheosError | None = None
        """Of the newest attempt that failed."""

        self._next_number: int | None = None
        """Of the log; None before it was first read."""
        self._appending: LogEntry | None = None
        self._retention = Retention(config.retain)
        self._restore_from: CheckpointCompleted | None = None

        self._next_checkpoint = CheckpointId(1)
        self._reserved_to = CheckpointId(0)
        self._open: dict[CheckpointId, OpenCheckpoint] = {}
        self._due_ms: int | None = None
        self._pause_until_ms = 0
        self._failures_in_row = 0
        self._drained: set[int] = set()
        self._final: CheckpointId | None = None
        """The final checkpoint, once it is in the log."""
        self._uncommitted: set[int] = set()
        self._finish_logged = False

        self._has_claimed = False
        """Whether any attempt was this driver's."""
        self._attempt_lives = False
        """Whether an attempt was started and has not ended."""
        self._errors: list[RheosError] = []
        self._failed_ms = 0
        self._history = History()
        self._resume_ms = 0

    # --- asked from outside -----------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When a Tick will next change anything, if nothing else happens."""
        match self.phase:
            case Phase.WAITING:
                return self._resume_ms
            case Phase.RUNNING if self._appending is None:
                timeouts = [open.opened_ms + self._config.timeout_ms for open in self._open.values()]
                return min(timeouts) if timeouts else self._trigger_ms()
            case _:
                return None

    def handle(self, event: Event, now_ms: int) -> list[Action]:
        if self.phase is Phase.ENDED:
            return []
        actions = self._decide(event, now_ms)
        if self.phase is Phase.RUNNING:
            actions += self._trigger(now_ms)
        self._check()
        return actions

    def _decide(self, event: Event, now_ms: int) -> list[Action]:
        match event:
            case Tick():
                return self._tick(now_ms)
            case Acknowledge():
                return self._acknowledge(event)
            case Decline():
                return self._decline(event, now_ms)
            case Committed():
                return self._committed(event)
            case Drained():
                if event.attempt == self.attempt and self.phase in (Phase.STARTING, Phase.RUNNING):
                    self._drained.add(event.subtask)
                return []
            case LogAppended():
                return self._appended(event.number, now_ms)
            case LogLost():
                return self._log_lost(event.number, now_ms)
            case LogFailed():
                return self._log_failed(event, now_ms)
            case LogRead():
                return self._log_read(event.view)
            case LogUnreadable():
                assert self.phase is Phase.READING
                return self._not_started(event.error, now_ms)
            case Recovered():
                return self._recovered(event)
            case RecoveryFailed():
                assert self.phase is Phase.RECOVERING
                self._errors = [event.error]
                self._failed_ms = now_ms
                return self._restart_or_end(now_ms)
            case AttemptRunning():
                return self._running(event, now_ms)
            case SubtaskFailed() | AttemptLost():
                return self._failed(event.error, now_ms) if event.attempt == self.attempt else []
            case AttemptEnded():
                return self._ended(event, now_ms)
            case CancelRequested():
                return self._cancel()
            case SavepointRequested() | SavepointWritten() | SavepointNotWritten():
                raise AssertionError("savepoints are not decided here yet")
            case Start():
                assert self.phase is Phase.NEW
                return self._read_log()

    # --- starting an attempt ----------------------------------------------------------------------

    def _read_log(self) -> list[Action]:
        self.phase = Phase.READING
        return [ReadLog()]

    def _log_read(self, view: LogView) -> list[Action]:
        assert self.phase is Phase.READING
        known = self._next_number
        if known is not None and view.next_number != known:
            # More entries than this driver knows: its own, where a failed write had gone through.
            if view.newest is None or view.next_number < known:
                gone = CheckpointError(f"entries of the log of job {self._job!r} have vanished")
                return self._end(Outcome.FAILED, gone)
            if view.newest.owner != self._owner:
                return self._end(Outcome.FAILED, self._fenced())
        try:
            continuation = decide(view, self._shape, self._job, self._directory)
        except RheosError as error:
            if known is not None and isinstance(view.newest, JobFinished):
                return self._end(Outcome.FINISHED)
            return self._end(Outcome.FAILED, error)

        self._next_number = view.next_number
        self._retention = Retention(self._config.retain, view.completed)
        self._restore_from = continuation.restore_from
        self._next_checkpoint = max(self._next_checkpoint, continuation.next_checkpoint)
        self.attempt = continuation.attempt
        self._open.clear()
        self._drained.clear()
        self._uncommitted.clear()
        self._errors.clear()
        self._final = None
        self._failures_in_row = 0
        self._due_ms = None
        self._pause_until_ms = 0
        self.phase = Phase.CLAIMING
        restore_from = continuation.restore_from
        return self._append(
            AttemptStarted(
                attempt=self.attempt,
                owner=self._owner,
                reserved_to=self._reserve(),
                from_checkpoint=restore_from.checkpoint if restore_from else None,
                parallelism=self._shape.parallelism,
                completed=self._retention.numbers,
            )
        )

    def _claimed(self) -> list[Action]:
        self.phase = Phase.RECOVERING
        self._has_claimed = True
        expired = self._expire(self._retention.trim())
        sweep = SweepFiles(self.attempt, self._retention.needed)
        return [*expired, sweep, Recover(self.attempt, self._restore_from)]

    def _recovered(self, event: Recovered) -> list[Action]:
        assert self.phase is Phase.RECOVERING
        assert event.attempt == self.attempt
        restore_from = self._restore_from
        if restore_from is not None and restore_from.final:
            # Only the commits were missing, and they are done now.
            self._final = restore_from.checkpoint
            self.phase = Phase.FINISHING
            return self._append_finished()
        assert not self._attempt_lives, "CP6: at most one attempt runs"
        self.phase = Phase.STARTING
        self._attempt_lives = True
        return [StartAttempt(self.attempt, restore_from)]

    def _running(self, event: AttemptRunning, now_ms: int) -> list[Action]:
        if event.attempt == self.attempt and self.phase is Phase.STARTING:
            self.phase = Phase.RUNNING
            if self._config.interval_ms is not None:
                self._due_ms = now_ms + self._config.interval_ms
        return []

    # --- checkpoints ------------------------------------------------------------------------------

    def _all_drained(self) -> bool:
        return len(self._drained) == self._shape.parallelism

    def _trigger_ms(self) -> int | None:
        """When the next checkpoint is to be opened; None while one is, or none is to come."""
        if len(self._open) >= MAX_OPEN or self._appending is not None or self._final is not None:
            return None
        if self._all_drained():
            return self._pause_until_ms if self._failures_in_row else 0
        if self._due_ms is None:
            return None
        return max(self._due_ms, self._pause_until_ms)

    def _trigger(self, now_ms: int) -> list[Action]:
        trigger_ms = self._trigger_ms()
        if trigger_ms is None or now_ms < trigger_ms:
            return []
        checkpoint = self._next_checkpoint
        assert checkpoint <= self._reserved_to, "CP4: the log has reserved the id"
        self._next_checkpoint = CheckpointId(checkpoint + 1)
        self._open[checkpoint] = OpenCheckpoint(checkpoint, now_ms, final=self._all_drained())
        if self._config.interval_ms is not None:
            self._due_ms = now_ms + self._config.interval_ms
        return [SendToAll(TriggerCheckpoint(attempt=self.attempt, checkpoint=checkpoint))]

    def _tick(self, now_ms: int) -> list[Action]:
        if self.phase is Phase.WAITING and now_ms >= self._resume_ms:
            self.restarts += 1
            return self._read_log()
        if self.phase is not Phase.RUNNING:
            return []
        actions: list[Action] = []
        for open in list(self._open.values()):
            if open.id not in self._open:
                continue  # The abort of one before was one too many.
            complete = len(open.acknowledged) == self._shape.parallelism
            if not complete and now_ms >= open.opened_ms + self._config.timeout_ms:
                missing = sorted(set(range(self._shape.parallelism)) - set(open.acknowledged))
                reason = f"subtasks {missing} did not acknowledge in {self._config.timeout_ms} ms"
                actions += self._abort(open, reason, now_ms)
        return actions

    def _acknowledge(self, event: Acknowledge) -> list[Action]:
        if event.attempt != self.attempt or not 0 <= event.subtask < self._shape.parallelism:
            return []  # CP5: of a zombie. Its files go with the sweep of the next attempt.
        self._retention.noted(event.handles)
        open = self._open.get(event.checkpoint)
        if self.phase is not Phase.RUNNING or open is None or event.subtask in open.acknowledged:
            return []
        open.acknowledged[event.subtask] = event
        if len(open.acknowledged) < self._shape.parallelism:
            return []
        return self._append(self._entry(open))

    def _entry(self, open: OpenCheckpoint) -> CheckpointCompleted:
        shares = [open.acknowledged[subtask] for subtask in range(self._shape.parallelism)]
        before = self._restore_from.totals if self._restore_from else Totals()
        return CheckpointCompleted(
            attempt=self.attempt,
            owner=self._owner,
            reserved_to=self._reserve(),
            checkpoint=open.id,
            final=open.final,
            parallelism=self._shape.parallelism,
            max_parallelism=self._shape.max_parallelism,
            operators=dict(self._shape.operators),
            handles=[handle for share in shares for handle in share.handles],
            committables=[committable for share in shares for committable in share.committables],
            totals=reduce(Totals.plus, (share.totals for share in shares), before),
        )

    def _decline(self, event: Decline, now_ms: int) -> list[Action]:
        open = self._open.get(event.checkpoint)
        if event.attempt != self.attempt or self.phase is not Phase.RUNNING or open is None:
            return []
        if event.subtask in open.acknowledged:
            return []
        return self._abort(open, f"subtask {event.subtask}: {event.reason}", now_ms)

    def _abort(self, open: OpenCheckpoint, reason: str, now_ms: int) -> list[Action]:
        """CP8: what was opened and does not complete is aborted, and all are told."""
        del self._open[open.id]
        self.stats.failed += 1
        self._failures_in_row += 1
        self._pause_until_ms = now_ms + self._config.min_pause_ms
        aborted = SendToAll(CheckpointAborted(attempt=self.attempt, checkpoint=open.id))
        if self._failures_in_row <= self._config.tolerable_failures:
            return [aborted]
        error = CheckpointError(
            f"{self._failures_in_row} checkpoints in a row failed; the last one, {open.id}: {reason}",
            hint="look to the checkpoint directory and to the state's size; timeout and tolerable "
            "failures are set in the checkpoint configuration",
        )
        return [aborted, *self._failed(error, now_ms)]

    def _completed(self, number: int, entry: CheckpointCompleted, now_ms: int) -> list[Action]:
        """CP3: from here on the checkpoint exists, whatever has become of its attempt."""
        open = self._open.pop(entry.checkpoint)
        in_flight = [
            path
            for other in self._open.values()
            for share in other.acknowledged.values()
            for path in referred(share.handles)
        ]
        expired = self._expire(self._retention.completed(number, entry, in_flight))
        self.stats.completed += 1
        self.stats.last_id = entry.checkpoint
        self.stats.last_duration_ms = now_ms - open.opened_ms
        self._failures_in_row = 0
        self._pause_until_ms = now_ms + self._config.min_pause_ms
        actions: list[Action] = [] if self.phase is Phase.CANCELLING else [Announce(entry)]
        if self.phase is Phase.RUNNING:
            actions.append(
                SendToAll(CheckpointComplete(attempt=self.attempt, checkpoint=entry.checkpoint))
            )
            if entry.final:
                self._final = entry.checkpoint
                self._uncommitted = set(range(self._shape.parallelism))
        return [*actions, *expired]

    def _committed(self, event: Committed) -> list[Action]:
        if event.attempt != self.attempt or self.phase is not Phase.RUNNING or self._final is None:
            return []
        if event.checkpoint < self._final or event.subtask not in self._uncommitted:
            return []
        self._uncommitted.discard(event.subtask)
        if self._uncommitted:
            return []
        self.phase = Phase.FINISHING
        return self._append_finished()

    # --- the log ----------------------------------------------------------------------------------

    def _reserve(self) -> CheckpointId:
        """CP4: between two entries at most this many checkpoints are opened, since more failures in a
        row fail the attempt."""
        self._reserved_to = CheckpointId(self._next_checkpoint + self._config.tolerable_failures)
        return self._reserved_to

    def _append(self, entry: LogEntry) -> list[Action]:
        assert self._appending is None, "CP1: one entry is written at a time"
        assert self._next_number is not None
        self._appending = entry
        return [AppendLog(self._next_number, entry)]

    def _append_finished(self) -> list[Action]:
        assert self._final is not None, "CP9: the final checkpoint is in the log"
        return self._append(
            JobFinished(
                attempt=self.attempt,
                owner=self._owner,
                reserved_to=self._reserved_to,
                checkpoint=self._final,
            )
        )

    def _answered(self, number: int) -> LogEntry:
        entry = self._appending
        assert entry is not None
        assert number == self._next_number, "CP1: the answer is to the entry that was given"
        self._appending = None
        return entry

    def _appended(self, number: int, now_ms: int) -> list[Action]:
        entry = self._answered(number)
        self._next_number = number + 1
        match entry:
            case AttemptStarted():
                return self._claimed()
            case CheckpointCompleted():
                return [*self._completed(number, entry, now_ms), *self._settle(now_ms)]
            case JobFinished():
                return self._finished()

    def _finished(self) -> list[Action]:
        """The log says that the job is done: whatever fails from here on does not matter."""
        self._finish_logged = True
        if not self._attempt_lives:
            return self._end(Outcome.FINISHED)
        stopping = self.phase is not Phase.FINISHING
        self.phase = Phase.FINISHING
        return [] if stopping else [SendToAll(Finish(attempt=self.attempt))]

    def _log_lost(self, number: int, now_ms: int) -> list[Action]:
        """CP2: the loser ends."""
        self._answered(number)
        if self.phase is Phase.CLAIMING or (self.phase is Phase.FINISHING and not self._attempt_lives):
            return self._end(Outcome.FAILED, self._fenced())
        actions: list[Action] = []
        if self.phase in (Phase.RUNNING, Phase.FINISHING):
            actions.append(SendToAll(Cancel(attempt=self.attempt)))
        return [*actions, *self._failed(self._fenced(), now_ms), *self._settle(now_ms)]

    def _log_failed(self, event: LogFailed, now_ms: int) -> list[Action]:
        self._answered(event.number)
        if self.phase is Phase.CLAIMING:
            return self._not_started(event.error, now_ms)
        return [*self._failed(event.error, now_ms), *self._settle(now_ms)]

    def _fenced(self) -> FencedError:
        return FencedError(
            f"another driver has taken over the job {self._job!r} in {self._directory}",
            hint="run a job from one driver at a time, or give each its own name",
        )

    def _expire(self, expired: Expired) -> list[Action]:
        actions: list[Action] = []
        if expired.numbers:
            actions.append(DropEntries(expired.numbers))
        if expired.paths:
            actions.append(DeleteFiles(expired.paths))
        return actions

    # --- failures and ends ------------------------------------------------------------------------

    def _failed(self, error: RheosError, now_ms: int) -> list[Action]:
        """Something of the running attempt has failed: it is stopped, and what follows is decided
        when it has ended, since the error that explains the others may still come."""
        match self.phase:
            case Phase.FINISHING if self._finish_logged:
                return [StopAttempt(self.attempt)]  # The job is done; only its processes remain.
            case Phase.STARTING | Phase.RUNNING | Phase.FINISHING:
                self._errors = [error]
            case Phase.STOPPING:
                self._errors.append(error)
                return []
            case _:
                return []
        self._failed_ms = now_ms
        self.last_error = error
        for checkpoint in self._abandoned():
            del self._open[checkpoint]
            self.stats.failed += 1
        self.phase = Phase.STOPPING
        return [StopAttempt(self.attempt)] if self._attempt_lives else self._settle(now_ms)

    def _abandoned(self) -> list[CheckpointId]:
        """The open checkpoints that cannot complete any more: all but one that is being entered."""
        entering = (
            self._appending.checkpoint if isinstance(self._appending, CheckpointCompleted) else None
        )
        return [checkpoint for checkpoint in self._open if checkpoint != entering]

    def _ended(self, event: AttemptEnded, now_ms: int) -> list[Action]:
        if event.attempt != self.attempt or not self._attempt_lives:
            return []
        self._attempt_lives = False
        if self._finish_logged:
            return self._end(Outcome.FINISHED)
        if self.phase in (Phase.STARTING, Phase.RUNNING):
            gone = TransportError(f"attempt {self.attempt} ended before its work was done")
            return self._failed(gone, now_ms)
        return self._settle(now_ms)

    def _settle(self, now_ms: int) -> list[Action]:
        """Goes on once the attempt has ended and no write to the log is under way."""
        if self._attempt_lives or self._appending is not None:
            return []
        match self.phase:
            case Phase.STOPPING:
                return self._restart_or_end(now_ms)
            case Phase.CANCELLING:
                return self._end(Outcome.CANCELLED)
            case _:
                return []

    def _not_started(self, error: RheosError, now_ms: int) -> list[Action]:
        """The log cannot be read or claimed. At the very first, the user is told at once."""
        if not self._has_claimed:
            return self._end(Outcome.FAILED, error)
        self._errors = [error]
        self._failed_ms = now_ms
        return self._restart_or_end(now_ms)

    def _restart_or_end(self, now_ms: int) -> list[Action]:
        error = primary(self._errors)
        self.last_error = error
        decision = after_failure(self._config.restart, self._history, error, self._failed_ms)
        self._history = decision.history
        if decision.after_ms is None:
            return self._end(Outcome.FAILED, error)
        self._open.clear()
        self.phase = Phase.WAITING
        self._resume_ms = now_ms + decision.after_ms
        return []

    def _cancel(self) -> list[Action]:
        match self.phase:
            case Phase.STARTING | Phase.RUNNING:
                self.phase = Phase.CANCELLING
                return [SendToAll(Cancel(attempt=self.attempt)), StopAttempt(self.attempt)]
            case Phase.STOPPING:
                self.phase = Phase.CANCELLING
                return []
            case Phase.FINISHING if self._attempt_lives:
                return [StopAttempt(self.attempt)]  # Its output is out: it ends as finished.
            case Phase.CANCELLING:
                return []
            case _:
                return self._end(Outcome.CANCELLED)

    def _end(self, outcome: Outcome, error: RheosError | None = None) -> list[Action]:
        self.phase = Phase.ENDED
        self.last_error = error
        return [EndJob(outcome, error)]

    def _check(self) -> None:
        """What holds after every event."""
        assert len(self._open) <= MAX_OPEN
        assert all(checkpoint < self._next_checkpoint for checkpoint in self._open)
        assert self._final is None or not self._open, (
            "CP9: nothing is opened after the final checkpoint"
        )
        if self.phase in (Phase.STARTING, Phase.RUNNING):
            assert self._attempt_lives
        if self.phase in (Phase.READING, Phase.CLAIMING, Phase.RECOVERING, Phase.WAITING):
            assert not self._attempt_lives, "CP6: the attempt before has ended"
