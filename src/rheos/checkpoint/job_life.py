"""The life of a job: how its attempts are claimed, started, failed, followed by others, and ended.

The pure transitions that `Coordinator` makes of events; it shows them in a picture. What an attempt
starts from is decided in `starting`, whether one follows a failed one in `restart`.
"""

from __future__ import annotations

from enum import Enum

from rheos.checkpoint.checkpointing import Checkpointing
from rheos.checkpoint.config import CheckpointConfig
from rheos.checkpoint.events import (
    Action,
    Announce,
    AppendLog,
    AttemptEnded,
    EndJob,
    JobShape,
    LogFailed,
    LogRead,
    Outcome,
    ReadLog,
    ReadSavepoint,
    Recover,
    Recovered,
    SavepointRead,
    SendToAll,
    StartAttempt,
    StopAttempt,
)
from rheos.checkpoint.log_entries import AttemptStarted, CheckpointCompleted, JobFinished, LogEntry
from rheos.checkpoint.phases import Phases
from rheos.checkpoint.placement import Short, Wait
from rheos.checkpoint.restart import Failures
from rheos.checkpoint.starting import Done, FirstRead, Ready, Starting
from rheos.errors import RheosError, TransportError
from rheos.protocol.control import Cancel, Finish, Totals
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


class JobLife:
    """Of one driver. Its methods are called by `Coordinator` alone; each returns what is to be done."""

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
        self._checkpoints = Checkpointing(owner, config, shape)
        self._starting = Starting(
            job,
            owner,
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

        self._next_number: int | None = None
        """Of the log; None before it was first continued."""
        self._appending: LogEntry | None = None
        self._is_recovered = False
        self._phases = Phases(self.attempt, self.parallelism)

        self._has_claimed = False
        """Whether any attempt was this driver's."""
        self._attempt_lives = False
        """Whether an attempt was started and has not ended."""
        self._finish_logged = False
        self._outcome = Outcome.CANCELLED
        """Of a job that is LEAVING."""
        self._failures = Failures(config.restart)
        self._resume_ms = 0

    @property
    def attempt(self) -> Attempt:
        return self._checkpoints.attempt

    @property
    def parallelism(self) -> int:
        """Of the attempt."""
        return self._checkpoints.parallelism

    # --- starting an attempt ----------------------------------------------------------------------

    def _read_log(self) -> list[Action]:
        self.phase = Phase.READING
        return [ReadLog()]

    def _claim(self, read: LogRead | SavepointRead, now_ms: int) -> list[Action]:
        """The claim of the next attempt, where all is known and it can be placed."""
        assert self.phase is Phase.READING
        try:
            if isinstance(read, LogRead):
                next = self._starting.log_read(read, self._next_number, now_ms)
            else:
                next = self._starting.savepoint_read(read, now_ms)
        except RheosError as error:
            return self._end(Outcome.FAILED, error)
        match next:
            case FirstRead(directory, thorough):
                return [ReadSavepoint(directory, thorough)]
            case Done(totals):
                return self._end(Outcome.FINISHED, finished_before=totals)
            case Wait(until_ms, shortage):
                self.shortage = shortage
                self.phase, self._resume_ms = Phase.WAITING, until_ms
                return []
            case Short(shortage):
                self.shortage = shortage
                return self._fails_to_start(shortage, now_ms)
            case Ready(continuation, parallelism, outlived):
                self.shortage = None
                self._next_number = self._starting.next_number
                self._is_recovered = False
                self.phase = Phase.CLAIMING
                return self._append(self._checkpoints.begin(continuation, outlived, parallelism))

    def _claimed(self) -> list[Action]:
        self.phase = Phase.RECOVERING
        self._has_claimed = True
        return [
            *self._checkpoints.claimed(),
            Recover(self.attempt, self._checkpoints.own, self._checkpoints.restore is None),
        ]

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
        self._phases = Phases(self.attempt, self.parallelism)
        return [StartAttempt(self.attempt, self._checkpoints.restore, self.parallelism)]

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
            return self._end(Outcome.FAILED, self._starting.fenced())
        actions: list[Action] = []
        if self.phase in (Phase.RUNNING, Phase.FINISHING):
            actions.append(SendToAll(Cancel(attempt=self.attempt)))
        return [*actions, *self._entry_failed(self._starting.fenced(), now_ms)]

    def _log_failed(self, event: LogFailed, now_ms: int) -> list[Action]:
        self._answered(event.number)
        if self.phase is Phase.CLAIMING:
            return self._not_started(event.error, now_ms)
        return self._entry_failed(event.error, now_ms)

    def _entry_failed(self, error: RheosError, now_ms: int) -> list[Action]:
        failed = self._failed(error, now_ms)
        return [*failed, *self._checkpoints.abandon(None, error), *self._settle(now_ms)]

    # --- failures and ends ------------------------------------------------------------------------

    def _failed(self, error: RheosError, now_ms: int) -> list[Action]:
        """Something of the running attempt has failed: it is stopped, and what follows is decided
        when it has ended, since the error that explains the others may still come."""
        match self.phase:
            case Phase.FINISHING if self._finish_logged:
                return [StopAttempt(self.attempt)]  # The job is done; only its processes remain.
            case Phase.STARTING | Phase.RUNNING | Phase.FINISHING:
                self._failures.first(error, now_ms)
            case Phase.STOPPING:
                self._failures.further(error)
                return []
            case _:
                return []
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
        """Goes on once the attempt has ended, and no write to the log nor to a sink is under way."""
        if self._attempt_lives or self._appending is not None or self._checkpoints.publishing.under_way:
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
        self._failures.first(error, now_ms)
        return self._restart_or_end(now_ms)

    def _restart_or_end(self, now_ms: int) -> list[Action]:
        error, after_ms = self._failures.decide()
        if after_ms is None:
            return self._end(Outcome.FAILED, error)
        if error is not self.shortage:
            self.last_error = error
        self.phase = Phase.WAITING
        self._resume_ms = now_ms + after_ms
        return []

    def _leave(self, outcome: Outcome) -> list[Action]:
        """The job ends because it was asked to."""
        match self.phase:
            case Phase.STARTING | Phase.RUNNING:
                self.phase, self._outcome = Phase.LEAVING, outcome
                self._checkpoints.publishing.abandon()
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

    def _end(
        self,
        outcome: Outcome,
        error: RheosError | None = None,
        finished_before: Totals | None = None,
    ) -> list[Action]:
        self.phase = Phase.ENDED
        self.last_error = error
        why = "the job has finished" if outcome is Outcome.FINISHED else f"the job was {outcome.value}"
        if error is not None:
            why = f"the job failed: {error.what}"
        return [*self._checkpoints.savepoints.end(why), EndJob(outcome, error, finished_before)]
