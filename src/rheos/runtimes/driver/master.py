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
    LogAppended,
    LogFailed,
    LogLost,
    LogRead,
    LogUnreadable,
    Outcome,
    Published,
    PublishFailed,
    PublishOnDriver,
    ReadLog,
    ReadSavepoint,
    Recover,
    Recovered,
    RecoveryFailed,
    SavepointEnded,
    SendToAll,
    Start,
    StartAttempt,
    StopAttempt,
    SubtaskFailed,
    SweepFiles,
    Tick,
    WriteSavepoint,
)
from rheos.core.checkpoint.lifecycle import LifecycleState
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.names import state_folder
from rheos.core.checkpoint.retention import stale
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
    Failed,
    Logged,
    Progress,
    SourceWatermark,
    StacksSampled,
    Totals,
)
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.ports import Clock, Completion, IoExecutor, Store
from rheos.core.protocol.readings import Reading
from rheos.core.protocol.splits import Split
from rheos.core.protocol.stacks import StackProfile
from rheos.core.redaction import redacted
from rheos.runtimes.driver.autoscaler import Autoscaler
from rheos.runtimes.driver.collected_results import CollectedResults, EarlierResults
from rheos.runtimes.driver.drift import SourceDrift
from rheos.runtimes.driver.driver_logs import pass_on
from rheos.runtimes.driver.driver_work import DriverWork, Listings
from rheos.runtimes.driver.event_keeper import EventKeeper
from rheos.runtimes.driver.health import HealthKeeper, SeenJob
from rheos.runtimes.driver.history import HistoryKeeper
from rheos.runtimes.driver.launcher import Launcher, LauncherEvent
from rheos.runtimes.driver.metrics_keeper import JobTotals, MetricsKeeper
from rheos.runtimes.driver.profiles import ProfileService
from rheos.runtimes.driver.savepoints import OpenStore, SavepointService, open_folder
from rheos.runtimes.driver.scaling import SlotLoad
from rheos.runtimes.driver.sources_and_sinks import (
    abort_stale,
    begin_targets,
    check_targets,
    publish,
    publish_listed,
    published_here,
    publishes,
    read_until_now,
    targets,
    watched_sources,
)
from rheos.runtimes.driver.sources_and_sinks import enumerate_splits as enumerate_splits
from rheos.runtimes.driver.subtask_reports import SubtaskReports
from rheos.runtimes.driver.waits import Waits, call_wait
from rheos.runtimes.host.stores import check_writable
from rheos.runtimes.job import CheckpointInfo, JobConfig, JobResult, JobState, JobStatus, JobWait

_SURELY_LEFT_S = 3600
"""Time in seconds after which no driver can still be writing an entry of the log."""

_CLEAR_WITHIN_US = 5_000_000
"""Maximum time for which the end of a job waits for the cleanup of leftovers at sinks."""

