"""Implementations of the commands in `control.py`. Each returns the command's exit code."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Thread
from typing import TypeVar

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rheos.cli.status import waiting_text
from rheos.cli.terminal import INTERRUPTED, MISUSED, Terminal, report, say, say_lines
from rheos.connectors.urls import absolute
from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.protocol.durations import duration_ms, duration_text
from rheos.core.redaction import redacted
from rheos.ops.control.commands import JobClient
from rheos.ops.control.job_list import (
    ListedJob,
    checkpoint_object,
    job_object,
    listed_job,
    listed_jobs,
    stored_checkpoints,
)
from rheos.ops.control.registry import JobRecord, Registry, find_ended
from rheos.ops.control.running_jobs import find_running, find_to_look_at, is_gone, running_in
from rheos.ops.control.stored_views import stored_views
from rheos.runtimes.host.stores import folder_exists
from rheos.runtimes.job import CheckpointInfo, JobWait
from rheos.runtimes.job_operations import StopJob
from rheos.runtimes.operation_contract import JobOperation

# --- waiting for a job --------------------------------------------------------------------------------


T = TypeVar("T")

_LOOK_EVERY_S = 1.0
_REPORT_EVERY_S = 5.0
_ANSWER_WITHIN_S = 5.0


def awaited(
    record: JobRecord,
    command: Callable[[], T],
    look_every_s: float = _LOOK_EVERY_S,
    report_every_s: float = _REPORT_EVERY_S,
) -> T:
    """Return the result of `command`, or raise its error. While the command has no answer, print to
    stderr what the job waits for, first after a second and then every few seconds.

    Args:
        record: the job that the command is sent to.
        command: sends the command, and returns with the answer.
        look_every_s: interval between two requests for the job's status.
        report_every_s: interval between two reports, unless what the job waits for changes.
    """
    outcome: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(command())
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, name="rheos-command", daemon=True)
    thread.start()
    client = JobClient(record, _ANSWER_WITHIN_S)
    reported: tuple[str, ...] = ()
    report_at_s = 0.0
    thread.join(look_every_s)
    while thread.is_alive():
        waits = _waits(client)
        what = tuple(wait.what for wait in waits)
        if waits and (what != reported or time.monotonic() >= report_at_s):
            reported, report_at_s = what, time.monotonic() + report_every_s
            for wait in waits:
                say(waiting_text(wait, time.time_ns() // 1_000_000), error=True, flush=True)
        thread.join(look_every_s)
    if errors:
        raise errors[0]
    return outcome[0]


def _waits(client: JobClient) -> tuple[JobWait, ...]:
    try:
        return client.status().waits
    except RheosError:
        return ()  # The command itself reports that the job does not respond.


# --- the commands -------------------------------------------------------------------------------------


_GONE_WITHIN_S = 10.0
_POLL_S = 0.05
_PATIENCE_S = 30.0


# --- commands -----------------------------------------------------------------------------------


def show_jobs(directory: str | None, as_json: bool) -> int:
    def show() -> int:
        if directory is None:
            seen = listed_jobs(Registry())
        else:
            seen = [listed_job(record) for record in running_in(absolute(directory))]
        return print_list(seen, as_json, job_object, jobs_table, "no jobs are running")

    return reported(show)


def show_checkpoints(wanted: str, directory: str | None, as_json: bool) -> int:
    def show() -> int:
        kept = (
            _known_checkpoints(wanted)
            if directory is None
            else stored_checkpoints(wanted, absolute(directory))
        )
        none = "the job has no checkpoints"
        return print_list(kept, as_json, checkpoint_object, checkpoints_table, none)

    return reported(show)


def stop_job(
    wanted: str, directory: str | None, with_savepoint: bool, drain: bool, timeout: str
) -> int:
    """Stop a job with a savepoint, if the caller has confirmed it by `--savepoint`."""
    if not with_savepoint:
        print(
            "choose how: `rheos stop JOB --savepoint [DIR]` saves all progress of the job, and "
            "`rheos cancel JOB` stops it at once, at its last checkpoint",
            file=sys.stderr,
        )
        return MISUSED
    place = None if directory is None else absolute(directory)
    return operate(wanted, StopJob(directory=place, drain=drain), timeout)


def roll_back_job(wanted: str, keep: str) -> int:
    """Hand a job back to the driver that was kept ready, and print which one it is."""

    def run() -> int:
        from rheos.ops.control.handover import roll_back

        say(f"the job is handed back to {roll_back(wanted, duration_ms(keep) / 1000)}", error=True)
        return 0

    return reported(run)


def operate(
    wanted: str, operation: JobOperation[T], timeout: str | None, *, as_json: bool = False
) -> int:
    """Request an operation from a running job, and print the response.

    Args:
        wanted: names the job, as in `find_running`.
        operation: the operation, with its arguments.
        timeout: maximum time that the command waits; `None` waits for the operation's own time limit
            and a little longer.
        as_json: whether to print the response as JSON even if it has a text form.
    """

    def run() -> int:
        record, answer = _answered(wanted, operation, timeout)
        text = operation.text(answer)
        if operation.reports and (as_json or text is None):
            print(json.dumps(msgspec.to_builtins(answer, str_keys=True), indent=2))
        elif text is not None:
            (say_lines if operation.reports else say)(text)
        if record is not None and operation.ends_job:
            _wait_until_gone(record)
        if record is not None and (note := operation.note(record.job)) is not None:
            say(note, error=True)
        return 0

    return reported(run)


def _answered(
    wanted: str, operation: JobOperation[T], timeout: str | None
) -> tuple[JobRecord | None, T]:
    """Return the record of a running job and its answer. If the job does not run, but its checkpoints
    contain the answer, return that, without a record."""
    try:
        record = find_running(wanted)
    except ConfigurationError:
        stored = stored_views(wanted)
        found = None if stored is None else operation.of_stored(stored)
        if found is None:
            raise
        return None, found
    if timeout is None:
        return record, JobClient(record, operation.lasts_s + _PATIENCE_S).ask(operation)
    client = JobClient(record, duration_ms(timeout) / 1000)
    return record, awaited(record, lambda: client.ask(operation))


def print_list(
    found: list[T],
    as_json: bool,
    to_object: Callable[[T], object],
    table: Callable[[list[T]], Table],
    none: str,
) -> int:
    """Print the items that a command lists. Return the command's exit code.

    Args:
        found: the items of the list. as_json: whether to print it as JSON. to_object: returns the JSON
            object of one item. table: returns the table for people. Called if there are items. none:
            the message for people if there are no items.
    """
    if as_json:
        print(json.dumps([to_object(each) for each in found], indent=2))
    elif found:
        console().print(table(found))
    else:
        say(none)
    return 0


def reported(command: Callable[[], int]) -> int:
    try:
        return command()
    except RheosError as error:
        return report(error)
    except KeyboardInterrupt:
        print("no longer waiting; the request may still complete", file=sys.stderr)
        return INTERRUPTED


# --- jobs ---------------------------------------------------------------------------------------


def job_information(
    wanted: str, running: Callable[[JobRecord], T], stored: Callable[[str, str], T]
) -> T:
    """Return information about a job that runs, or has ended, on this machine.

    Args:
        wanted: names the job, as in `find_running`.
        running: requests it from a running job.
        stored: reads it for a job that has ended, from its id and its checkpoint directory.

    Raises:
        ConfigurationError: no job matches, or several do.
    """
    registry = Registry()
    try:
        record = find_to_look_at(wanted)
    except ConfigurationError:
        ended = find_ended(wanted, registry)
        if ended is None or ended.checkpoint_dir is None or not folder_exists(ended.checkpoint_dir):
            raise
        return stored(ended.job, ended.checkpoint_dir)
    return running(record)


def _wait_until_gone(record: JobRecord) -> None:
    """Wait until a job that has ended is no longer registered, so that it may be started again."""
    give_up = time.monotonic() + _GONE_WITHIN_S
    while time.monotonic() < give_up:
        if is_gone(record):
            return
        time.sleep(_POLL_S)


def jobs_table(seen: list[ListedJob]) -> Table:
    table = plain_table("id", "name", "state", "health")
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
        health = "" if job.health is None else job.health.headline
        texts = [
            job.record.job,
            job.record.name,
            job.state,
            health,
            *shown,
            job.record.checkpoint_dir or "",
        ]
        table.add_row(*map(Text, texts))
    return table


# --- checkpoints --------------------------------------------------------------------------------


def _known_checkpoints(wanted: str) -> list[CheckpointInfo]:
    """Return the checkpoints of a running job, or of one that has ended here."""
    return job_information(
        wanted, lambda record: list(JobClient(record).checkpoints()), stored_checkpoints
    )


def checkpoints_table(kept: list[CheckpointInfo]) -> Table:
    table = plain_table("checkpoint", "attempt", "completed")
    for heading in ("took", "blocked", "aligned", "wrote", "state", "in flight"):
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


# --- output -----------------------------------------------------------------------------------------


def size_text(size_bytes: int) -> str:
    """Return a size for people: "812 B", "4.2 KB", "1.3 GB"."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    value = float(size_bytes)
    for unit in ("KB", "MB", "GB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:,.1f} TB"


def time_text(ms: int) -> str:
    """Return a time for people; empty for 0, which means unknown in logs of earlier versions."""
    if not ms:
        return ""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def plain_table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def console() -> Console:
    """Return the console. In a pipe it does not wrap lines, so that every job has one line."""
    console = Terminal(highlight=False)
    return console if console.is_terminal else Terminal(highlight=False, width=1_000)
