"""The coordinator opens checkpoints, enters them in the log, and leads a job through its attempts.

Pure decisions: `handle(event, now_ms)` returns the resulting actions, and the same events yield the
same actions. The coordinator reads no clock and does no I/O. The master executes the actions and
reports their results. CP numbers are those of docs/protocols/checkpoints.md.

    NEW -> READING -> CLAIMING -> RECOVERING -> STARTING -> RUNNING -> FINISHING -> ENDED
              ^                       |            |           |
              |                       v            v           v
           WAITING <--------------- (restart strategy) <--- STOPPING

The parts and their responsibilities, each in a file of its own:

    coordinator         passes each event to the parts that it concerns, and records the decisions
    lifecycle           owns the state of the job, as above: from one attempt to the next, to the end
    log_writer          adds entries to the log, one at a time
    next_attempt        from the log, as it was read, to the attempt to claim: what it starts from
                        (`continuation`), and how wide it is (`placement`)
    acknowledgements    whether the files that a subtask reports as written are possible ones
    checkpointing       the checkpoints of the running attempt: open ones (`open_checkpoints`),
                        requested savepoints (`savepoint_requests`), retained ones (`retention`), and
                        publications by the driver (`publishing`)
    source_phases       the phase of the sources' splits that may be opened
    read_splits         splits that were read, for those that follow them
    split_discovery     splits of the sources that are discovered at run time
    succession          when a driver that waits for the job may claim it
    available_now       whether a run over the available input has read all of it
    restart             whether another attempt follows a failed one
"""

from __future__ import annotations

from collections.abc import Mapping

from rheos.core.checkpoint.acknowledgements import problem
from rheos.core.checkpoint.available_now import AvailableNow
from rheos.core.checkpoint.checkpointing import AwaitedRequest, Checkpointing
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.checkpoint.decision_log import CoordinatorDecision, DecisionLog
from rheos.core.checkpoint.events import (
    Action,
    AfterSavepoint,
    AttemptEnded,
    AttemptLost,
    AttemptRunning,
    CancelRequested,
    CheckpointStats,
    Event,
    JobShape,
    LeaveRequested,
    ListSplits,
    LogAppended,
    LogFailed,
    LogLost,
    LogRead,
    LogUnreadable,
    OtherGone,
    Outcome,
    Published,
    PublishFailed,
    Recovered,
    RecoveryFailed,
    SavepointEnded,
    SavepointNotWritten,
    SavepointRead,
    SavepointRequested,
    SavepointUnreadable,
    SavepointWritten,
    SlotsLeft,
    SplitsListed,
    SplitsNotListed,
    Start,
    SubtaskFailed,
    Tick,
    WaitWithdrawn,
)
from rheos.core.checkpoint.handover_situation import Situation
from rheos.core.checkpoint.lifecycle import JobLifecycle, LifecycleState
from rheos.core.checkpoint.log_entries import CheckpointCompleted, JobCounts
from rheos.core.checkpoint.names import state_folder
from rheos.core.checkpoint.next_attempt import NextAttempt
from rheos.core.checkpoint.read_splits import ReadSplits
from rheos.core.checkpoint.source_phases import SourcePhases
from rheos.core.checkpoint.split_discovery import SplitDiscovery
from rheos.core.checkpoint.succession import SuccessionLimits
from rheos.core.checkpoint.upgrade import NOTHING_ALLOWED, Upgrade
from rheos.core.errors import CheckpointError, RheosError
from rheos.core.protocol.control import (
    Acknowledge,
    CaughtUp,
    Committed,
    Decline,
    Drained,
    PhaseRead,
    SplitsRead,
    SplitsTaken,
    StopNeeded,
)
from rheos.core.protocol.ids import Attempt, JobId, OperatorId

_BETWEEN_ATTEMPTS = (
    LifecycleState.READING,
    LifecycleState.CLAIMING,
    LifecycleState.RECOVERING,
    LifecycleState.WAITING,
)

_ENDS_BY_ITSELF = (
    LifecycleState.RUNNING,
    LifecycleState.FINISHING,
    LifecycleState.LEAVING,
    LifecycleState.ENDED,
)
"""States in which a driver that must end only has to take a checkpoint, if anything."""


