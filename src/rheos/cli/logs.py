"""`rheos logs`: what a job has logged, from the file that its driver writes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import msgspec

from rheos.cli.jobs import reported
from rheos.core.errors import ConfigurationError
from rheos.core.printable import printable_lines
from rheos.ops.control.job_logs import LoggedLine, following_lines, log_folder, newest_lines
from rheos.ops.control.registry import Registry, find_job


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
    """Return a line for people: where it comes from, and the message. A message of several lines, or
    with characters that a terminal would act on, cannot be taken for other lines of the log."""
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
    """Return the log of a running job, or else of a job that has left a log.

    Raises ConfigurationError if neither exists.
    """
    try:
        record = find_job(wanted, Registry().records())
    except ConfigurationError as error:
        left = sorted(log_folder().glob("*.jsonl"))
        fitting = [path for path in left if path.stem == wanted] or [
            path for path in left if path.stem.startswith(wanted)
        ]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise ConfigurationError(
                f"{wanted!r} may be any of {len(fitting)} logs",
                hint="say which by its whole name",
                detail="\n".join(path.stem for path in fitting),
            ) from None
        raise ConfigurationError(
            f"there is no running job {wanted!r}, and none has left a log in {log_folder()}",
            hint="is RHEOS_HOME the same as where the job was started, and the host?",
            detail="\n".join(path.stem for path in left),
        ) from error
    if record.log is None:
        raise ConfigurationError(
            f"the job {record.job!r} keeps no log",
            hint='it runs with log_level=None: say "info", or --log-level info',
        )
    return Path(record.log)
