"""`rheos events`: what happened to a job, the newest first."""

from __future__ import annotations

import json

import msgspec
from rich.table import Table
from rich.text import Text

from rheos.cli.jobs import console, find, of_known, plain_table, reported
from rheos.cli.terminal import say
from rheos.connectors.urls import absolute
from rheos.core.errors import ConfigurationError
from rheos.core.metrics.event_log import EventLevel, JobEvent, ShownEvent
from rheos.ops.control.commands import JobClient
from rheos.ops.control.job_list import stored_event_log
from rheos.ops.control.registry import Registry, find_ended
from rheos.runtimes.host.io import SystemClock

_STYLES = {EventLevel.INFO: "", EventLevel.WARNING: "yellow", EventLevel.ERROR: "red"}


def show_events(wanted: str, directory: str | None, most: int, as_json: bool) -> int:
    def show() -> int:
        events = _known(wanted) if directory is None else stored_event_log(wanted, absolute(directory))
        now_ms = SystemClock().now_ms()
        shown = [ShownEvent.of(event, now_ms) for event in events[:most]]
        if as_json:
            print(json.dumps(msgspec.to_builtins(shown), indent=2))
        elif shown:
            console().print(events_table(shown))
        else:
            print("the job has no events")
        return 0

    return reported(show)


def show_trace(wanted: str) -> int:
    def show() -> int:
        for line in JobClient(find(wanted)).decisions():
            say(line)
        return 0

    return reported(show)


def events_table(shown: list[ShownEvent]) -> Table:
    table = plain_table("time", "level", "what happened")
    for event in shown:
        style = _STYLES[event.level]
        table.add_row(event.at, Text(event.level.value, style), Text(event.text))
    return table


def _known(wanted: str) -> list[JobEvent]:
    """Return the events of a job that runs or has ended on this machine."""
    try:
        return of_known(wanted, lambda record: list(JobClient(record).events()), stored_event_log)
    except ConfigurationError:
        ended = find_ended(wanted, Registry())
        if ended is None:
            raise
        return ended.events
