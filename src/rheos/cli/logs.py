"""`rheos logs` and `rheos events`: log messages and events of a job."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import msgspec
from rich.table import Table
from rich.text import Text

from rheos.cli.jobs import job_information, plain_table, print_list, reported
from rheos.cli.terminal import say
from rheos.connectors.urls import absolute
from rheos.core.errors import ConfigurationError
from rheos.core.metrics.event_log import EventLevel, JobEvent, ShownEvent
from rheos.core.printable import printable_lines
from rheos.ops.control.commands import JobClient
from rheos.ops.control.job_list import stored_event_log
from rheos.ops.control.job_logs import LoggedLine, following_lines, log_folder, newest_lines
from rheos.ops.control.registry import Registry, find_ended
from rheos.ops.control.running_jobs import find_running
from rheos.runtimes.host.io import SystemClock


def show_logs(wanted: str, *, follow: bool, lines: int, level: str, as_json: bool) -> int:
    def show() -> int:
        path = _log_of(wanted)
        found: Iterable[LoggedLine] = newest_lines(path, lines)
        try:
            for line in _from_level(chain(found, following_lines(path) if follow else ()), level):
                shown = msgspec.json.encode(line).decode() if as_json else line_text(line)
                print(shown, flush=follow)
        except KeyboardInterrupt:
            if not follow:
                raise
        return 0

    return reported(show)


def line_text(line: LoggedLine) -> str:
    """Return a line for people: its origin, and the message. Further lines of a message, and characters
    that control a terminal, cannot be mistaken for other lines of the log."""
    attempt = "" if line.attempt is None else f"attempt {line.attempt}"
    subtask = "driver" if line.subtask is None else f"subtask {line.subtask}"
    where = ", ".join(part for part in (line.operator, subtask, attempt) if part)
    text = f"{line.time} {line.level.upper():7} {line.logger} [{where}] {line.message}"
    return printable_lines(f"{text}\n{line.error}" if line.error else text)


def _from_level(lines: Iterable[LoggedLine], level: str) -> Iterator[LoggedLine]:
    numbers = logging.getLevelNamesMapping()
    least = numbers[level.upper()]
    return (line for line in lines if numbers.get(line.level.upper(), least) >= least)


def _log_of(wanted: str) -> Path:
    """Return the log of a running job, or otherwise of a job that has left a log.

    Raises ConfigurationError if neither exists.
    """
    try:
        record = find_running(wanted)
    except ConfigurationError as error:
        left = sorted(log_folder().glob("*.jsonl"))
        fitting = [path for path in left if path.stem == wanted] or [
            path for path in left if path.stem.startswith(wanted)
        ]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise ConfigurationError(
                f"{wanted!r} matches {len(fitting)} logs",
                hint="pass the whole name of one",
                detail="\n".join(path.stem for path in fitting),
            ) from None
        raise ConfigurationError(
            f"no job {wanted!r} is running, and there is no log of one in {log_folder()}",
            hint="run this on the host where the job was started, with the same RHEOS_HOME",
            detail="\n".join(path.stem for path in left),
        ) from error
    if record.directory is not None:
        raise ConfigurationError(
            f"the log of the job {record.job!r} is on the host of its driver, {record.process.host}",
            hint="run the command there, or run the job with --log-json for a log collector",
        )
    if record.log is None:
        raise ConfigurationError(
            f"the job {record.job!r} keeps no log",
            hint='it runs with log_level=None: set "info", or pass --log-level info',
        )
    return Path(record.log)


# --- rheos events -------------------------------------------------------------------------------------


_STYLES = {EventLevel.INFO: "", EventLevel.WARNING: "yellow", EventLevel.ERROR: "red"}


def show_events(wanted: str, directory: str | None, most: int, as_json: bool) -> int:
    def show() -> int:
        events = (
            _events_of(wanted) if directory is None else stored_event_log(wanted, absolute(directory))
        )
        now_ms = SystemClock().now_ms()
        shown = [ShownEvent.of(event, now_ms) for event in events[:most]]
        return print_list(shown, as_json, msgspec.to_builtins, events_table, "the job has no events")

    return reported(show)


def show_trace(wanted: str) -> int:
    def show() -> int:
        for line in JobClient(find_running(wanted)).decisions():
            say(line)
        return 0

    return reported(show)


def events_table(shown: list[ShownEvent]) -> Table:
    table = plain_table("time", "level", "what happened")
    for event in shown:
        style = _STYLES[event.level]
        table.add_row(event.at, Text(event.level.value, style), Text(event.text))
    return table


def _events_of(wanted: str) -> list[JobEvent]:
    """Return the events of a job that runs, or has ended, on this machine."""
    try:
        return job_information(
            wanted, lambda record: list(JobClient(record).events()), stored_event_log
        )
    except ConfigurationError:
        ended = find_ended(wanted, Registry())
        if ended is None:
            raise
        return ended.events
