"""A command that waits for a job, and meanwhile shows what the job waits for."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

from rheos.cli.status import waiting_text
from rheos.cli.terminal import say
from rheos.core.errors import RheosError
from rheos.ops.control.commands import JobClient
from rheos.ops.control.registry import JobRecord
from rheos.runtimes.job import JobWait

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
    """Return what `command` returns, or raise what it raises. While it has no answer, print to stderr
    what the job waits for, first after a second and then every few seconds.

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
        return ()  # The command itself reports that the job does not answer.