class Coordinator:
    """The coordinator of one job in one driver. The driver's master owns it."""

    def __init__(
        self,
        job: JobId,
        owner: str,
        config: CheckpointConfig,
        shape: JobShape,
        directory: str = "its checkpoint directory",
        *,
        from_savepoint: str | None = None,
        upgrade: Upgrade = NOTHING_ALLOWED,
        min_parallelism: int | None = None,
        handover: SuccessionLimits | None = None,
        waits: bool = False,
    ) -> None:
        """Coordinate the job `job` for the driver `owner`.

        If `waits`, another driver runs the job, and this one waits until the job is handed over to it.
        """
        starting = NextAttempt(
            job,
            owner,
            directory,
            shape,
            config,
            from_savepoint=from_savepoint,
            upgrade=upgrade,
            min_parallelism=min_parallelism,
        )
        self._checkpoints = Checkpointing(owner, config, shape)
        self._operators = shape.operators.keys()
        self._states = state_folder(job)
        self._source_phases = SourcePhases()
        self._read_splits = ReadSplits()
        self._discovery = SplitDiscovery(shape.watched)
        self._available_now = AvailableNow(shape.until_now)
        self._life = JobLifecycle(
            self._checkpoints,
            starting,
            self._source_phases,
            self._read_splits,
            self._discovery,
            self._available_now,
            config.restart,
            handover or SuccessionLimits(),
            restore_ahead=config.restore_ahead,
        )
        self._owner = owner
        self._waits = waits
        self._leaves = False
        """Whether the driver must end (CP46)."""
        self._decisions = DecisionLog()

    # --- queries from outside ---------------------------------------------------------------------

    @property
    def state(self) -> LifecycleState:
        return self._life.state

    @property
    def attempt(self) -> Attempt:
        return self._checkpoints.attempt

    @property
    def parallelism(self) -> int:
        """Return the parallelism of the attempt."""
        return self._checkpoints.parallelism

    @property
    def restarts(self) -> int:
        """Return the number of restarts under this driver."""
        return self._checkpoints.stats.restarts

    @property
    def earlier(self) -> JobCounts:
        """Return the counts of the job from before this driver."""
        return self._life.earlier

    @property
    def misfit(self) -> RheosError | None:
        """Return why a driver that waits could not continue the job; None if it could."""
        return self._life.misfit

    @property
    def has_looked(self) -> bool:
        """Return whether a driver that waits has read the log, and could continue the job."""
        return self._life.has_looked

    @property
    def is_ready_for_handover(self) -> bool:
        """Return whether a driver that waits could continue the job now, without reading a large state
        anew."""
        return self._life.has_looked and not self._life.is_state_written_again_soon

    @property
    def situation(self) -> Situation | None:
        """Return what a driver that waits has read in the log; None for one that does not wait."""
        return None if self._life.succession is None else self._life.succession.situation

    @property
    def last_error(self) -> RheosError | None:
        """Return the error of the newest failed attempt."""
        return self._life.last_error

    @property
    def stop_reason(self) -> str | None:
        """Return why the job stops by itself though its input continues; None if it does not."""
        return self._available_now.stop_reason

    @property
    def shortage(self) -> RheosError | None:
        """Return the error about missing slots, while no attempt can run; otherwise None."""
        return self._life.shortage

    @property
    def recovery_error(self) -> RheosError | None:
        """Return why the recovery commit is being retried; None if it is not."""
        return self._life.recovery_error

    def unpublished(self) -> Mapping[OperatorId, RheosError]:
        """Return the newest error of each sink whose publication by the driver is being retried."""
        return self._checkpoints.publishing.failing()

    def awaited(self) -> AwaitedRequest | None:
        """Return what the oldest unanswered savepoint, stop or rescale waits for; None without one."""
        return self._checkpoints.awaited()

    @property
    def not_listed(self) -> RheosError | None:
        """Return why no splits can be found now; None if they can, or the reason is unknown."""
        return self._discovery.error

    def decisions(self) -> tuple[CoordinatorDecision, ...]:
        """Return the last thousand events with the actions that resulted from them, oldest first."""
        return self._decisions.decisions()

    @property
    def stats(self) -> CheckpointStats:
        return self._checkpoints.stats

    @property
    def kept(self) -> tuple[CheckpointCompleted, ...]:
        """Return the retained checkpoints, oldest first."""
        return self._checkpoints.kept

    def next_deadline_ms(self) -> int | None:
        """Return the time at which a Tick will next change something, if no other event arrives."""
        match self.state:
            case LifecycleState.RUNNING:
                opening = None if self._life.log.busy else self._checkpoints.deadline_ms()
                deadlines = (opening, self._discovery.deadline_ms())
                return min((due for due in deadlines if due is not None), default=None)
            case _:
                return self._life.due_ms()

    def handle(self, event: Event, now_ms: int, wall_ms: int = 0) -> list[Action]:
        """Process an event, and return the actions. `now_ms` is monotonic; `wall_ms`, the time of day,
        is only recorded."""
        before = self.state
        actions = self._handle(event, now_ms, wall_ms)
        # Ticks, and listings that find nothing, are not recorded.
        says_nothing = isinstance(event, Tick | SplitsListed) and all(
            isinstance(action, ListSplits) for action in actions
        )
        if self.state is not before or not says_nothing:
            self._decisions.note(wall_ms, event, actions, self.state)
        return actions

    def _handle(self, event: Event, now_ms: int, wall_ms: int) -> list[Action]:
        if self.state is LifecycleState.ENDED:
            if isinstance(event, SavepointRequested):
                self._checkpoints.savepoints.ask(event)
                return self._checkpoints.savepoints.end("the job has ended")
            return []
        actions = self._decide(event, now_ms)
        if self._leaves and self.state not in _ENDS_BY_ITSELF:
            # No checkpoint can be taken, and nothing that a checkpoint would keep has been done.
            actions += [*self._life.leave(Outcome.STOPPED), *self._life.settle(now_ms)]
        if self.state is LifecycleState.RUNNING and not self._life.log.busy:
            actions += self._proceed(now_ms, wall_ms)
        self._check()
        return actions

    def _decide(self, event: Event, now_ms: int) -> list[Action]:
        match event:
            case (
                Acknowledge()
                | Decline()
                | Committed()
                | Drained()
                | PhaseRead()
                | SplitsRead()
                | CaughtUp()
                | StopNeeded()
                | SplitsTaken()
            ):
                # CP5: a zombie's messages are ignored. The next attempt's sweep deletes its files.
                own = event.attempt == self.attempt and 0 <= event.subtask < self.parallelism
                return self._reported(event, now_ms) if own else []
            case Tick():
                return self._tick(now_ms)
            case LogAppended():
                return self._life.appended(event.number, now_ms)
            case LogLost():
                return self._life.log_lost(event.number, now_ms)
            case LogFailed():
                return self._life.log_failed(event, now_ms)
            case LogRead() | SavepointRead():
                return self._life.claim(event, now_ms)
            case LogUnreadable() | SavepointUnreadable():
                assert self.state in (LifecycleState.READING, LifecycleState.AWAITING)
                return self._life.not_started(event.error, now_ms)
            case Recovered():
                return self._life.recovered(event)
            case RecoveryFailed():
                return self._life.recovery_failed(event, now_ms)
            case Published():
                return [
                    *self._checkpoints.publishing.published(event.operator, event.checkpoint),
                    *self._life.settle(now_ms),
                ]
            case PublishFailed():
                return self._publish_failed(event, now_ms)
            case SplitsListed():
                return self._discovery.listed(event, now_ms, self.state is LifecycleState.RUNNING)
            case SplitsNotListed():
                running = self.state is LifecycleState.RUNNING
                error = self._discovery.not_listed(event, now_ms, running)
                return [] if error is None else self._life.failed(error, now_ms)
            case AttemptRunning():
                own = event.attempt == self.attempt
                return self._life.connected(now_ms, prepared=event.prepared) if own else []
            case SubtaskFailed() | AttemptLost():
                return self._life.failed(event.error, now_ms) if event.attempt == self.attempt else []
            case SlotsLeft():
                return self._life.slots_left() if event.attempt == self.attempt else []
            case AttemptEnded():
                return self._life.ended(event, now_ms)
            case CancelRequested():
                return [*self._life.leave(Outcome.CANCELLED), *self._life.settle(now_ms)]
            case LeaveRequested():
                self._leaves = True
                return []
            case SavepointRequested() if self.state is LifecycleState.AWAITING:
                return [SavepointEnded(event.request, _run_by_another())]
            case SavepointRequested(after=AfterSavepoint.RESCALE):
                return self._rescale(event)
            case SavepointRequested(after=AfterSavepoint.HAND_OVER):
                return self._hand_over(event)
            case SavepointRequested():
                self._checkpoints.savepoints.ask(event)
                return []
            case SavepointWritten():
                return self._savepoint_written(event)
            case SavepointNotWritten():
                failed = self._checkpoints.savepoints.not_written(event.request, event.error)
                return [*failed, *self._life.go_on()]
            case Start():
                assert self.state is LifecycleState.NEW
                return self._life.wait_for_job(self._owner) if self._waits else self._life.read_log()
            case OtherGone():
                if self._life.succession is not None:
                    self._life.succession.other_is_gone()
                return self._life.look_now()
            case WaitWithdrawn():
                if self._life.succession is not None:
                    self._life.succession.withdraw()
                return self._life.look_now()

    # --- while the job runs -----------------------------------------------------------------------

    def _reported(
        self,
        event: Acknowledge
        | Decline
        | Committed
        | Drained
        | PhaseRead
        | SplitsRead
        | CaughtUp
        | StopNeeded
        | SplitsTaken,
        now_ms: int,
    ) -> list[Action]:
        running = self.state is LifecycleState.RUNNING
        match event:
            case Acknowledge():
                wrong = problem(event, self._operators, self.parallelism, self._states)
                if wrong is not None:
                    return self._life.failed(_not_taken(event, wrong), now_ms)
                self._checkpoints.acknowledge(event, now_ms, running)
            case Drained() if running or self.state is LifecycleState.STARTING:
                self._checkpoints.drained(event.subtask)
            case Decline() if running:
                return self._aborted(*self._checkpoints.decline(event, now_ms), now_ms)
            case PhaseRead() if running or self.state is LifecycleState.STARTING:
                return self._source_phases.reported(event)
            case SplitsRead() if running or self.state is LifecycleState.STARTING:
                return self._read_splits.reported(event)
            case CaughtUp() if running or self.state is LifecycleState.STARTING:
                self._available_now.reported(event)
            case StopNeeded() if running or self.state is LifecycleState.STARTING:
                self._available_now.stop_needed(event)
            case SplitsTaken() if running:
                return self._discovery.taken(event, now_ms)
            case Committed() if running:
                return [*self._checkpoints.committed(event), *self._life.go_on()]
            case _:
                pass
        return []

    def _tick(self, now_ms: int) -> list[Action]:
        if self.state is not LifecycleState.RUNNING:
            return self._life.resume(now_ms)
        again = [*self._checkpoints.publishing.tick(now_ms), *self._discovery.tick(now_ms)]
        return [*again, *self._aborted(*self._checkpoints.overdue(now_ms), now_ms)]

    def _publish_failed(self, event: PublishFailed, now_ms: int) -> list[Action]:
        """Handle a failed publication. Without a retry it fails the attempt, like a failed commit."""
        error = self._checkpoints.publishing.failed(
            event.operator, event.checkpoint, event.error, now_ms
        )
        return self._life.settle(now_ms) if error is None else self._life.failed(error, now_ms)

    def _aborted(self, notices: list[Action], error: RheosError | None, now_ms: int) -> list[Action]:
        return notices if error is None else [*notices, *self._life.failed(error, now_ms)]

    def _proceed(self, now_ms: int, wall_ms: int) -> list[Action]:
        """Enter complete checkpoints, or open one that is due. One entry is written at a time (CP1)."""
        if self._leaves or self._available_now.is_over:
            self._checkpoints.savepoints.ask_to_stop()
        entry = self._checkpoints.entry(wall_ms)
        return self._checkpoints.proceed(now_ms) if entry is None else [self._life.log.append(entry)]

    def _rescale(self, event: SavepointRequested) -> list[Action]:
        """Start a rescale at once, or refuse it. It never waits."""
        refused = self._checkpoints.not_rescalable(event)
        if refused is None and self.state is not LifecycleState.RUNNING:
            refused = CheckpointError(
                f"the job was not rescaled: it is not running ({self.state.value})",
                hint="try again when it runs",
            )
        if refused is not None or self._checkpoints.is_as_wide(event.parallelism):
            return [SavepointEnded(event.request, refused)]
        self._checkpoints.savepoints.ask(event)
        return []

    def _hand_over(self, event: SavepointRequested) -> list[Action]:
        """Begin a handover at once, or refuse it. It never waits (UP1)."""
        assert event.successor is not None
        refused = self._checkpoints.not_endable("handed over")
        if refused is None and self.state is not LifecycleState.RUNNING:
            refused = CheckpointError(
                f"the job was not handed over: it is not running ({self.state.value})",
                hint="try again when it runs",
            )
        if refused is not None:
            return [SavepointEnded(event.request, refused)]
        self._checkpoints.savepoints.ask(event)
        return []

    def _savepoint_written(self, event: SavepointWritten) -> list[Action]:
        stops = self._checkpoints.savepoints.written(event.request)
        if stops is None:
            return []
        return [
            SavepointEnded(event.request),
            *(self._life.leave(Outcome.STOPPED) if stops else self._life.go_on()),
        ]

    def _check(self) -> None:
        """Assert the invariants that hold after every event."""
        self._checkpoints.check()
        if self.state in (LifecycleState.STARTING, LifecycleState.RUNNING):
            assert self._life.attempt_lives
        if self.state in (
            LifecycleState.READING,
            LifecycleState.CLAIMING,
            LifecycleState.RECOVERING,
            LifecycleState.WAITING,
            LifecycleState.AWAITING,
        ):
            assert not self._life.attempt_lives, "CP6: the previous attempt has ended"


def _run_by_another() -> CheckpointError:
    return CheckpointError(
        "this driver does not run the job: it has handed the job over, or waits for it",
        hint="send the command to the driver that runs the job",
    )


def _not_taken(share: Acknowledge, wrong: str) -> CheckpointError:
    return CheckpointError(
        f"the acknowledgement of checkpoint {share.checkpoint} by subtask {share.subtask} is "
        f"rejected: {wrong}",
        hint="check that its worker has the same version of Rheos as the driver",
    )
