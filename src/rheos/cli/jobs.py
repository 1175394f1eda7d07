"""What the commands of `control.py` do. Each gives the command's exit code."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rheos.checkpoint.log import JobLog, LogView
from rheos.cli.failures import INTERRUPTED, MISUSED, report
from rheos.cli.status import duration_text
from rheos.connectors.files.listing import absolute
from rheos.control.commands import JobClient
from rheos.control.processes import Liveness, liveness
from rheos.control.registry import JobRecord, Registry, find_job
from rheos.driver.master import checkpoint_info
from rheos.errors import ConfigurationError, RheosError, TransportError
from rheos.host.stores import open_store, there_is
from rheos.job import CheckpointInfo, JobStatus
from rheos.protocol.durations import duration_ms
from rheos.protocol.ids import JobId, job_slug
from rheos.protocol.ports import Store
from rheos.redaction import redacted

_LOOK_TIMEOUT_S = 3.0
_GONE_WITHIN_S = 10.0
_POLL_S = 0.05


@dataclass(frozen=True)
class ListedJob:
    """A job of the registry, and what it said of itself; None where it gave no answer."""

    record: JobRecord
    status: JobStatus | None


# --- commands -----------------------------------------------------------------------------------


def show_jobs(as_json: bool) -> int:
    seen = _look(Registry())
    if as_json:
        print(json.dumps([_job_object(job) for job in seen], indent=2))
    elif seen:
        console().print(jobs_table(seen))
    else:
        print("no jobs are running")
    return 0


def show_checkpoints(wanted: str, directory: str | None, as_json: bool) -> int:
    def show() -> int:
        kept = _of_running(wanted) if directory is None else _in_log(wanted, absolute(directory))
        if as_json:
            print(json.dumps([_checkpoint_object(info) for info in kept], indent=2))
        elif kept:
            console().print(checkpoints_table(kept))
        else:
            print("no checkpoints are kept")
        return 0

    return reported(show)


def show_story(wanted: str) -> int:
    def show() -> int:
        for line in JobClient(find(wanted)).story():
            print(line)
        return 0

    return reported(show)


def take_savepoint(wanted: str, directory: str | None, timeout: str) -> int:
    def take() -> int:
        client = JobClient(find(wanted), duration_ms(timeout) / 1000)
        print(client.savepoint(_place(directory)))
        return 0

    return reported(take)


def stop_job(
    wanted: str, directory: str | None, with_savepoint: bool, drain: bool, timeout: str
) -> int:
    def stop() -> int:
        if not with_savepoint:
            print(
                "say how: `rheos stop JOB --savepoint [DIR]` keeps all that the job has done, and "
                "`rheos cancel JOB` stops it as it is, at its last checkpoint",
                file=sys.stderr,
            )
            return MISUSED
        record = find(wanted)
        client = JobClient(record, duration_ms(timeout) / 1000)
        print(client.stop(_place(directory), drain=drain))
        _wait_until_gone(record)
        return 0

    return reported(stop)


def cancel_job(wanted: str, timeout: str) -> int:
    def cancel() -> int:
        record = find(wanted)
        JobClient(record, duration_ms(timeout) / 1000).cancel()
        _wait_until_gone(record)
        print(f"cancelled {record.job}", file=sys.stderr)
        return 0

    return reported(cancel)


def reported(command: Callable[[], int]) -> int:
    try:
        return command()
    except RheosError as error:
        return report(error)
    except KeyboardInterrupt:
        print("no longer waiting; what was asked for may still be done", file=sys.stderr)
        return INTERRUPTED


# --- jobs ---------------------------------------------------------------------------------------


def find(wanted: str) -> JobRecord:
    return find_job(wanted, Registry().records())


def _place(directory: str | None) -> str | None:
    """As the driver understands it, whatever its working directory."""
    return None if directory is None else absolute(directory)


def _wait_until_gone(record: JobRecord) -> None:
    """Then the job may be started again at once. It has ended by now: this takes a moment."""
    give_up = time.monotonic() + _GONE_WITHIN_S
    while time.monotonic() < give_up:
        if record.key not in {running.key for running in Registry().records()}:
            return
        time.sleep(_POLL_S)


def _look(registry: Registry) -> list[ListedJob]:
    """All jobs, each asked for its status. One that ended meanwhile is left out."""
    records = registry.records()
    if not records:
        return []
    with ThreadPoolExecutor(min(len(records), 16)) as pool:
        seen = list(pool.map(_ask, records))
    still = {record.key for record in registry.records()}
    return [job for job in seen if job.record.key in still]


def _ask(record: JobRecord) -> ListedJob:
    try:
        return ListedJob(record, JobClient(record, _LOOK_TIMEOUT_S).status())
    except RheosError:
        return ListedJob(record, None)


def _state(job: ListedJob) -> str:
    if job.status is not None:
        loops = "".join(
            f", its input has ended and {name!r} still goes round (lap {laps:,})"
            for name, laps in job.status.iterating.items()
        )
        return f"{job.status.state.value}{loops}"
    if liveness(job.record.process) is Liveness.ELSEWHERE:
        return f"on host {job.record.process.host}"
    return "gives no answer"


def jobs_table(seen: list[ListedJob]) -> Table:
    table = plain_table("id", "name", "state")
    for heading in ("parallelism", "uptime", "records/s", "checkpoints", "restarts", "last checkpoint"):
        table.add_column(heading, justify="right")
    table.add_column("directory", overflow="fold")
    for job in seen:
        status = job.status
        shown = ["", "", "", "", "", ""]
        if status is not None:
            failed = f" ({status.checkpoints_failed:,} failed)" if status.checkpoints_failed else ""
            took_ms = status.last_checkpoint_ms
            shown = [
                str(status.parallelism) if status.parallelism else "",
                duration_text(status.running_s * 1000),
                f"{status.records_per_s:,.0f}",
                f"{status.checkpoints_completed:,}{failed}",
                f"{status.restarts:,}",
                "" if took_ms is None else duration_text(took_ms),
            ]
        texts = [job.record.job, job.record.name, _state(job), *shown, job.record.checkpoint_dir or ""]
        table.add_row(*map(Text, texts))
    return table


def _job_object(job: ListedJob) -> dict[str, Any]:
    record, status = job.record, job.status
    return {
        "id": record.job,
        "name": record.name,
        "state": None if status is None else status.state.value,
        "problem": _state(job) if status is None else None,
        "runtime": record.runtime,
        "parallelism": status.parallelism if status else None,
        "attempt": status.attempt if status else None,
        "uptime_s": status.running_s if status else None,
        "records_per_s": status.records_per_s if status else None,
        "watermark_ms": status.watermark_ms if status else None,
        "checkpoints_completed": status.checkpoints_completed if status else None,
        "checkpoints_failed": status.checkpoints_failed if status else None,
        "last_checkpoint_ms": status.last_checkpoint_ms if status else None,
        "restarts": status.restarts if status else None,
        "iterating": dict(status.iterating) if status else None,
        "failure": status.failure if status else None,
        "checkpoint_dir": record.checkpoint_dir,
        "host": record.process.host,
        "pid": record.process.pid,
        "started_ms": record.started_ms,
    }


# --- checkpoints --------------------------------------------------------------------------------


def _of_running(wanted: str) -> list[CheckpointInfo]:
    try:
        record = find(wanted)
    except ConfigurationError as error:
        error.hint = f"of a job that does not run say --checkpoint-dir; {error.hint}"
        raise
    return JobClient(record).checkpoints()


def _in_log(wanted: str, directory: str) -> list[CheckpointInfo]:
    """Raises ConfigurationError where the directory has no such job, CheckpointError."""
    _, _, view = stored_job(wanted, directory)
    return [checkpoint_info(kept.entry) for kept in view.completed]


def stored_job(wanted: str, directory: str) -> tuple[Store, JobId, LogView]:
    """A job by its id or name, whether it runs or not. Raises ConfigurationError where the directory
    has no such job, CheckpointError."""
    if not there_is(directory):
        raise ConfigurationError(f"there is no checkpoint directory {directory!r}")
    store = open_store(directory)
    for job in (JobId(wanted), job_slug(wanted)):
        view = JobLog(store, job).read()
        if view.newest is not None:
            return store, job, view
    try:
        places = {path.split("/")[0] for path in store.list("") if "/log/" in path}
    except OSError as error:
        raise TransportError(f"{directory!r} could not be read: {error}") from error
    raise ConfigurationError(
        f"there is no job {wanted!r} in {directory!r}",
        hint=f"name one of those it has: {', '.join(sorted(map(unquote, places)))}"
        if places
        else "name the checkpoint directory of a job; this is none",
    )


def checkpoints_table(kept: list[CheckpointInfo]) -> Table:
    table = plain_table("checkpoint", "attempt", "completed")
    for heading in ("took", "stood still", "aligned", "wrote", "state", "in flight"):
        table.add_column(heading, justify="right")
    table.add_column("savepoint", overflow="fold")
    for info in kept:
        cost = info.cost
        table.add_row(
            str(info.checkpoint),
            str(info.attempt),
            time_text(info.completed_ms),
            duration_text(info.duration_ms),
            duration_text(cost.sync_us / 1000),
            "overtook" if cost.unaligned else duration_text(cost.align_us / 1000),
            size_text(cost.written_bytes),
            size_text(info.state_bytes),
            size_text(cost.in_flight_bytes) if cost.in_flight_bytes else "",
            Text(redacted(info.savepoint)),
        )
    return table


def _checkpoint_object(info: CheckpointInfo) -> dict[str, Any]:
    shown = {**asdict(info), "savepoint": redacted(info.savepoint)}
    cost = shown.pop("cost")
    return {
        **shown,
        **{name: getattr(cost, name) for name in cost.__struct_fields__},
    }


# --- how it looks -------------------------------------------------------------------------------


def size_text(size_bytes: int) -> str:
    """ "812 B", "4.2 KB", "1.3 GB"."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    value = float(size_bytes)
    for unit in ("KB", "MB", "GB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:,.1f} TB"


def time_text(ms: int) -> str:
    """Empty for 0: logs of earlier versions do not say."""
    if not ms:
        return ""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def plain_table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def console() -> Console:
    """In a pipe every job has one line, however long."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=1_000)
