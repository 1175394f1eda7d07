"""`rheos debug`: one key of a job, replayed here, step by step."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from rheos.cli.debug_shell import DebugShell
from rheos.cli.debug_text import debugged_object, ending, heading, printed, step_lines, step_object
from rheos.cli.failures import FAILED, report
from rheos.cli.terminal import say
from rheos.cli.why_not import key_columns
from rheos.core.errors import ConfigurationError
from rheos.ops.debugging.debugging import Debugged, debug


def debug_job(
    job: str,
    *,
    key: str,
    operator: str | None,
    from_: str,
    until: str | None,
    against: Path | None,
    checkpoint_dir: str | None,
    script: Path | None,
    trace: bool,
    as_json: bool,
) -> int:
    """Asks what to do where there is a terminal, and prints each step otherwise. Gives the exit code: 1
    where the program failed."""
    try:
        debugged = debug(
            job,
            key_columns(key),
            operator=operator,
            from_checkpoint=_number(from_, "--from"),
            until=None if until is None else _number(until, "--until"),
            against=against,
            checkpoint_dir=checkpoint_dir,
        )
        if as_json:
            return _print_json(debugged)
        if script is not None:
            with script.open() as commands:
                return DebugShell(debugged, commands).run()
        if sys.stdin.isatty() and not trace:
            return DebugShell(debugged).run()
        return _print(debugged)
    except (Exception, KeyboardInterrupt) as error:
        return report(error)


def _number(text: str, option: str) -> int | None:
    if text == "latest":
        return None
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(
            f"{option} {text!r} is no checkpoint",
            hint='name it by its number, as `rheos checkpoints` shows it, or "latest"',
        ) from None


def _print(debugged: Debugged) -> int:
    for line in heading(debugged):
        say(line)
    failed = False
    for step in debugged:
        failed |= step.error is not None
        for line in step_lines(step, debugged.inputs):
            say(line)
    for line in ending(debugged):
        say(line)
    return FAILED if failed else 0


def _print_json(debugged: Debugged) -> int:
    # Output that the functions print is not part of the JSON.
    with contextlib.redirect_stdout(sys.stderr):
        steps = [step_object(step) for step in debugged]
    print(printed(debugged_object(debugged, steps)))
    return FAILED if any(step["error"] for step in steps) else 0
