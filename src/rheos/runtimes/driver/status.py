"""The status of a job and the descriptions of its checkpoints, from the parts of the driver."""

from __future__ import annotations

from rheos.core.checkpoint.coordinator import Coordinator
from rheos.core.checkpoint.events import EndJob, Outcome
from rheos.core.checkpoint.lifecycle import LifecycleState
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.metrics.event_log import EventLog
from rheos.core.protocol.ids import JobId
from rheos.runtimes.driver.autoscaler import Autoscaler
from rheos.runtimes.driver.launcher import Launcher
from rheos.runtimes.driver.metrics_keeper import JobTotals
from rheos.runtimes.driver.subtask_reports import SubtaskReports
from rheos.runtimes.job import CheckpointInfo, JobState, JobStatus

OUTCOMES = {
    Outcome.FINISHED: JobState.FINISHED,
    Outcome.CANCELLED: JobState.CANCELLED,
    Outcome.STOPPED: JobState.STOPPED,
    Outcome.FAILED: JobState.FAILED,
}


class StatusView:
    """The status of one job, computed from the parts of its master."""

    def __init__(
        self,
        job: JobId,
        name: str,
        coordinator: Coordinator,
        launcher: Launcher,
        reports: SubtaskReports,
        totals: JobTotals,
        autoscaler: Autoscaler | None,
        events: EventLog,
    ) -> None:
        self._job = job
        self._name = name
        self._coordinator = coordinator
        self._launcher = launcher
        self._reports = reports
        self._totals = totals
        self._autoscaler = autoscaler
        self._events = events

    def now(self, end: EndJob | None, running_s: float) -> JobStatus:
        """Return the status. `end` is the end of the job if it has ended."""
        coordinator, reports = self._coordinator, self._reports
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
            name=self._name,
            state=self._state(end),
            attempt=coordinator.attempt,
            running_s=running_s,
            records_per_s=reports.records_per_s(),
            watermark_ms=min(watermarks, default=None),
            checkpoints_completed=coordinator.earlier.completed + coordinator.stats.completed,
            checkpoints_failed=coordinator.earlier.failed + coordinator.stats.failed,
            checkpoint_failure=coordinator.stats.failure,
            last_checkpoint_ms=coordinator.stats.last_duration_ms,
            restarts=coordinator.earlier.restarts + coordinator.restarts,
            earlier=coordinator.earlier,
            busy_ratio=reports.busy_ratio(),
            backpressure_ratio=reports.backpressure_ratio(),
            source_lag_rows=reports.lag_rows(),
            source_lag_ms=reports.lag_ms(),
            since_published_ms=reports.since_published_ms(),
            operators=operators,
            failure=str(error) if error else None,
            stop_reason=coordinator.stop_reason,
            finished_before=end is not None and end.finished_before is not None,
            parallelism=coordinator.parallelism,
            last_checkpoint_bytes=_state_bytes(last) if last else None,
            last_checkpoint_sync_us=last.cost.sync_us if last else None,
            strangers=self._launcher.strangers() + reports.strangers(),
            latency=reports.latency(),
            scaling=None if self._autoscaler is None else self._autoscaler.status(),
            events_dropped=self._events.dropped,
            stage=self._launcher.stage(),
        )

    def _state(self, end: EndJob | None) -> JobState:
        if end is not None:
            return OUTCOMES[end.outcome]
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
