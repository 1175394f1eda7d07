"""The jobs that are visible from here, in the JSON form of commands and REST."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote

import msgspec

from rheos.core.checkpoint.log import JobLog, LogView
from rheos.core.checkpoint.log_entries import JobCounts, JobFinished
from rheos.core.errors import ConfigurationError, RheosError, TransportError
from rheos.core.metrics.event_log import JobEvent
from rheos.core.metrics.health import FindingKind, JobHealth, Severity, simple_health
from rheos.core.metrics.history_files import HistoryView
from rheos.core.protocol.ids import JobId, job_slug
from rheos.core.protocol.ports import Store
from rheos.core.redaction import redacted
from rheos.ops.control.commands import JobClient
from rheos.ops.control.processes import Liveness, liveness
from rheos.ops.control.registry import JobRecord, Registry
from rheos.runtimes.driver.event_keeper import stored_events
from rheos.runtimes.driver.history import stored_history
from rheos.runtimes.driver.status import checkpoint_info
from rheos.runtimes.host.io import SystemClock
from rheos.runtimes.host.stores import folder_exists, open_store
from rheos.runtimes.job import CheckpointInfo, JobStatus, job_key

STANDING_BY = "standing by"
"""State of a job whose driver on this machine waits to take it over."""
_LOOK_TIMEOUT_S = 3.0


# --- running jobs ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ListedJob:
    """A job of the registry, and the answers that it gave; None where it gave no answer."""

    record: JobRecord
    status: JobStatus | None
    asked_ms: int = 0
    """Wall-clock time of the request."""

    @property
    def health(self) -> JobHealth | None:
        """Return the job's health. A job whose driver does not answer is stuck. A standby, or a job on
        another host, has no health here."""
        if self.status is not None:
            return self.status.health
        lives = liveness(self.record.process)
        if self.record.stands_by or lives is Liveness.ELSEWHERE:
            return None
        return simple_health(
            Severity.STUCK,
            self.asked_ms,
            kind=FindingKind.DRIVER,
            what=f"the driver ({self.record.process}) does not answer",
            what_to_do=(
                "check whether its process is frozen, or its machine is out of memory or "
                "CPU time; `rheos logs` shows its last log lines"
            ),
        )

    @property
    def state(self) -> str:
        """Return the state as a string. If the job gave no answer, return what is known without one."""
        if self.record.stands_by:
            return STANDING_BY
        if self.status is not None:
            loops = "".join(
                f", its input has ended, but {name!r} still iterates (round {laps:,})"
                for name, laps in self.status.iterating.items()
            )
            return f"{self.status.state.value}{loops}"
        if liveness(self.record.process) is Liveness.ELSEWHERE:
            return f"on host {self.record.process.host}"
        return "does not answer"


def listed_jobs(registry: Registry) -> list[ListedJob]:
    """Return all jobs, each with the status that it reports. Jobs that ended meanwhile are omitted."""
    records = registry.records()
    if not records:
        return []
    with ThreadPoolExecutor(min(len(records), 16)) as pool:
        seen = list(pool.map(listed_job, records))
    still = {record.file_name for record in registry.records()}
    return [job for job in seen if job.record.file_name in still]


def listed_job(record: JobRecord) -> ListedJob:
    now_ms = SystemClock().now_ms()
    if record.stands_by:
        return ListedJob(record, None, now_ms)
    try:
        status = JobClient(record, _LOOK_TIMEOUT_S).status()
        if record.directory is not None:  # The note of its driver lacks the name.
            record = msgspec.structs.replace(record, name=status.name)
        return ListedJob(record, status, now_ms)
    except RheosError:
        return ListedJob(record, None, now_ms)


def job_object(job: ListedJob) -> dict[str, Any]:
    record, status = job.record, job.status
    return {
        "key": record.key,
        "id": record.job,
        "name": record.name,
        "state": job.state if record.stands_by else None if status is None else status.state.value,
        "problem": job.state if status is None and not record.stands_by else None,
        "health": health_object(job.health),
        "runtime": record.runtime,
        "parallelism": status.parallelism if status else None,
        "attempt": status.attempt if status else None,
        "uptime_s": status.running_s if status else None,
        "records_per_s": status.records_per_s if status else None,
        "watermark_ms": status.watermark_ms if status else None,
        "source_lag_rows": status.source_lag_rows if status else None,
        "source_lag_ms": status.source_lag_ms if status else None,
        "since_published_ms": status.since_published_ms if status else None,
        "checkpoints_completed": status.checkpoints_completed if status else None,
        "checkpoints_failed": status.checkpoints_failed if status else None,
        "last_checkpoint_ms": status.last_checkpoint_ms if status else None,
        "restarts": status.restarts if status else None,
        "drivers": status.earlier.drivers + 1 if status else None,
        "iterating": dict(status.iterating) if status else None,
        "failure": status.failure if status else None,
        "checkpoint_failure": status.checkpoint_failure if status else None,
        "scaling": asdict(status.scaling) if status and status.scaling else None,
        "waits": msgspec.to_builtins(status.waits) if status else [],
        "checkpoint_dir": record.checkpoint_dir,
        "host": record.process.host,
        "pid": record.process.pid,
        "started_ms": record.started_ms,
    }


def health_object(health: JobHealth | None) -> dict[str, Any] | None:
    """Return a health as JSON; None if it is not known."""
    return None if health is None else msgspec.to_builtins(health)


# --- jobs in a checkpoint directory -----------------------------------------------------------------


def stored_jobs(directory: str) -> list[JobId]:
    """Return the jobs that have a log there, whether they run or not. Raise ConfigurationError if the
    directory does not exist, TransportError if it cannot be read."""
    return _jobs_of(_opened(directory), directory)


def _opened(directory: str) -> Store:
    if not folder_exists(directory):
        raise ConfigurationError(f"the checkpoint directory {directory!r} does not exist")
    return open_store(directory)


def _jobs_of(store: Store, directory: str) -> list[JobId]:
    try:
        places = {path.split("/")[0] for path in store.list("") if "/log/" in path}
    except OSError as error:
        raise TransportError(f"{directory!r} could not be read: {error}") from error
    return [JobId(unquote(place)) for place in sorted(places)]


def stored_job(wanted: str, directory: str) -> tuple[Store, JobId, LogView]:
    """Return a job by its id or name, whether it runs or not. Raise ConfigurationError if the directory
    has no such job, CheckpointError if its log cannot be read."""
    store = _opened(directory)
    for job in (JobId(wanted), job_slug(wanted)):
        view = JobLog(store, job).read()
        if view.newest is not None:
            return store, job, view
    jobs = _jobs_of(store, directory)
    raise ConfigurationError(
        f"no job {wanted!r} in {directory!r}",
        hint=f"its jobs are: {', '.join(jobs)}"
        if jobs
        else "pass the checkpoint directory of a job; this is not one",
    )


def stored_job_object(job: JobId, directory: str) -> dict[str, Any]:
    """Return what the log contains about a job, in the form of `job_object`."""
    _, _, view = stored_job(job, directory)
    state, last = _stored_state(view), view.completed[-1].entry if view.completed else None
    counts = JobCounts() if view.newest is None else view.newest.counts
    return {
        "key": job_key(job, directory),
        "id": job,
        "name": job,
        "state": state,
        "problem": None,
        "health": None,
        "attempt": view.attempt,
        "checkpoints_completed": counts.completed,
        "checkpoints_failed": counts.failed,
        "restarts": counts.restarts,
        "drivers": counts.drivers,
        "last_checkpoint_ms": None if last is None else checkpoint_info(last).duration_ms,
        "checkpoint_dir": redacted(directory),
    }


def _stored_state(view: LogView) -> str:
    """Return the state by the log. It does not show whether a driver elsewhere runs the job."""
    return "finished" if isinstance(view.newest, JobFinished) else "does not run here"


def stored_checkpoints(wanted: str, directory: str) -> list[CheckpointInfo]:
    """Return the kept checkpoints of a job. Raise the same errors as `stored_job`."""
    _, _, view = stored_job(wanted, directory)
    return [checkpoint_info(kept.entry) for kept in view.completed]


def stored_metrics(wanted: str, directory: str) -> HistoryView:
    """Return the stored metrics of a job. Raise the same errors as `stored_job`."""
    store, job, _ = stored_job(wanted, directory)
    return stored_history(store, job)


def stored_event_log(wanted: str, directory: str) -> list[JobEvent]:
    """Return the event log of a job, the newest event first.

    Raises:
        ConfigurationError: the directory has no such job.
        TransportError: the directory cannot be read.
    """
    store, job, _ = stored_job(wanted, directory)
    try:
        return stored_events(store, job)
    except OSError as error:
        raise TransportError(f"{directory!r} could not be read: {error}") from error


def checkpoint_object(info: CheckpointInfo) -> dict[str, Any]:
    shown = {**asdict(info), "savepoint": redacted(info.savepoint)}
    cost = shown.pop("cost")
    return {
        **shown,
        **{name: getattr(cost, name) for name in cost.__struct_fields__},
    }
