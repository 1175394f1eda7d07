"""Reports a program's error to the user: her own file and line come first, and Rheos's own frames are
left out."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path

from rheos.cli.terminal import say_lines
from rheos.core.errors import ConfigurationError, RheosError

FAILED = 1
MISUSED = 2
INTERRUPTED = 130

_OURS = (str(Path(__file__).parent.parent), runpy.__file__, "<frozen runpy>", "<frozen importlib")


def report(error: BaseException) -> int:
    """Print the error to stderr and return the command's exit code. Ctrl-C counts as an error, too."""
    if isinstance(error, KeyboardInterrupt):
        print("cancelled", file=sys.stderr)
        return INTERRUPTED
    if isinstance(error, RheosError):
        say_lines(error, error=True)
        return MISUSED if isinstance(error, ConfigurationError) else FAILED
    say_lines("".join(user_traceback(error)).rstrip("\n"), error=True)
    return FAILED


def user_traceback(error: BaseException) -> list[str]:
    """The traceback as Python prints it, without the frames of the command and of this package."""
    whole = traceback.TracebackException.from_exception(error)
    _trim(whole)
    return list(whole.format())


def _trim(part: traceback.TracebackException) -> None:
    part.stack = traceback.StackSummary.from_list(
        [frame for frame in part.stack if not frame.filename.startswith(_OURS)]
    )
    for inner in (part.__cause__, part.__context__):
        if inner is not None:
            _trim(inner)
