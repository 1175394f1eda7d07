"""The served jobs: those that run on this machine, and those of checkpoint directories."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import msgspec

from rheos.connectors.urls import absolute
from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.metrics.event_log import JobEvent, ShownEvent
from rheos.core.metrics.health import FindingKind, JobHealth, Severity, simple_health
from rheos.core.metrics.history_files import HistoryView
from rheos.core.metrics.model import metrics_object
from rheos.core.protocol.ids import JobId, JobKey
from rheos.ops.control.commands import JobClient
from rheos.ops.control.job_list import (
    ListedJob,
    checkpoint_object,
    health_object,
    job_object,
    listed_job,
    listed_jobs,
    stored_checkpoints,
    stored_event_log,
    stored_job_object,
    stored_jobs,
    stored_metrics,
)
from rheos.ops.control.job_logs import MAX_LINES, LoggedLine, log_path, newest_lines
from rheos.ops.control.registry import LOST, EndedJob, JobRecord, Registry, newest_drivers
from rheos.ops.control.stored_views import views_in
from rheos.ops.dashboard.readiness import Readiness
from rheos.runtimes.driver.driver_logs import JOBS
from rheos.runtimes.health.kinds.job_state import WHAT_TO_DO
from rheos.runtimes.host.io import SystemClock
from rheos.runtimes.job import JobState
from rheos.runtimes.job_operations import GetMetrics
from rheos.runtimes.operation_contract import JobOperation, Role

T = TypeVar("T")

_LOOK_TIMEOUT_S = 5.0
_OPERATE_TIMEOUT_S = 600.0
_LOG_LINES = 200
_DIRECTORIES_EVERY_S = 10.0
"""Interval of reading checkpoint directories, which may be remote and have thousands of files."""


class NoSuchJobError(ConfigurationError):
    pass


class NotRunningError(ConfigurationError):
    """The refusal of data that only a running job has."""


@dataclass(frozen=True)
class StoredJob:
    """A job that does not run here: from a checkpoint directory, or ended on this machine."""

    key: JobKey
    job: JobId
    name: str
    directory: str | None
    """Checkpoint directory; None if it has kept no checkpoints that can be read."""
    log: Path | None
    shown: dict[str, Any]
    events: Sequence[JobEvent] = ()
    """Events that are known without its directory."""


Served: TypeAlias = JobRecord | StoredJob


class ServedJobs:
    """The served jobs. Each call sends requests to the running ones, which may take seconds.
    Directories are read again after some seconds. Every method may raise RheosError."""

    def __init__(self, directories: Sequence[str], registry: Registry | None = None) -> None:
        self._directories = directories
        self._registry = registry or Registry()
        self._stored_jobs: list[StoredJob] = []
        self._read_at_s = -inf
        self.readiness = Readiness(self._registry)

    def listed(self) -> list[dict[str, Any]]:
        """Return each job once, by its key: the running ones, oldest first; then those of directories
        that do not run here; then those that have ended here, the newest first."""
        seen = {job.record.file_name: job for job in listed_jobs(self._registry)}
        running = newest_drivers([job.record for job in seen.values()])
        shown = [_running_object(seen[record.file_name]) for record in running]
        shown += [stored.shown for stored in self._stored()]
        shown += map(_ended_object, self._registry.ended_jobs.newest_first())
        once = {job["key"]: job for job in reversed(shown)}
        return [job for job in shown if once[job["key"]] is job]

    def find(self, named: str) -> Served:
        """Return the job with that key, or the only one with that id or name.

        Raises:
            NoSuchJobError: no job fits, or several do.
        """
        known: list[Served] = [*newest_drivers(self._registry.records()), *self._stored()]
        known += map(_ended_job, self._registry.ended_jobs.newest_first())
        once = {each.key: each for each in reversed(known)}
        if named in once:
            return once[JobKey(named)]
        fitting = [each for each in once.values() if named in (each.job, each.name)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            keys = ", ".join(sorted(each.key for each in fitting))
            raise NoSuchJobError(f"{named!r} matches {len(fitting)} jobs", hint=f"use one of {keys}")
        raise NoSuchJobError(f"unknown job {named!r}", hint="see the list of jobs")

    def _stored(self) -> list[StoredJob]:
        now_s = monotonic()
        if now_s >= self._read_at_s + _DIRECTORIES_EVERY_S:
            self._stored_jobs = [
                _stored_job(job, directory)
                for directory in self._directories
                for job in stored_jobs(directory)
            ]
            self._read_at_s = now_s
        return self._stored_jobs


def _stored_job(job: JobId, directory: str) -> StoredJob:
    shown = {"runs": False, **stored_job_object(job, absolute(directory))}
    return StoredJob(shown["key"], job, shown["name"], directory, log_path(shown["key"]), shown)


def _ended_job(ended: EndedJob) -> StoredJob:
    # A remote directory cannot be opened, because it is stored without its credentials.
    place = ended.checkpoint_dir
    directory = place if place is not None and os.path.isdir(place) else None
    log = None if ended.log is None else Path(ended.log)
    return StoredJob(
        ended.key, ended.job, ended.name, directory, log, _ended_object(ended), ended.events
    )


def _ended_object(ended: EndedJob) -> dict[str, Any]:
    """Return an ended job in the form of `job_object`."""
    return {
        "key": ended.key,
        "runs": False,
        "id": ended.job,
        "name": ended.name,
        "state": ended.state,
        "problem": "its driver has died" if ended.state == LOST else None,
        "health": health_object(_health_at_end(ended)),
        "failure": ended.failure,
        "runtime": ended.runtime,
        "checkpoint_dir": ended.checkpoint_dir,
        "host": ended.process.host,
        "pid": ended.process.pid,
        "started_ms": ended.started_ms,
        "ended_ms": ended.ended_ms,
    }


def _health_at_end(ended: EndedJob) -> JobHealth | None:
    """Return the health of a job that has failed or was lost; None for any other."""
    match ended.state:
        case JobState.FAILED.value:
            what = f"the job failed: {(ended.failure or 'unknown').splitlines()[0]}"
            kind, what_to_do = FindingKind.FAILED, WHAT_TO_DO
        case state if state == LOST:
            what, kind = "the driver has died, and the job was not restarted", FindingKind.DRIVER
            what_to_do = "start the same command again: the job resumes from its newest checkpoint"
        case _:
            return None
    return simple_health(
        Severity.FAILING,
        SystemClock().now_ms(),
        kind=kind,
        what=what,
        what_to_do=what_to_do,
        since_ms=ended.ended_ms,
    )


def _running_object(job: ListedJob) -> dict[str, Any]:
    return {"runs": not job.record.stands_by, **job_object(job)}


# --- data about one job -----------------------------------------------------------------------------


def job(served: Served) -> dict[str, Any]:
    match served:
        case JobRecord():
            return _with_operators(listed_job(served))
        case StoredJob():
            failure = served.shown.get("failure") or _failure(served)
            return {**served.shown, "operators": [], "failure": failure}


def _with_operators(seen: ListedJob) -> dict[str, Any]:
    operators = seen.status.operators if seen.status is not None else ()
    return {**_running_object(seen), "operators": msgspec.to_builtins(operators, str_keys=True)}


def _failure(stored: StoredJob) -> str | None:
    """Return the error by which the job failed, if its last log line here is that error."""
    lines = [] if stored.log is None else newest_lines(stored.log, _LOG_LINES)
    for line in reversed(lines):
        if line.logger == JOBS.name:
            return line.message if line.level == "error" else None
    return None


def now(served: Served) -> dict[str, Any]:
    """Return all that changes: the job with its health, and its metrics."""
    if isinstance(served, StoredJob):
        return {"job": job(served), "metrics": None}
    seen = listed_job(served)
    shown: dict[str, Any] = {"job": _with_operators(seen), "metrics": None}
    if seen.status is not None:
        shown["metrics"] = metrics_object(_client(served).metrics())
    return shown


def health(served: Served) -> JobHealth:
    """Return the health of a running job. Raise NotRunningError if it is unknown."""
    found = None if isinstance(served, StoredJob) else listed_job(served).health
    if found is None:
        raise NotRunningError(f"the health of the job {served.job!r} is unknown here")
    return found


def metrics(served: Served) -> dict[str, Any]:
    return metrics_object(asked(served, GetMetrics()))


def history(served: Served, wanted: Sequence[str]) -> dict[str, Any]:
    """Return the history of these metrics; of all if none is named."""
    match served:
        case JobRecord():
            view = _client(served).history()
        case StoredJob():
            place = served.directory
            view = HistoryView.nothing() if place is None else stored_metrics(served.job, place)
    shown: dict[str, Any] = msgspec.to_builtins(_of_metrics(view, wanted))
    return shown


def _of_metrics(view: HistoryView, wanted: Sequence[str]) -> HistoryView:
    if not wanted:
        return view
    parts = []
    for part in (view.fine, view.coarse):
        kept = [n for n, name in enumerate(part.series) if name.partition("\t")[0] in wanted]
        parts.append(
            msgspec.structs.replace(
                part,
                series=[part.series[n] for n in kept],
                values=[[row[n] for n in kept] for row in part.values],
            )
        )
    return HistoryView(*parts)


def checkpoints(served: Served) -> list[dict[str, Any]]:
    match served:
        case JobRecord():
            kept = list(_client(served).checkpoints())
        case StoredJob():
            if served.directory is None:
                return []
            kept = stored_checkpoints(served.job, served.directory)
    return [checkpoint_object(info) for info in kept]


def event_log(served: Served, wanted: Sequence[str]) -> list[ShownEvent]:
    """Return the newest events of a job, whether it runs or not, the newest first.

    Raises:
        ConfigurationError: `wanted` is not a number of events.
    """
    most = _number_of_lines(wanted)
    match served:
        case JobRecord(stands_by=False):
            events = list(_client(served).events())
        case JobRecord():
            events = _stored_events(served.job, served.checkpoint_dir)
        case StoredJob():
            events = _stored_events(served.job, served.directory) or list(served.events)
    now_ms = SystemClock().now_ms()
    return [ShownEvent.of(event, now_ms) for event in events[:most]]


def _stored_events(job: JobId, directory: str | None) -> list[JobEvent]:
    """Return the stored events; none if the directory lacks credentials, or cannot be read from
    here."""
    if directory is None or "***@" in directory:
        return []
    try:
        return stored_event_log(job, directory)
    except RheosError:
        return []


def _number_of_lines(wanted: Sequence[str]) -> int:
    most = wanted[-1] if wanted else str(_LOG_LINES)
    if not most.isdecimal() or len(most) > 9 or not 0 < int(most) <= MAX_LINES:
        raise ConfigurationError(
            f"{most[:40]!r} is not a number of lines", hint=f"pass 1 to {MAX_LINES}"
        )
    return int(most)


def logs(served: Served, wanted: Sequence[str]) -> list[LoggedLine]:
    """Return the newest log lines of a job. If it does not run, its driver has left the file. Raise
    ConfigurationError if `wanted` is not a number of lines."""
    most = _number_of_lines(wanted)
    match served:
        case JobRecord():
            path = None if served.log is None else Path(served.log)
        case StoredJob():
            path = served.log
    return [] if path is None else newest_lines(path, most)


# --- operations --------------------------------------------------------------------------------------


def asked(served: Served, operation: JobOperation[T]) -> T:
    """Return the job's answer to an operation. Raise NotRunningError if it needs a running job, and the
    job does not run here."""
    if operation.role is Role.OPERATE:
        return JobClient(running(served), _OPERATE_TIMEOUT_S).ask(operation)
    if isinstance(served, StoredJob):
        if served.directory is not None:
            answer = operation.of_stored(views_in(served.job, served.directory))
            if answer is not None:
                return answer
        what = f"only a running job has its {operation.name}"
        raise NotRunningError(f"the job {served.job!r} is not running: {what}")
    return _client(served).ask(operation)


def _client(record: JobRecord) -> JobClient:
    _check_runs(record)
    return JobClient(record, _LOOK_TIMEOUT_S)


def _check_runs(record: JobRecord) -> None:
    if record.stands_by:
        raise NotRunningError(
            f"the job {record.job!r} does not run here: this driver is a standby",
            hint="send the request to the driver that runs the job",
        )


def running(served: Served) -> JobRecord:
    """Return the record of a running job. Raise NotRunningError for any other."""
    if isinstance(served, StoredJob):
        raise NotRunningError(f"the job {served.job!r} is not running")
    _check_runs(served)
    return served
