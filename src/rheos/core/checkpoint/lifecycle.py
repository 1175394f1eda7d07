"""The life cycle of a job: how its attempts are claimed, started and ended, and what follows a failure.

The class below owns the state of the job, as the diagram in `coordinator` shows it. `next_attempt`
decides what an attempt starts from, and `restart` decides whether another one follows a failure.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import assert_never

from rheos.core.checkpoint.available_now import AvailableNow
from rheos.core.checkpoint.checkpointing import Checkpointing
from rheos.core.checkpoint.config import RestartStrategy
from rheos.core.checkpoint.events import (
    Action,
    Announce,
    AttemptEnded,
    CheckpointStats,
    EndJob,
    LogFailed,
    LogRead,
    Outcome,
    PrepareState,
    ReadLog,
    ReadSavepoint,
    Recover,
    Recovered,
    RecoveryFailed,
    SavepointRead,
    SendToAll,
    StartAttempt,
    StopAttempt,
)
from rheos.core.checkpoint.handover_situation import Situation
from rheos.core.checkpoint.log_entries import (
    AttemptStarted,
    CheckpointCompleted,
    JobCounts,
    JobFinished,
)
from rheos.core.checkpoint.log_writer import LogWriter
from rheos.core.checkpoint.next_attempt import FirstRead, NextAttempt, NoStep, Ready
from rheos.core.checkpoint.placement import ReportShortage, WaitForSlots
from rheos.core.checkpoint.read_splits import ReadSplits
from rheos.core.checkpoint.restart import Failures
from rheos.core.checkpoint.resumed_chains import is_written_again_soon
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.checkpoint.savepoint_requests import Stage
from rheos.core.checkpoint.source_phases import SourcePhases
from rheos.core.checkpoint.split_discovery import SplitDiscovery
from rheos.core.checkpoint.succession import (
    Succession,
    SuccessionLimits,
    SuccessionStep,
)
from rheos.core.connectors.backoff import Backoff
from rheos.core.errors import RheosError, TransportError, UnavailableError
from rheos.core.protocol.control import Cancel, Finish, Totals
from rheos.core.protocol.ids import Attempt

_FOR_EVER_US = 1 << 62
LEAVE_WITHIN_MS = 10_000
"""Longest time for which a cancelled job waits for a running publication. Unpublished output is in the
log, and the next driver publishes it."""


class LifecycleState(Enum):
    NEW = "new"
    READING = "reading the log, and the savepoint to start from"
    CLAIMING = "claiming the next attempt in the log"
    RECOVERING = "committing the output that the restored checkpoint lists"
    STARTING = "starting the attempt"
    RUNNING = "running"
    FINISHING = "the final checkpoint is committed everywhere"
    STOPPING = "ending a failed attempt"
    LEAVING = "ending the attempt, on request"
    RESCALING = "ending the attempt, to resume with another parallelism"
    HANDING_OVER = "ending the attempt, to hand the job over"
    AWAITING = "another driver runs the job; this one is ready to take it over"
    WAITING = "waiting to restart, or for slots"
    ENDED = "ended"


class JobLifecycle:
    """The job's state in one driver. Only `Coordinator` calls its methods; each returns actions."""

    def __init__(
        self,
        checkpoints: Checkpointing,
        starting: NextAttempt,
        source_phases: SourcePhases,
        read_splits: ReadSplits,
        discovery: SplitDiscovery,
        available_now: AvailableNow,
        restart: RestartStrategy,
        handover: SuccessionLimits,
        *,
        restore_ahead: bool,
    ) -> None:
        self._restore_ahead = restore_ahead
        self._checkpoints = checkpoints
        self._starting = starting
        self._source_phases = source_phases
        self._read_splits = read_splits
        self._discovery = discovery
        self._available_now = available_now
        self._failures = Failures(restart)
        self._handover = handover

        self.state = LifecycleState.NEW
        self.last_error: RheosError | None = None
        """Error of the newest failed attempt."""
        self.shortage: RheosError | None = None
        """Error about missing slots, while no attempt can run."""
        self.log = LogWriter()
        self.resume_ms = 0
        """Time at which a WAITING job reads the log again."""

        self.recovery_error: RheosError | None = None
        """Why the recovery commit is being retried; None if it is not."""
        self._recovery_pause = Backoff(_FOR_EVER_US, first_us=100_000)
        self._retry_recovery_ms: int | None = None
        self._leave_by_ms: int | None = None
        """Time at which a LEAVING job ends even if a publication is still running."""

        self.succession: Succession | None = None
        """Wait for the job, while another driver runs it or may run it (UP3)."""
        self.misfit: RheosError | None = None
        """Why this driver could not continue the job from its newest checkpoint, while it waits."""
        self._look_ms: int | None = None
        """Time at which an AWAITING driver reads the log again; None while it does so."""
        self._uncertain_offer: str | None = None
        """Successor named by an entry whose write has failed: it may be in the log all the same."""
        self._looked_at: int | None = None
        """Next number of the log at the last look."""
        self.is_state_written_again_soon = False
        """Whether a handover is better requested later, as of the last look (UP10)."""

        self._confirms_soon = False
        """Whether the first checkpoint opens soon, as the other driver waits for it (UP8, UP11)."""
        self._is_recovered = False
        self._has_claimed = False
        """Whether this driver has claimed an attempt."""
        self.attempt_lives = False
        """Whether an attempt was started and has not ended."""
        self._finish_logged = False
        self._outcome = Outcome.CANCELLED
        """Outcome of a LEAVING job."""

    @property
    def attempt(self) -> Attempt:
        return self._checkpoints.attempt

    @property
    def earlier(self) -> JobCounts:
        """Return the counts of the job from before this driver."""
        return self._starting.earlier

    @property
    def has_looked(self) -> bool:
        """Return whether this driver waits, has read the log, and could continue the job."""
        return self.succession is not None and self._looked_at is not None and self.misfit is None

    @property
    def parallelism(self) -> int:
        """Return the parallelism of the attempt."""
        return self._checkpoints.parallelism

    # --- starting an attempt ----------------------------------------------------------------------

    def read_log(self) -> list[Action]:
        self.state = LifecycleState.READING
        return [ReadLog()]

    def wait_for_job(self, owner: str) -> list[Action]:
        """Wait until the job is handed over to this driver. It has not run the job before."""
        self.succession = Succession(owner, self._handover)
        self.state = LifecycleState.AWAITING
        return [ReadLog()]

    def claim(self, read: LogRead | SavepointRead, now_ms: int) -> list[Action]:
        """Claim the next attempt, if everything is known and it can be placed."""
        if self.state is LifecycleState.AWAITING:
            assert isinstance(read, LogRead)
            return self._looked(read, now_ms)
        assert self.state is LifecycleState.READING
        if self._uncertain_offer is not None and isinstance(read, LogRead):
            successor, self._uncertain_offer = self._uncertain_offer, None
            if not self._starting.is_newest_without_offer(read.view):
                self._offer(successor, 0)
                self.state = LifecycleState.AWAITING
                return self._looked(read, now_ms)
        try:
            if isinstance(read, LogRead):
                next = self._starting.log_read(read, self.log.next_number, now_ms)
            else:
                next = self._starting.savepoint_read(read, now_ms)
        except RheosError as error:
            return self._end(Outcome.FAILED, error)
        match next:
            case FirstRead(directory, thorough):
                return [ReadSavepoint(directory, thorough)]
            case NoStep(totals):
                return self._end(Outcome.FINISHED, finished_before=totals)
            case WaitForSlots(until_ms, shortage):
                self.shortage = shortage
                self.state, self.resume_ms = LifecycleState.WAITING, until_ms
                return []
            case ReportShortage(shortage):
                self.shortage = shortage
                return self.fails_to_start(shortage, now_ms)
            case Ready(continuation, parallelism, outlived, rescaled):
                self.shortage = None
                self.log.next_number = self._starting.next_number
                self._is_recovered = False
                self.state = LifecycleState.CLAIMING
                claim = self._checkpoints.begin(
                    continuation, outlived, parallelism, rescaled, self.earlier
                )
                return [self.log.append(claim)]

    def _looked(self, read: LogRead, now_ms: int) -> list[Action]:
        """Decide after a read of the log, while another driver runs the job or may run it."""
        assert self.succession is not None
        is_new = read.view.next_number != self._looked_at
        if is_new:
            self._looked_at = read.view.next_number
            self.misfit = self._starting.misfit(read.view)
            newest = read.view.completed[-1].entry if read.view.completed else None
            self.is_state_written_again_soon = newest is not None and is_written_again_soon(newest)
            if self.misfit is not None and not self.succession.was_incumbent:
                return self._end(Outcome.FAILED, self.misfit)  # UP2: nothing was asked of the job.
        match self.succession.look(read.view, now_ms):
            case SuccessionStep.WAIT:
                self._look_ms = self.succession.next_look_ms(now_ms)
                prepares = is_new and self.misfit is None and self.succession.prepares
                return self._starting.preparation(read.view) if prepares else []
            case SuccessionStep.CLAIM:
                if self.succession.situation not in (Situation.OFFERED, Situation.OWN):
                    self._checkpoints.stats = CheckpointStats()  # The log has those before it.
                self._confirms_soon = self.succession.situation is Situation.NAMED
                self.log.next_number = None
                self.state = LifecycleState.READING
                actions = self.claim(read, now_ms)
                self.log.next_number = read.view.next_number
                return actions
            case SuccessionStep.LOST:
                return self._end(Outcome.FAILED, self._starting.fenced())
            case SuccessionStep.END if self.succession.situation is Situation.FINISHED:
                return self._end(Outcome.FINISHED, finished_before=self._starting.totals(read.view))
            case SuccessionStep.END:
                return self._end(Outcome.STOPPED)
            case other:
                assert_never(other)

    def look_now(self) -> list[Action]:
        """Read the log at once, if this driver waits for the job."""
        if self.state is not LifecycleState.AWAITING or self._look_ms is None:
            return []
        self._look_ms = None
        return [ReadLog()]

    def _not_looked(self, now_ms: int) -> list[Action]:
        """Look again later, because the log could not be read or written."""
        assert self.succession is not None
        self.state = LifecycleState.AWAITING
        self._look_ms = self.succession.next_look_ms(now_ms)
        return []

    def _claimed(self) -> list[Action]:
        self.state = LifecycleState.RECOVERING
        self._has_claimed = True
        self.succession = self.misfit = None
        self._recovery_pause.restore()
        return [*self._checkpoints.claimed(), self._recover()]

    def _recover(self) -> Recover:
        self._retry_recovery_ms = self.recovery_error = None
        return Recover(self.attempt, self._checkpoints.own, self._checkpoints.restore is None)

    def recovery_failed(self, event: RecoveryFailed, now_ms: int) -> list[Action]:
        """Retry the recovery commit while a target is unavailable, or apply the restart strategy."""
        assert self.state is LifecycleState.RECOVERING
        if not isinstance(event.error, UnavailableError):
            return self.fails_to_start(event.error, now_ms)
        self.recovery_error = event.error
        pause_us = self._recovery_pause.failed(now_ms * 1000)
        assert pause_us is not None, "a sink retries an unavailable target forever"
        self._retry_recovery_ms = now_ms + pause_us // 1000
        return []

    def recovered(self, event: Recovered) -> list[Action]:
        assert self.state is LifecycleState.RECOVERING
        assert event.attempt == self.attempt
        self._is_recovered = True
        return [*self._checkpoints.recovered(), *self._start_attempt()]

    def _start_attempt(self) -> list[Action]:
        savepoints = self._checkpoints.savepoints
        final = self._checkpoints.final
        if savepoints.stage is Stage.TAKEN:
            if not savepoints.rescales:
                return self.leave(Outcome.STOPPED)
            savepoints.rescale()  # This attempt was claimed with the new parallelism.
        if savepoints.holds or (final is not None and savepoints.is_of(final)):
            return []  # Once its manifest is written, nothing may be left to run.
        if final is not None:
            # Only the commits were missing, and they are done now.
            self.state = LifecycleState.FINISHING
            return [self.log.append(self._checkpoints.finished())]
        assert not self.attempt_lives, "CP6: at most one attempt runs"
        self.state = LifecycleState.STARTING
        self.attempt_lives = True
        self._source_phases.begin(self.attempt, self.parallelism)
        self._read_splits.begin(self.attempt, self.parallelism)
        self._discovery.begin(self.attempt, self.parallelism)
        self._available_now.begin(self.parallelism)
        return [StartAttempt(self.attempt, self._checkpoints.restore, self.parallelism)]

    def connected(self, now_ms: int, *, prepared: bool) -> list[Action]:
        """Set the job running: all subtasks of the attempt are connected. `prepared`: their slots had
        restored state ahead."""
        if self.state is LifecycleState.STARTING:
            self.state = LifecycleState.RUNNING
            self._checkpoints.connected(now_ms, soon=self._confirms_soon or prepared)
            self._confirms_soon = False
            return self._checkpoints.savepoints.running()
        return []

    def resume(self, now_ms: int) -> list[Action]:
        """Continue after a wait, if its time has passed."""
        due_ms = self.due_ms()
        if due_ms is None or now_ms < due_ms:
            return []
        match self.state:
            case LifecycleState.RECOVERING:
                return [self._recover()]
            case LifecycleState.LEAVING:
                return self._end(self._outcome)
            case LifecycleState.AWAITING:
                return self.look_now()
            case _:
                self._checkpoints.stats.restarts += self.shortage is None
                return self.read_log()

    def due_ms(self) -> int | None:
        """Return when `resume` has something to do, on the monotonic clock; None if never."""
        match self.state:
            case LifecycleState.WAITING:
                return self.resume_ms
            case LifecycleState.RECOVERING:
                return self._retry_recovery_ms
            case LifecycleState.LEAVING:
                return self._leave_by_ms
            case LifecycleState.AWAITING:
                return self._look_ms
            case _:
                return None

    def go_on(self) -> list[Action]:
        """Continue after a commit or a settled savepoint, if something follows from it."""
        savepoints = self._checkpoints.savepoints
        if self.state is LifecycleState.RUNNING and savepoints.stage is Stage.TAKEN:
            if savepoints.offer is not None:
                return self._hand_over()
            return self._rescale() if savepoints.rescales else self.leave(Outcome.STOPPED)
        if self.state is LifecycleState.RUNNING and not self.log.busy and self._checkpoints.is_done():
            self.state = LifecycleState.FINISHING
            return [self.log.append(self._checkpoints.finished())]
        if self.state is LifecycleState.RECOVERING and self._is_recovered:
            return self._start_attempt()
        return []

    def _rescale(self) -> list[Action]:
        """Stop the attempt in order to rescale. All its work is committed, so the next attempt
        continues from there (CP40)."""
        self._checkpoints.savepoints.rescale()
        self._checkpoints.publishing.abandon()
        self.state = LifecycleState.RESCALING
        return [StopAttempt(self.attempt)]

    def _hand_over(self) -> list[Action]:
        """Stop the attempt in order to hand the job over. All its work is committed (UP1)."""
        self._checkpoints.publishing.abandon()
        self.state = LifecycleState.HANDING_OVER
        return [StopAttempt(self.attempt)]

    def slots_left(self) -> list[Action]:
        """Answer a request to hand the job over, because all slots have closed their operators (UP6).
        This driver waits for the successor only when its attempt has ended."""
        in_progress = self.log.busy or self._checkpoints.publishing.under_way
        if self.state is not LifecycleState.HANDING_OVER or in_progress:
            return []
        self._offer_as_requested()
        return self._checkpoints.savepoints.answer_handover()

    def _handed_over(self) -> list[Action]:
        """Answer the request, because nothing of this driver runs, and wait for the successor."""
        if self.succession is None:
            self._offer_as_requested()
        self.state = LifecycleState.AWAITING
        return [*self._checkpoints.savepoints.handed_over(), ReadLog()]

    def _offer_as_requested(self) -> None:
        request = self._checkpoints.savepoints.offer
        assert request is not None
        assert request.successor is not None
        self._offer(request.successor, request.keep_ms)

    def _offer(self, successor: str, keep_ms: int) -> None:
        """Offer the job to the successor that the log names (UP3)."""
        limits = replace(self._handover, keep_ms=keep_ms)
        self.succession = Succession(self._starting.owner, limits, offered_to=successor)
        self._looked_at = None

    # --- the log ----------------------------------------------------------------------------------

    def appended(self, number: int, now_ms: int) -> list[Action]:
        entry = self.log.appended(number)
        match entry:
            case AttemptStarted():
                return self._claimed()
            case CheckpointCompleted():
                running = self.state is LifecycleState.RUNNING
                announced: list[Action] = (
                    [] if self.state is LifecycleState.LEAVING else [Announce(entry)]
                )
                notices = self._checkpoints.entered(number, entry, now_ms, running)
                prepared = self._prepare_next(entry) if running else []
                return [*announced, *notices, *prepared, *self.settle(now_ms)]
            case JobFinished():
                return self._finished()

    def _prepare_next(self, entry: CheckpointCompleted) -> list[Action]:
        """Let slots restore the attempt's newest checkpoint ahead of the next attempt, if that is
        configured (UP12). None follows the last checkpoint of a job, or of an incumbent."""
        if not self._restore_ahead or entry.final or entry.successor is not None:
            return []
        return [PrepareState(Restore(entry=entry), self.parallelism)]

    def _finished(self) -> list[Action]:
        """Process the answer that the end of the job is in the log. Later failures have no effect."""
        self._finish_logged = True
        if not self.attempt_lives:
            return self._end(Outcome.FINISHED)
        stopping = self.state is not LifecycleState.FINISHING
        self.state = LifecycleState.FINISHING
        return [] if stopping else [SendToAll(Finish(attempt=self.attempt))]

    def log_lost(self, number: int, now_ms: int) -> list[Action]:
        """End this driver, because another one has written the entry (CP2)."""
        self.log.answered(number)
        if self.state is LifecycleState.CLAIMING and self.succession is not None:
            return self._not_looked(now_ms)  # The other driver was faster: look again.
        if self.state is LifecycleState.CLAIMING or (
            self.state is LifecycleState.FINISHING and not self.attempt_lives
        ):
            return self._end(Outcome.FAILED, self._starting.fenced())
        actions: list[Action] = []
        if self.state in (LifecycleState.RUNNING, LifecycleState.FINISHING):
            actions.append(SendToAll(Cancel(attempt=self.attempt)))
        return [*actions, *self._entry_failed(self._starting.fenced(), now_ms)]

    def log_failed(self, event: LogFailed, now_ms: int) -> list[Action]:
        entry = self.log.answered(event.number)
        if isinstance(entry, CheckpointCompleted) and entry.successor is not None:
            self._uncertain_offer = entry.successor
        if self.state is LifecycleState.CLAIMING and self.succession is not None:
            return self._not_looked(now_ms)
        if self.state is LifecycleState.CLAIMING:
            return self.not_started(event.error, now_ms)
        return self._entry_failed(event.error, now_ms)

    def _entry_failed(self, error: RheosError, now_ms: int) -> list[Action]:
        failed = self.failed(error, now_ms)
        return [*failed, *self._checkpoints.abandon(None, error), *self.settle(now_ms)]

    # --- failures and ends ------------------------------------------------------------------------

    def failed(self, error: RheosError, now_ms: int) -> list[Action]:
        """Stop the running attempt after a failure. The job decides what follows only after the attempt
        has ended, because the error that explains the others may arrive later."""
        match self.state:
            case LifecycleState.FINISHING if self._finish_logged:
                return [StopAttempt(self.attempt)]  # The job is done; only its processes remain.
            case LifecycleState.STARTING | LifecycleState.RUNNING | LifecycleState.FINISHING:
                self._failures.first(error, now_ms)
            case LifecycleState.STOPPING:
                self._failures.further(error)
                return []
            case _:
                return []
        self._starting.attempt_failed(now_ms)
        self.last_error = error
        abandoned = self._checkpoints.abandon(self.log.checkpoint, error)
        self.state = LifecycleState.STOPPING
        if self.attempt_lives:
            return [StopAttempt(self.attempt), *abandoned]
        return [*abandoned, *self.settle(now_ms)]

    def ended(self, event: AttemptEnded, now_ms: int) -> list[Action]:
        if event.attempt != self.attempt or not self.attempt_lives:
            return []
        self.attempt_lives = False
        if self._finish_logged:
            return self._end(Outcome.FINISHED)
        if self.state in (LifecycleState.STARTING, LifecycleState.RUNNING):
            gone = TransportError(f"attempt {self.attempt} ended before it had finished")
            return self.failed(gone, now_ms)
        return self.settle(now_ms)

    def settle(self, now_ms: int) -> list[Action]:
        """Continue once the attempt has ended, and no write to the log or to a sink is running."""
        if self.attempt_lives or self.log.busy:
            return []
        if self._checkpoints.publishing.under_way:
            if self.state is LifecycleState.LEAVING and self._leave_by_ms is None:
                self._leave_by_ms = now_ms + LEAVE_WITHIN_MS
            return []
        match self.state:
            case LifecycleState.STOPPING | LifecycleState.HANDING_OVER if (
                self._checkpoints.savepoints.offer is not None
            ):
                return self._handed_over()
            case LifecycleState.STOPPING:
                return self._restart_or_end(now_ms)
            case LifecycleState.LEAVING:
                return self._end(self._outcome)
            case LifecycleState.RESCALING:
                return self.read_log()
            case _:
                return []

    def not_started(self, error: RheosError, now_ms: int) -> list[Action]:
        """Handle a failure to read or claim the state that an attempt starts from. Before this driver's
        first attempt, it fails the job at once."""
        if self.succession is not None:
            return self._not_looked(now_ms)
        if not self._has_claimed:
            return self._end(Outcome.FAILED, error)
        return self.fails_to_start(error, now_ms)

    def fails_to_start(self, error: RheosError, now_ms: int) -> list[Action]:
        self._failures.first(error, now_ms)
        return self._restart_or_end(now_ms)

    def _restart_or_end(self, now_ms: int) -> list[Action]:
        error, after_ms = self._failures.decide()
        if after_ms is None:
            return self._end(Outcome.FAILED, error)
        if error is not self.shortage:
            self.last_error = error
        self.state = LifecycleState.WAITING
        self.resume_ms = now_ms + after_ms
        return []

    def leave(self, outcome: Outcome) -> list[Action]:
        """End the job on request."""
        match self.state:
            case LifecycleState.STARTING | LifecycleState.RUNNING:
                self.state, self._outcome = LifecycleState.LEAVING, outcome
                self._checkpoints.publishing.abandon()
                return [SendToAll(Cancel(attempt=self.attempt)), StopAttempt(self.attempt)]
            case LifecycleState.STOPPING | LifecycleState.RESCALING | LifecycleState.HANDING_OVER:
                self.state, self._outcome = LifecycleState.LEAVING, outcome
                return []
            case LifecycleState.FINISHING if self.attempt_lives:
                return [StopAttempt(self.attempt)]  # Its output is published: it ends as finished.
            case LifecycleState.LEAVING:
                return []
            case _:
                return self._end(outcome)

    def _end(
        self,
        outcome: Outcome,
        error: RheosError | None = None,
        finished_before: Totals | None = None,
    ) -> list[Action]:
        self.state = LifecycleState.ENDED
        self.last_error = error
        why = "the job has finished" if outcome is Outcome.FINISHED else f"the job was {outcome.value}"
        if error is not None:
            why = f"the job failed: {error.what}"
        return [*self._checkpoints.savepoints.end(why), EndJob(outcome, error, finished_before)]
