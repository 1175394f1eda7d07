"""The master: executes what the coordinator decides, in the continuous and the simulated runtime.

It turns the launcher's events into the coordinator's, and the coordinator's actions into calls of the
launcher, the log and the store. It has no thread and never waits: its owner calls `step`.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import pyarrow as pa

from rheos.core.checkpoint.coordinator import Coordinator
from rheos.core.checkpoint.decision_log import CoordinatorDecision
from rheos.core.checkpoint.events import (
    Action,
    AfterSavepoint,
    Announce,
    AppendLog,
    AttemptEnded,
    AttemptLost,
    CancelRequested,
    DeleteFiles,
    DiscardSavepoint,
    DropEntries,
    EndJob,
    Event,
    JobShape,
    LeaveRequested,
    ListSplits,
    OtherGone,
    PrepareState,
    PublishOnDriver,
    ReadLog,
    ReadSavepoint,
    Recover,
    SavepointEnded,
    SendToAll,
    Start,
    StartAttempt,
    StopAttempt,
    SubtaskFailed,
    SweepFiles,
    Tick,
    WaitWithdrawn,
    WriteSavepoint,
)
from rheos.core.checkpoint.handover_situation import Situation
from rheos.core.checkpoint.lifecycle import LifecycleState
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.errors import (
    CheckpointError,
    OutOfMemoryError,
    RheosError,
    TransportError,
    WorkerLostError,
)
from rheos.core.metrics.event_log import EventKind, EventLevel, JobEvent
from rheos.core.metrics.health import JobHealth
from rheos.core.metrics.history import HistoryConfig
from rheos.core.metrics.history_files import HistoryView
from rheos.core.metrics.model import MetricsReport
from rheos.core.operators.shapes import state_shapes
from rheos.core.plan.outline import PlanOutline
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.control import (
    Acknowledge,
    Committed,
    Failed,
    Logged,
    Progress,
    SourceWatermark,
    SplitsRead,
    SplitsTaken,
    StacksSampled,
    Totals,
)
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.ports import Clock, IoExecutor, Store
from rheos.core.protocol.readings import Reading
from rheos.core.protocol.splits import Split
from rheos.core.protocol.stacks import StackProfile
from rheos.core.redaction import redacted
from rheos.runtimes.driver.autoscaler import Autoscaler
from rheos.runtimes.driver.collected_results import CollectedResults, EarlierResults
from rheos.runtimes.driver.drift import SourceDrift
from rheos.runtimes.driver.driver_logs import pass_on
from rheos.runtimes.driver.driver_work import Listings
from rheos.runtimes.driver.event_keeper import EventKeeper
from rheos.runtimes.driver.health import HealthKeeper, SeenJob
from rheos.runtimes.driver.history import HistoryKeeper
from rheos.runtimes.driver.launcher import Launcher, LauncherEvent
from rheos.runtimes.driver.metrics_keeper import JobTotals, MetricsKeeper
from rheos.runtimes.driver.profiles import ProfileService
from rheos.runtimes.driver.publications import Publications
from rheos.runtimes.driver.savepoints import OpenStore, SavepointService, open_folder
from rheos.runtimes.driver.scaling import SlotLoad
from rheos.runtimes.driver.sources_and_sinks import (
    published_here,
    read_until_now,
    targets,
    watched_sources,
)
from rheos.runtimes.driver.status import StatusView, checkpoint_info
from rheos.runtimes.driver.stored_files import StoredFiles
from rheos.runtimes.driver.subtask_reports import SubtaskReports
from rheos.runtimes.driver.waits import Waits, call_wait
from rheos.runtimes.host.stores import check_writable
from rheos.runtimes.job import CheckpointInfo, JobConfig, JobResult, JobState, JobStatus, JobWait

if TYPE_CHECKING:
    from rheos.runtimes.views.reader import ViewReader


STEP_US_BY_SLOT = 10
"""Least time between steps of a running job, by subtask: 20 ms for 2,000 subtasks."""
STATUS_US_BY_SLOT = 200
"""Least time between statuses that differ in metrics alone, by subtask: 0.4 s for 2,000 subtasks."""
REPORTS = (Progress, Acknowledge, Committed, SplitsTaken, SplitsRead, SourceWatermark, Logged)
"""Messages that change metrics alone. If the coordinator acts on one, the status is due at once."""


class Master:
    """The execution of one job until its end. Other threads may use only the methods under "for any
    thread".

    `open_store` opens the folders of savepoints. `io` runs publications that only the driver can make,
    and `listing` lists watched sources and compacts the log. `splits` are the job's initial splits, and
    `process` returns the metrics of the driver's process. The constructor raises ConfigurationError,
    with the directory, if the store cannot be written.
    """

    def __init__(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        *,
        store: Store,
        clock: Clock,
        launcher: Launcher,
        io: IoExecutor,
        listing: IoExecutor,
        splits: Mapping[OperatorId, Sequence[Split]],
        owner: str | None = None,
        open_store: OpenStore = open_folder,
        process: Callable[[], list[Reading]] = list,
    ) -> None:
        owner = owner or uuid4().hex
        directory = config.checkpoint_dir or "a temporary folder"
        check_writable(store, directory)
        self._plan = plan
        self._job = config.job
        self._names = {operator.id: operator.name for operator in plan.operators()}
        self._clock = clock
        self._launcher = launcher
        self._listings = Listings(plan, listing)
        self._files = StoredFiles(store, config.job, config.checkpoint.log_block, listing)
        self._publications = Publications(plan, config.writer, io, clock, self._files.log.identity)
        shape = JobShape(
            self._names,
            plan.parallelism,
            plan.max_parallelism,
            state_shapes(plan.operators()),
            published_here(plan),
            targets(plan),
            plan.widths(),
            watched_sources(plan, splits),
            read_until_now(plan),
            {operator.id: operator.site for operator in plan.operators()},
        )
        self._coordinator = Coordinator(
            config.job,
            owner,
            config.checkpoint,
            shape,
            directory,
            from_savepoint=config.from_savepoint,
            upgrade=config.upgrade,
            min_parallelism=config.min_parallelism,
            waits=config.succeeds is not None,
        )
        self.owner = owner
        """Id of this driver in the log."""
        self._savepoints = SavepointService(config.job, plan.name, owner, open_store)
        self._profiles = ProfileService()
        self._autoscaler = (
            None if config.scaling is None else Autoscaler(config.scaling, self._savepoints.rescale)
        )
        self._reports = SubtaskReports(plan)
        self._totals = JobTotals(plan, self._reports)
        self._metrics = MetricsKeeper(plan, config.job, self._reports)
        self._history = HistoryKeeper(
            config.job,
            store,
            listing,
            config.history or HistoryConfig(),
            kept=config.history is not None and config.checkpoint_dir is not None,
        )
        self._health = HealthKeeper(PlanOutline.of(plan), config.checkpoint)
        self._waits = Waits(self._names)
        self._waits_now: tuple[JobWait, ...] = ()
        self._events = EventKeeper(
            config.job,
            store,
            listing,
            shape,
            owner,
            driver=config.driver,
            predecessor=config.predecessor,
            began_ms=clock.now_ms(),
            kept=config.checkpoint_dir is not None,
        )
        self._drift = SourceDrift()
        self._collected = CollectedResults(plan)
        self._stored: tuple[CheckpointCompleted, ...] = ()
        self._view_store = store
        self._end: EndJob | None = None
        self._requests: deque[CancelRequested | LeaveRequested | OtherGone | WaitWithdrawn] = deque()
        self._changed = False
        self._reported = False
        """Whether subtasks have reported since the status was computed, and nothing else changed."""
        self._status_due_us = 0
        """Monotonic time from which reports alone lead to a new status."""
        self._done = False
        self._process = process
        self._began_us = self._stepped_us = clock.monotonic_us()
        self._status_view = StatusView(
            config.job,
            plan.name,
            self._coordinator,
            launcher,
            self._reports,
            self._totals,
            self._autoscaler,
            self._events.log,
        )
        self._status = self._status_view.now(self._end, 0.0)
        self._kept: tuple[CheckpointInfo, ...] = ()
        self._decisions: tuple[CoordinatorDecision, ...] = ()

    # --- for any thread ---------------------------------------------------------------------------

    @cached_property
    def views(self) -> ViewReader:
        """Reader of the rows of materialized views."""
        # It loads the operators of joins, which few jobs need.
        from rheos.runtimes.views.reader import ViewReader

        return ViewReader(self._view_store, lambda: self._stored)

    @property
    def done(self) -> bool:
        """Whether the job has ended, so that no further step is needed."""
        return self._done

    def cancel(self) -> None:
        """Request the end of the job. The next steps cancel it."""
        self._requests.append(CancelRequested())

    def leave(self) -> None:
        """Request the end of the job under this driver, with a checkpoint. The next steps take it."""
        self._requests.append(LeaveRequested())

    def request_savepoint(
        self, directory: str, after: AfterSavepoint = AfterSavepoint.GO_ON
    ) -> Future[str]:
        """Request a savepoint in a new folder below `directory`, without waiting for it. The next steps
        take it. The answer is the folder, or a CheckpointError."""
        return self._savepoints.request(directory, after)

    def request_stop(self, directory: str, *, drain: bool) -> Future[str]:
        """Request the end of the job with a savepoint; returns as `request_savepoint` does. With
        `drain`, the input ends first."""
        return self.request_savepoint(directory, AfterSavepoint.DRAIN if drain else AfterSavepoint.STOP)

    def request_rescale(self, parallelism: int) -> Future[str]:
        """Request another parallelism, without waiting for it. The answer comes when the job runs with
        it. If the answer is a ConfigurationError or CheckpointError, nothing has changed."""
        return self._savepoints.rescale(parallelism)

    def request_handover(self, successor: str, keep_ms: int) -> Future[str]:
        """Request that the job is handed over to another driver (UP1), without waiting for it.

        Args:
            successor: `owner` of that driver's master.
            keep_ms: time for which this driver is kept ready afterwards, for a rollback.

        Returns:
            The answer, which comes when nothing of this driver runs. If it is a CheckpointError, the
            job continues here, unless the log already names the successor.
        """
        return self._savepoints.hand_over(successor, keep_ms)

    def other_is_gone(self, lost: str | None = None, seen_ms: int | None = None) -> None:
        """Report that the other driver of a handover has ended its attempt, or is lost (UP4).

        Args:
            lost: process and host of the lost driver, for the event log; None if it is not lost.
            seen_ms: wall-clock time of its last sign of life, ms since the epoch.
        """
        self._requests.append(OtherGone(lost, seen_ms))

    def withdraw(self) -> None:
        """Report that this driver, which waits for the job, is no longer needed (UP5)."""
        self._requests.append(WaitWithdrawn())

    @property
    def situation(self) -> Situation | None:
        """Situation of this driver according to the log; None if it does not wait for the job."""
        return self._coordinator.situation

    @property
    def misfit(self) -> RheosError | None:
        """Error with which this driver, which waits, would refuse the job's state; None if it fits."""
        return self._coordinator.misfit

    @property
    def has_looked(self) -> bool:
        """Whether this driver, which waits, has read the log and could continue the job."""
        return self._coordinator.has_looked

    @property
    def is_prepared(self) -> bool:
        """Whether the slots of this driver, which waits, have restored a recent checkpoint (UP10), and
        no large state is about to be written again."""
        return self._coordinator.is_ready_for_handover and self._launcher.is_prepared()

    @property
    def prepared_for_restart(self) -> bool:
        """Whether slots that the next attempt can take have restored a recent checkpoint (UP12)."""
        return self._launcher.has_prepared()

    def request_profile(self, subtask: int, for_ms: int) -> Future[StackProfile]:
        """Request a profile of where a subtask spends its time. The answer comes after `for_ms`, or is
        a ConfigurationError or TransportError."""
        return self._profiles.request(subtask, for_ms)

    def checkpoints(self) -> tuple[CheckpointInfo, ...]:
        """Return the retained checkpoints, the oldest first, as of the last step."""
        return self._kept

    def events(self) -> list[JobEvent]:
        """Return the event log, the newest first, with the events of earlier drivers."""
        return self._events.newest_first()

    def decisions(self) -> tuple[str, ...]:
        """Return the protocol trace as of the last step, one line per event."""
        return tuple(map(str, self._decisions))

    def take_collected(self) -> dict[str, pa.Table]:
        """Return the rows that collect sinks have gathered since the last call."""
        return self._collected.take()

    def metrics(self) -> MetricsReport:
        """Return all current metrics of the job."""
        metrics = self._own_metrics(self._own_status())
        return msgspec.structs.replace(metrics, readings=[*metrics.readings, *self._health.readings()])

    def _own_metrics(self, status: JobStatus) -> MetricsReport:
        metrics = self._metrics.now(status, self._clock.now_ms(), self._clock.monotonic_us())
        return msgspec.structs.replace(metrics, readings=[*metrics.readings, *self._process()])

    def history(self) -> HistoryView:
        """Return the history of the metrics, as of the last step."""
        return self._history.view()

    def abandon(self, why: str) -> None:
        """Fail all pending requests, because no step will follow."""
        self._decisions = self._coordinator.decisions()
        if self._end is None:
            what, now_ms = f"the driver failed: {redacted(why)}", self._clock.now_ms()
            self._events.log.add(now_ms, EventKind.ENDED, what, level=EventLevel.ERROR)
            with contextlib.suppress(OSError, RheosError):
                self._events.close()
        self._savepoints.close(CheckpointError(f"no savepoint was taken: {why}"))

    def status(self) -> JobStatus:
        """Return the status as of the last step, with the current health."""
        status = self._own_status()
        over = status.state.is_over and status.state is not JobState.FAILED
        health = None if over or self.situation is not None else self._look()
        return replace(status, health=health)

    def _own_status(self) -> JobStatus:
        status = self._status
        if self.done:
            return status
        waits = (*self._waits_now, *call_wait(self._clock.now_ms()))
        return replace(status, running_s=self._running_s(), waits=waits)

    def _running_s(self) -> float:
        return (self._clock.monotonic_us() - self._began_us) / 1e6

    def _look(self) -> JobHealth | None:
        def job() -> SeenJob:
            status = self._own_status()
            return SeenJob(status, self._own_metrics(status), self._events.earlier_restarts())

        clock, restarts = self._clock, self._coordinator.restarts
        return self._health.look(clock.monotonic_us(), clock.now_ms(), self._stepped_us, restarts, job)

    # --- for the owner ----------------------------------------------------------------------------

    def result(self) -> JobResult:
        """Return the result of an ended job. Raise the error that ended it."""
        assert self._end is not None, "the job is still running"
        if self._end.error is not None:
            raise self._end.error
        if self._end.finished_before is not None:
            return JobResult(self._status, EarlierResults(self._job, self._collected.names()))
        return JobResult(self._status, self._collected.tables())

    def next_step_us(self) -> int | None:
        """Return the monotonic time at which a step is due even if nothing happens."""
        if self._publications.deadline_us is not None:
            return self._publications.deadline_us
        deadlines = (
            self._coordinator.next_deadline_ms(),
            self._profiles.next_deadline_ms(),
            None if self._autoscaler is None else self._autoscaler.next_deadline_ms(),
        )
        due_us = [ms * 1000 for ms in deadlines if ms is not None]
        if (writing_us := self._events.next_step_us()) is not None:
            due_us.append(writing_us)
        if self._reported:
            due_us.append(self._status_due_us)
        return min(due_us, default=None)

    def gather_us(self) -> int:
        """Return the time for which messages of subtasks may gather before the next step.

        A step costs as much for one message as for many. Jobs with few subtasks do not wait.
        """
        return self._spacing_us(STEP_US_BY_SLOT)

    def _spacing_us(self, by_slot_us: int) -> int:
        """Return a time in proportion to the parallelism, in whole milliseconds: 0 for few subtasks."""
        if self._coordinator.state is not LifecycleState.RUNNING:
            return 0
        return self._coordinator.parallelism * by_slot_us // 1000 * 1000

    def step(self) -> None:
        """Take in what has happened and act on it. Calls of the log and the store may block."""
        self._stepped_us = self._clock.monotonic_us()
        while self._requests:
            self._feed(self._requests.popleft())
        while (request := self._savepoints.take()) is not None:
            if request.after is AfterSavepoint.RESCALE:
                request = replace(request, slots=self._launcher.free_slots())
            self._feed(request)
        if self._coordinator.state is LifecycleState.NEW:
            self._feed(Start())
        for event in self._launcher.poll():
            self._take(event)
        for outcome in self._publications.poll():
            self._changed = True
            self._feed(outcome)
        for listed in self._listings.poll():
            self._feed(listed)
        self._feed(Tick())
        self._changed |= self._files.compact()
        self._metrics.log_entries = self._files.log.entries
        self._profile()
        self._scale()
        now_us = self._clock.monotonic_us()
        if self._changed or (self._reported and now_us >= self._status_due_us):
            self._changed = self._reported = False
            self._status_due_us = now_us + self._spacing_us(STATUS_US_BY_SLOT)
            self._status = self._status_view.now(self._end, self._running_s())
            stored = tuple(self._coordinator.kept)
            if stored != self._stored:
                self._kept = tuple(map(checkpoint_info, stored))
            self._stored = stored
            self._decisions = self._coordinator.decisions()
            if self._coordinator.kept:
                self._metrics.completed(self._coordinator.kept[-1], self._clock.monotonic_us())
        self._waits_now = self._waits.now(
            self._coordinator,
            self._metrics.unpublished,
            self._clock.now_ms(),
            self._launcher.joined(),
        )
        self._done = self._end is not None and self._publications.is_cleared()
        self._stepped_us = self._clock.monotonic_us()
        if self._end is None and self.situation is None:
            self._events.note_health(self._look(), self._clock.now_ms())
            self._history.step(self._clock.monotonic_us(), self.metrics)
        self._events.step(self._clock.monotonic_us())
        if self._done:
            with contextlib.suppress(OSError, RheosError):
                self._history.close()
            with contextlib.suppress(OSError, RheosError):
                self._events.close()
            self._savepoints.close(CheckpointError("no savepoint was taken: the job has ended"))
            self._profiles.close(TransportError("no subtask was profiled: the job has ended"))

    def _profile(self) -> None:
        runs = self._coordinator.state is LifecycleState.RUNNING
        self._profiles.step(
            self._coordinator.attempt,
            self._coordinator.parallelism if runs else 0,
            self._clock.monotonic_us() // 1000,
            self._launcher.send,
        )

    def _scale(self) -> None:
        if self._autoscaler is not None:
            runs = self._coordinator.state is LifecycleState.RUNNING
            self._changed |= self._autoscaler.step(
                self._coordinator.attempt,
                self._coordinator.parallelism if runs else 0,
                self._clock.monotonic_us() // 1000,
                self._load,
            )

    def _load(self) -> SlotLoad:
        return SlotLoad(
            self._reports.shares(),
            self._reports.records_per_s(),
            self._reports.lag_rows(),
            self._launcher.free_slots(),
            self._reports.needed_shares(),
        )

    def _take(self, event: LauncherEvent) -> None:
        if event.attempt != self._coordinator.attempt:
            return
        self._reported = True
        self._changed |= not isinstance(event, REPORTS)
        match event:
            case Progress():
                clock = self._clock
                if self._reports.take(event, clock.now_ms(), clock.monotonic_us()):
                    self._totals.progressed(event)
            case SourceWatermark():
                for message in self._drift.reported(event):
                    self._launcher.send(message)
            case Logged():
                pass_on(event, self._job, self._names)
            case StacksSampled():
                self._profiles.sampled(event)
            case Failed():
                error = self._with_memory(event.error.error())
                self._feed(SubtaskFailed(event.attempt, event.subtask, error))
            case AttemptLost():
                self._feed(replace(event, error=self._with_memory(event.error)))
            case Acknowledge():
                self._totals.count(event.subtask, event.totals)
                self._metrics.acknowledged(event)
                self._feed(event)
            case _:
                self._feed(event)

    def _with_memory(self, error: RheosError) -> RheosError:
        """Add the memory usage to `error` if a lack of memory may be its cause. Return `error`."""
        if isinstance(error, OutOfMemoryError | WorkerLostError):
            error.detail = "\n".join(filter(None, [self._metrics.memory(), error.detail]))
        return error

    def _feed(self, event: Event) -> None:
        """Let the coordinator handle the event, and all events that result from it immediately."""
        events = deque([event])
        while events:
            now_ms = self._clock.monotonic_us() // 1000
            wall_ms = self._clock.now_ms()
            handled, before = events.popleft(), self._coordinator.state
            actions = self._coordinator.handle(handled, now_ms, wall_ms)
            self._events.note(before, handled, actions, self._coordinator, wall_ms)
            for action in actions:
                self._changed = True
                events.extend(self._carry_out(action))

    # --- actions ----------------------------------------------------------------------------------

    def _carry_out(self, action: Action) -> list[Event]:
        """Execute an action, and return the resulting events."""
        match action:
            case ReadLog():
                return [self._files.read_log(self._launcher.free_slots())]
            case PrepareState():
                self._launcher.prepare_state(action.restore, action.parallelism)
            case ReadSavepoint():
                return [self._savepoints.read(action.directory, action.thorough)]
            case WriteSavepoint():
                return [self._savepoints.write(action)]
            case DiscardSavepoint():
                self._savepoints.discard(action.directory)
            case SavepointEnded():
                self._savepoints.ended(action)
            case AppendLog():
                return [self._files.append(action)]
            case Recover():
                if action.checkpoint is not None:
                    self._collected.add(action.checkpoint)
                return self._publications.recover(action)
            case PublishOnDriver():
                self._publications.publish(action)
            case ListSplits():
                self._listings.begin(action)
            case StartAttempt():
                return self._start(action)
            case StopAttempt():
                self._launcher.stop(action.attempt)
            case SendToAll():
                self._launcher.send(action.message)
            case Announce():
                self._collected.add(action.checkpoint)
            case DeleteFiles():
                self._files.delete(action.paths)
            case SweepFiles():
                self._files.sweep(action)
            case DropEntries():
                self._files.drop_entries(action.numbers)
            case EndJob():
                self._end = action
                newest = self._coordinator.kept[-1] if self._coordinator.kept else None
                self._publications.clear_away(action, self._coordinator.attempt, newest)
                if action.finished_before is not None:
                    self._totals.begin(action.finished_before)
        return []

    def _start(self, action: StartAttempt) -> list[Event]:
        restore = action.restore
        self._drift.begin()
        self._reports.begin(action.parallelism)
        self._metrics.begin(action.attempt, self._clock.monotonic_us())
        self._metrics.restarted(self._coordinator.restarts, self._coordinator.last_error)
        self._totals.begin(restore.entry.totals if restore else Totals())
        try:
            self._launcher.launch(action.attempt, restore, action.parallelism)
        except RheosError as error:
            return [AttemptLost(action.attempt, error), AttemptEnded(action.attempt)]
        return []
