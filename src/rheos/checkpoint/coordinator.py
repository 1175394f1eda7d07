"""The coordinator: opens checkpoints, enters them in the log, and takes a job through its attempts.

Pure decisions: `handle(event, now_ms)` returns the actions that follow, and the same events give the
same actions. It reads no clock and does no I/O; whoever drives it carries the actions out and tells it
what came of them. CP numbers are those of docs/protocols/checkpoints.md.

    NEW -> READING -> CLAIMING -> RECOVERING -> STARTING -> RUNNING -> FINISHING -> ENDED
              ^                       |            |           |
              |                       v            v           v
           WAITING <--------------- (restart strategy) <--- STOPPING

This file holds the life of the attempts; what is open while one runs is kept in `open_checkpoints`,
what was asked for beside it in `savepoint_requests`, and how wide an attempt may be in `placement`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from rheos.checkpoint.checkpointing import Checkpointing
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
    ReadSavepoint,
    Recover,
    Recovered,
    RecoveryFailed,
    SavepointEnded,
    SavepointNotWritten,
    SavepointRead,
    SavepointRequested,
    SavepointUnreadable,
    SavepointWritten,
    SendToAll,
    Start,
    StartAttempt,
    StopAttempt,
    SubtaskFailed,
    Tick,
)
from rheos.checkpoint.log import AttemptStarted, CheckpointCompleted, JobFinished, LogEntry
from rheos.checkpoint.placement import Short, Wait
from rheos.checkpoint.recovery import Continuation
from rheos.checkpoint.restart import History, after_failure, primary
from rheos.checkpoint.starting import FirstRead, Next, Ready, Starting
from rheos.errors import CheckpointError, FencedError, RheosError, TransportError
from rheos.protocol.control import Acknowledge, Cancel, Committed, Decline, Drained, Finish
from rheos.protocol.ids import Attempt, JobId


class Phase(Enum):
    NEW = "new"
    READING = "reading the log, and the savepoint to start from"
    CLAIMING = "claiming the next attempt in the log"
    RECOVERING = "committing what the restored checkpoint lists"
    STARTING = "starting the attempt"
    RUNNING = "running"
    FINISHING = "the final checkpoint is committed everywhere"
    STOPPING = "ending a failed attempt"
    LEAVING = "ending the attempt, as was asked"
    WAITING = "waiting to restart, or for slots"
    ENDED = "ended"


class Coordinator:
    """Owned by the master of one driver. `now_ms` is monotonic; `wall_ms` is only written down."""

    def __init__(
        self,
        job: JobId,
        owner: str,
        config: CheckpointConfig,
        shape: JobShape,
        directory: str = "its checkpoint directory",
        *,
        from_savepoint: str | None = None,
        allow_dropped: bool = False,
        min_parallelism: int | None = None,
    ) -> None:
        self._job = job
        self._owner = owner
        self._config = config
        self._directory = directory
        self._checkpoints = Checkpointing(owner, config, shape)
        self._starting = Starting(
            job,
            directory,
            shape,
            config,
            from_savepoint=from_savepoint,
            allow_dropped=allow_dropped,
            min_parallelism=min_parallelism,
        )

        self.phase = Phase.NEW
        self.restarts = 0
        self.last_error: RheosError | None = None
        """Of the newest attempt that failed."""
        self.shortage: RheosError | None = None
        """Why no attempt runs, where slots are missing."""

        self._wall_ms = 0
        self._next_number: int | None = None
        """Of the log; None before it was first continued."""
        self._appending: LogEntry | None = None
        self._continuation: Continuation | None = None
        """Of the attempt."""
        self._is_recovered = False

        self._has_claimed = False
        """Whether any attempt was this driver's."""
        self._attempt_lives = False
        """Whether an attempt was started and has not ended."""
        self._finish_logged = False
        self._outcome = Outcome.CANCELLED
        """Of a job that is LEAVING."""
        self._errors: list[RheosError] = []
        self._failed_ms = 0
        self._history = History()
        self._resume_ms = 0

    # --- asked from outside -----------------------------------------------------------------------

    @property
    def attempt(self) -> Attempt:
        return self._checkpoints.attempt

    @property
    def parallelism(self) -> int:
        """Of the attempt."""
        return self._checkpoints.parallelism

    @property
    def stats(self) -> CheckpointStats:
        return self._checkpoints.stats

    @property
    def kept(self) -> tuple[CheckpointCompleted, ...]:
        """The checkpoints that are kept, the oldest first."""
        return self._checkpoints.kept

    def next_deadline_ms(self) -> int | None:
        """When a Tick will next change anything, if nothing else happens."""
        match self.phase:
            case Phase.WAITING:
                return self._resume_ms
            case Phase.RUNNING if self._appending is None:
                return self._checkpoints.deadline_ms()
            case _:
                return None

    def handle(self, event: Event, now_ms: int, wall_ms: int = 0) -> list[Action]:
        if self.phase is Phase.ENDED:
            if isinstance(event, SavepointRequested):
                self._checkpoints.savepoints.ask(event)
                return self._checkpoints.savepoints.end("the job has ended")
            return []
        self._wall_ms = wall_ms
        actions = self._decide(event, now_ms)
        if self.phase is Phase.RUNNING and self._appending is None:
            actions += self._proceed(now_ms)
        self._check()
        return actions

    def _decide(self, event: Event, now_ms: int) -> list[Action]:
        match event:
            case Acknowledge() | Decline() | Committed() | Drained():
                # CP5: a zombie is not listened to. Its files go with the sweep of the next attempt.
                return self._told(event, now_ms) if event.attempt == self.attempt else []
            case Tick():
                return self._tick(now_ms)
            case LogAppended():
                return self._appended(event.number, now_ms)
            case LogLost():
                return self._log_lost(event.number, now_ms)
            case LogFailed():
                return self._log_failed(event, now_ms)
            case LogRead():
                return self._log_read(event, now_ms)
            case LogUnreadable() | SavepointUnreadable():
                assert self.phase is Phase.READING
                return self._not_started(event.error, now_ms)
            case SavepointRead():
                assert self.phase is Phase.READING
                return self._claim(lambda: self._starting.savepoint_read(event, now_ms), now_ms)
            case Recovered():
                return self._recovered(event)
            case RecoveryFailed():
                assert self.phase is Phase.RECOVERING
                return self._fails_to_start(event.error, now_ms)
            case AttemptRunning():
                if event.attempt == self.attempt and self.phase is Phase.STARTING:
                    self.phase = Phase.RUNNING
                    self._checkpoints.connected(now_ms)
                return []
            case SubtaskFailed() | AttemptLost():
                return self._failed(event.error, now_ms) if event.attempt == self.attempt else []
            case AttemptEnded():
                return self._ended(event, now_ms)
            case CancelRequested():
                return self._leave(Outcome.CANCELLED)
            case SavepointRequested():
                self._checkpoints.savepoints.ask(event)
                return []
            case SavepointWritten():
                return self._savepoint_written(event)
            case SavepointNotWritten():
                failed = self._checkpoints.savepoints.not_written(event.request, event.error)
                return [*failed, *self._go_on()]
            case Start():
                assert self.phase is Phase.NEW
                return self._read_log()

    # --- starting an attempt ----------------------------------------------------------------------

    def _read_log(self) -> list[Action]:
        self.phase = Phase.READING
        return [ReadLog()]

    def _log_read(self, event: LogRead, now_ms: int) -> list[Action]:
        assert self.phase is Phase.READING
        known, view = self._next_number, event.view
        if known is not None and view.next_number != known:
            # More entries than this driver knows: its own, where a failed write had gone through.
            if view.newest is None or view.next_number < known:
                gone = CheckpointError(f"entries of the log of job {self._job!r} have vanished")
                return self._end(Outcome.FAILED, gone)
            if view.newest.owner != self._owner:
                return self._end(Outcome.FAILED, self._fenced())
        return self._claim(lambda: self._starting.log_read(event, now_ms), now_ms)

    def _claim(self, read: Callable[[], Next], now_ms: int) -> list[Action]:
        """The claim of the next attempt, where all is known and it can be placed."""
        try:
            next = read()
        except RheosError as error:
            if self._next_number is not None and isinstance(self._starting.view.newest, JobFinished):
                return self._end(Outcome.FINISHED)
            return self._end(Outcome.FAILED, error)
        match next:
            case FirstRead(directory):
                return [ReadSavepoint(directory)]
            case Wait(until_ms, shortage):
                self.shortage = shortage
                self.phase, self._resume_ms = Phase.WAITING, until_ms
                return []
            case Short(shortage):
                self.shortage = shortage
                return self._fails_to_start(shortage, now_ms)
            case Ready(continuation, parallelism, outlived):
                self.shortage = None
                self._next_number = self._starting.view.next_number
                self._continuation = continuation
                self._is_recovered = False
                self._errors.clear()
                self.phase = Phase.CLAIMING
                return self._append(self._checkpoints.begin(continuation, outlived, parallelism))

    def _claimed(self) -> list[Action]:
        self.phase = Phase.RECOVERING
        self._has_claimed = True
        assert self._continuation is not None
        return [*self._checkpoints.claimed(), Recover(self.attempt, self._continuation.own)]

    def _recovered(self, event: Recovered) -> list[Action]:
        assert self.phase is Phase.RECOVERING
        assert event.attempt == self.attempt
        self._is_recovered = True
        return [*self._checkpoints.recovered(), *self._start_attempt()]

    def _start_attempt(self) -> list[Action]:
        savepoints = self._checkpoints.savepoints
        final = self._checkpoints.final
        if savepoints.holds or (final is not None and savepoints.is_of(final)):
            return []  # Once its manifest is written, nothing may be left to run.
        if final is not None:
            # Only the commits were missing, and they are done now.
            self.phase = Phase.FINISHING
            return self._append(self._checkpoints.finished())
        assert not self._attempt_lives, "CP6: at most one attempt runs"
        self.phase = Phase.STARTING
        self._attempt_lives = True
        assert self._continuation is not None
        return [StartAttempt(self.attempt, self._continuation.restore, self.parallelism)]

    # --- while it runs ----------------------------------------------------------------------------

    def _told(self, event: Acknowledge | Decline | Committed | Drained, now_ms: int) -> list[Action]:
        running = self.phase is Phase.RUNNING
        match event:
            case Acknowledge():
                self._checkpoints.acknowledge(event, now_ms, running)
            case Drained() if running or self.phase is Phase.STARTING:
                self._checkpoints.drained(event.subtask)
            case Decline() if running:
                return self._aborted(*self._checkpoints.decline(event, now_ms), now_ms)
            case Committed() if running:
                return [*self._checkpoints.committed(event), *self._go_on()]
            case _:
                pass
        return []

    def _tick(self, now_ms: int) -> list[Action]:
        if self.phase is Phase.WAITING and now_ms >= self._resume_ms:
            self.restarts += self.shortage is None
            return self._read_log()
        if self.phase is Phase.RUNNING:
            return self._aborted(*self._checkpoints.overdue(now_ms), now_ms)
        return []

    def _aborted(self, told: list[Action], error: RheosError | None, now_ms: int) -> list[Action]:
        return told if error is None else [*told, *self._failed(error, now_ms)]

    def _proceed(self, now_ms: int) -> list[Action]:
        """Enters what is complete, or opens what is due: one entry is written at a time (CP1)."""
        entry = self._checkpoints.entry(self._wall_ms)
        return self._checkpoints.proceed(now_ms) if entry is None else self._append(entry)

    def _go_on(self) -> list[Action]:
        """A commit has come in, or a savepoint is settled: does anything follow?"""
        if self.phase is Phase.RUNNING and self._appending is None and self._checkpoints.is_done():
            self.phase = Phase.FINISHING
            return self._append(self._checkpoints.finished())
        if self.phase is Phase.RECOVERING and self._is_recovered:
            return self._start_attempt()
        return []

    def _savepoint_written(self, event: SavepointWritten) -> list[Action]:
        stops = self._checkpoints.savepoints.written(event.request)
        if stops is None:
            return []
        return [
            SavepointEnded(event.request),
            *(self._leave(Outcome.STOPPED) if stops else self._go_on()),
        ]

    # --- the log ----------------------------------------------------------------------------------

    def _append(self, entry: LogEntry) -> list[Action]:
        assert self._appending is None, "CP1: one entry is written at a time"
        assert self._next_number is not None
        self._appending = entry
        return [AppendLog(self._next_number, entry)]

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
                running = self.phase is Phase.RUNNING
                announced: list[Action] = [] if self.phase is Phase.LEAVING else [Announce(entry)]
                told = self._checkpoints.entered(number, entry, now_ms, running)
                return [*announced, *told, *self._settle(now_ms)]
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
        return [*actions, *self._entry_failed(self._fenced(), now_ms)]

    def _log_failed(self, event: LogFailed, now_ms: int) -> list[Action]:
        self._answered(event.number)
        if self.phase is Phase.CLAIMING:
            return self._not_started(event.error, now_ms)
        return self._entry_failed(event.error, now_ms)

    def _entry_failed(self, error: RheosError, now_ms: int) -> list[Action]:
        failed = self._failed(error, now_ms)
        return [*failed, *self._checkpoints.abandon(None, error), *self._settle(now_ms)]

    def _fenced(self) -> FencedError:
        return FencedError(
            f"another driver has taken over the job {self._job!r} in {self._directory}",
            hint="run a job from one driver at a time, or give each its own name",
        )

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
        self._starting.attempt_failed(now_ms)
        self.last_error = error
        entering = self._appending
        in_log = entering.checkpoint if isinstance(entering, CheckpointCompleted) else None
        abandoned = self._checkpoints.abandon(in_log, error)
        self.phase = Phase.STOPPING
        if self._attempt_lives:
            return [StopAttempt(self.attempt), *abandoned]
        return [*abandoned, *self._settle(now_ms)]

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
            case Phase.LEAVING:
                return self._end(self._outcome)
            case _:
                return []

    def _not_started(self, error: RheosError, now_ms: int) -> list[Action]:
        """What an attempt needs cannot be read or claimed. At the first, the user is told at once."""
        if not self._has_claimed:
            return self._end(Outcome.FAILED, error)
        return self._fails_to_start(error, now_ms)

    def _fails_to_start(self, error: RheosError, now_ms: int) -> list[Action]:
        self._errors = [error]
        self._failed_ms = now_ms
        return self._restart_or_end(now_ms)

    def _restart_or_end(self, now_ms: int) -> list[Action]:
        error = primary(self._errors)
        if error is not self.shortage:
            self.last_error = error
        decision = after_failure(self._config.restart, self._history, error, self._failed_ms)
        self._history = decision.history
        if decision.after_ms is None:
            return self._end(Outcome.FAILED, error)
        self.phase = Phase.WAITING
        self._resume_ms = now_ms + decision.after_ms
        return []

    def _leave(self, outcome: Outcome) -> list[Action]:
        """The job ends because it was asked to."""
        match self.phase:
            case Phase.STARTING | Phase.RUNNING:
                self.phase, self._outcome = Phase.LEAVING, outcome
                return [SendToAll(Cancel(attempt=self.attempt)), StopAttempt(self.attempt)]
            case Phase.STOPPING:
                self.phase, self._outcome = Phase.LEAVING, outcome
                return []
            case Phase.FINISHING if self._attempt_lives:
                return [StopAttempt(self.attempt)]  # Its output is out: it ends as finished.
            case Phase.LEAVING:
                return []
            case _:
                return self._end(outcome)

    def _end(self, outcome: Outcome, error: RheosError | None = None) -> list[Action]:
        self.phase = Phase.ENDED
        self.last_error = error
        why = f"the job has {outcome.value}" if error is None else f"the job failed: {error.what}"
        return [*self._checkpoints.savepoints.end(why), EndJob(outcome, error)]

    def _check(self) -> None:
        """What holds after every event."""
        self._checkpoints.check()
        if self.phase in (Phase.STARTING, Phase.RUNNING):
            assert self._attempt_lives
        if self.phase in (Phase.READING, Phase.CLAIMING, Phase.RECOVERING, Phase.WAITING):
            assert not self._attempt_lives, "CP6: the attempt before has ended"