OUTCOMES = {
    Outcome.FINISHED: JobState.FINISHED,
    Outcome.CANCELLED: JobState.CANCELLED,
    Outcome.STOPPED: JobState.STOPPED,
    Outcome.FAILED: JobState.FAILED,
}


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
        self._writer = config.writer
        self._names = {operator.id: operator.name for operator in plan.operators()}
        self._store = store
        self._clock = clock
        self._launcher = launcher
        self._io = io
        self._listings = Listings(plan, listing)
        self._work = DriverWork(io)
        self._clearing: tuple[int, Completion[None]] | None = None
        """The cleanup of leftovers at the job's end, and the time at which the job ends without it."""
        self._log = JobLog(store, config.job, config.checkpoint.log_block)
        self._compaction: Completion[int] | None = None
        self._log_identity: str | None = None
        self._listing_io = listing
        self._on_driver = published_here(plan)
        shape = JobShape(
            self._names,
            plan.parallelism,
            plan.max_parallelism,
            state_shapes(plan.operators()),
            self._on_driver,
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
        )
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
        self._end: EndJob | None = None
        self._requests: deque[CancelRequested | LeaveRequested] = deque()
        self._changed = False
        self._done = False
        self._process = process
        self._began_us = self._stepped_us = clock.monotonic_us()
        self._status = self._make_status()
        self._kept: tuple[CheckpointInfo, ...] = ()
        self._decisions: tuple[CoordinatorDecision, ...] = ()

    # --- for any thread ---------------------------------------------------------------------------

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
        health = None if status.state.is_over and status.state is not JobState.FAILED else self._look()
        return replace(status, health=health)

    def _own_status(self) -> JobStatus:
        status = self._status
        if self.done:
            return status
        waits = (*self._waits_now, *call_wait(self._clock.now_ms()))
        return replace(status, running_s=self._running_s(), waits=waits)

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
        if self._clearing is not None:
            return self._clearing[0]
        deadlines = (
            self._coordinator.next_deadline_ms(),
            self._profiles.next_deadline_ms(),
            None if self._autoscaler is None else self._autoscaler.next_deadline_ms(),
        )
        due_us = [ms * 1000 for ms in deadlines if ms is not None]
        if (writing_us := self._events.next_step_us()) is not None:
            due_us.append(writing_us)
        return min(due_us, default=None)

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
        for answer in self._work.poll():
            self._changed = True
            self._feed(answer)
        for listed in self._listings.poll():
            self._feed(listed)
        self._feed(Tick())
        self._compact()
        self._profile()
        self._scale()
        if self._changed:
            self._changed = False
            self._status = self._make_status()
            self._kept = tuple(map(checkpoint_info, self._coordinator.kept))
            self._decisions = self._coordinator.decisions()
            if self._coordinator.kept:
                self._metrics.completed(self._coordinator.kept[-1], self._clock.monotonic_us())
        self._waits_now = self._waits.now(
            self._coordinator,
            self._metrics.unpublished(),
            self._clock.now_ms(),
            self._launcher.joined(),
        )
        self._done = self._end is not None and self._is_cleared()
        self._stepped_us = self._clock.monotonic_us()
        if self._end is None:
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

    def _compact(self) -> None:
        """Delete entries of the log that nothing needs (CP42), concurrently with the steps. If the
        store fails, the entries stay until the next block."""
        if self._compaction is not None:
            if not self._compaction.done():
                return
            self._changed = True
            with contextlib.suppress(CheckpointError):
                self._log.compacted(self._compaction.result())
            self._compaction = None
        work = self._log.compaction()
        if work is not None:
            self._compaction = self._listing_io.submit(work)
        self._metrics.log_entries = self._log.entries

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
        )

    def _take(self, event: LauncherEvent) -> None:
        if event.attempt != self._coordinator.attempt:
            return
        self._changed = True
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
                return [self._read_log()]
            case ReadSavepoint():
                return [self._savepoints.read(action.directory, action.thorough)]
            case WriteSavepoint():
                return [self._savepoints.write(action)]
            case DiscardSavepoint():
                self._savepoints.discard(action.directory)
            case SavepointEnded():
                self._savepoints.ended(action)
            case AppendLog():
                return [self._append(action)]
            case Recover():
                return self._recover(action)
            case PublishOnDriver():
                self._publish(action)
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
                self._delete(action.paths)
            case SweepFiles():
                self._sweep(action)
            case DropEntries():
                for number in action.numbers:
                    with contextlib.suppress(CheckpointError):
                        self._log.drop(number)
            case EndJob():
                self._end = action
                self._clear_away()
                if action.finished_before is not None:
                    self._totals.begin(action.finished_before)
        return []

    def _read_log(self) -> Event:
        try:
            return LogRead(self._log.read(), self._launcher.free_slots())
        except CheckpointError as error:
            return LogUnreadable(error)

    def _append(self, action: AppendLog) -> Event:
        try:
            if self._log.append(action.number, action.entry):
                return LogAppended(action.number)
            return LogLost(action.number)
        except CheckpointError as error:
            return LogFailed(action.number, error)

    def _recover(self, action: Recover) -> list[Event]:
        if action.checkpoint is not None:
            self._collected.add(action.checkpoint)
        if not publishes(self._plan):
            return [Recovered(action.attempt)]
        plan, writer, log = self._plan, self._writer, self._identity()

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

    def _clear_away(self) -> None:
        """Abort output that workers of earlier attempts have staged since this one began, as they may
        have outlived their driver. The next attempt aborts what remains. Without one, that is garbage
        next to the output. So the job's end need not wait for a server that does not answer."""
        end = self._end
        assert end is not None
        if end.outcome is Outcome.FAILED or end.finished_before is not None:
            return
        if self._work.busy or not publishes(self._plan):
            return
        plan, writer, attempt = self._plan, self._writer, self._coordinator.attempt
        newest = self._coordinator.kept[-1] if self._coordinator.kept else None
        completion = self._io.submit(lambda: abort_stale(plan, writer, attempt, newest))
        self._clearing = self._clock.monotonic_us() + _CLEAR_WITHIN_US, completion

    def _is_cleared(self) -> bool:
        if self._clearing is None:
            return True
        by_us, completion = self._clearing
        return completion.done() or self._clock.monotonic_us() >= by_us

    def _identity(self) -> str:
        """Return the identity of the claimed log. It is read only if a sink needs it."""
        if self._log_identity is None and self._on_driver:
            self._log_identity = self._log.identity()
        return self._log_identity or ""

    def _publish(self, action: PublishOnDriver) -> None:
        plan, log, listed = self._plan, self._identity(), action.committables
        operator, checkpoint = action.operator, action.checkpoint
        self._work.begin(
            lambda: publish_listed(plan, log, listed),
            lambda error: (
                Published(operator, checkpoint)
                if error is None
                else PublishFailed(operator, checkpoint, error)
            ),
        )

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

    def _sweep(self, action: SweepFiles) -> None:
        with contextlib.suppress(OSError):
            files = self._store.list(state_folder(self._job))
            self._delete(stale(files, action.attempt, action.keep, action.through))
            # Some of the attempt's own files are being written now.
            halves = self._store.unfinished(state_folder(self._job))
            self._delete(stale(halves, action.attempt, frozenset()))
            self._delete(self._store.unfinished(self._log.folder, _SURELY_LEFT_S))

    def _delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            # The sweep of the next attempt finds files that remain.
            with contextlib.suppress(OSError):
                self._store.delete(path)

    # --- status -----------------------------------------------------------------------------------

    def _make_status(self) -> JobStatus:
        coordinator = self._coordinator
        operators = self._totals.operators()
        watermarks = [o.watermark_ms for o in operators if o.watermark_ms is not None]
        error = (
            coordinator.shortage
            or coordinator.not_listed
            or coordinator.recovery_error
            or coordinator.last_error
        )
        last = coordinator.kept[-1] if coordinator.kept else None
        return JobStatus(
            job=self._job,
            name=self._plan.name,
            state=self._state(),
            attempt=coordinator.attempt,
            running_s=self._running_s(),
            records_per_s=self._reports.records_per_s(),
            watermark_ms=min(watermarks, default=None),
            checkpoints_completed=coordinator.earlier.completed + coordinator.stats.completed,
            checkpoints_failed=coordinator.earlier.failed + coordinator.stats.failed,
            checkpoint_failure=coordinator.stats.failure,
            last_checkpoint_ms=coordinator.stats.last_duration_ms,
            restarts=coordinator.earlier.restarts + coordinator.restarts,
            earlier=coordinator.earlier,
            busy_ratio=self._reports.busy_ratio(),
            backpressure_ratio=self._reports.backpressure_ratio(),
            source_lag_rows=self._reports.lag_rows(),
            source_lag_ms=self._reports.lag_ms(),
            since_published_ms=self._reports.since_published_ms(),
            operators=operators,
            failure=str(error) if error else None,
            finished_before=self._end is not None and self._end.finished_before is not None,
            parallelism=coordinator.parallelism,
            last_checkpoint_bytes=_state_bytes(last) if last else None,
            last_checkpoint_sync_us=last.cost.sync_us if last else None,
            strangers=self._launcher.strangers() + self._reports.strangers(),
            latency=self._reports.latency(),
            scaling=None if self._autoscaler is None else self._autoscaler.status(),
            events_dropped=self._events.log.dropped,
            stage=self._launcher.stage(),
        )

    def _running_s(self) -> float:
        return (self._clock.monotonic_us() - self._began_us) / 1e6

    def _state(self) -> JobState:
        if self._end is not None:
            return OUTCOMES[self._end.outcome]
        match self._coordinator.state:
            case LifecycleState.RUNNING | LifecycleState.FINISHING | LifecycleState.LEAVING:
                return JobState.RUNNING
            case LifecycleState.STOPPING | LifecycleState.WAITING | LifecycleState.RESCALING:
                return JobState.RESTARTING
            case _:
                return JobState.RESTARTING if self._coordinator.restarts else JobState.STARTING


def _state_bytes(entry: CheckpointCompleted) -> int:
    return sum(handle.size_bytes for handle in entry.handles)


def checkpoint_info(entry: CheckpointCompleted) -> CheckpointInfo:
    """Return the public description of an entry of the log."""
    return CheckpointInfo(
        checkpoint=entry.checkpoint,
        attempt=entry.attempt,
        completed_ms=entry.completed_ms,
        duration_ms=entry.duration_ms,
        state_bytes=_state_bytes(entry),
        cost=entry.cost,
        savepoint=entry.savepoint,
    )
