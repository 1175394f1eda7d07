"""Output of commands for people, without characters that control a terminal (`rheos.core.printable`).

Commands print text through `say` and `Terminal`. They print JSON through `print`, unchanged.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.segment import Segment

from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.printable import printable, printable_lines
from rheos.core.unknown_names import hint_for_attribute


def say(text: object, *, error: bool = False, flush: bool = False) -> None:
    """Print a message. Lines after its first one begin with `|`.

    Args:
        text: the message.
        error: whether to print to stderr.
        flush: whether to flush the output.
    """
    print(printable_lines(str(text)), file=sys.stderr if error else sys.stdout, flush=flush)


def say_lines(text: object, *, error: bool = False) -> None:
    """Print lines of Rheos's own, such as a plan or an error, unmarked."""
    print(printable_lines(str(text), ""), file=sys.stderr if error else sys.stdout)


class Terminal(Console):
    """Rich console that escapes control characters in texts, except those of its own styles."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(map(_printable, buffer))


def _printable(segment: Segment) -> Segment:
    if segment.control or segment.text.isprintable():
        return segment
    text = "\n".join(map(printable, segment.text.split("\n")))
    return Segment(text, segment.style)


# --- errors of programs: the user's file and line come first
# --------------------------------------------


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
    if hint := hint_for_attribute(error):
        say_lines(f"  what to do: {hint}", error=True)
    return FAILED


def user_traceback(error: BaseException) -> list[str]:
    """Return the traceback as Python prints it, without frames of the command and of Rheos."""
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
