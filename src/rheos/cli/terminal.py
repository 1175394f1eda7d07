"""Output of commands for people, without characters that control a terminal (`rheos.core.printable`).

Commands print text through `say` and `Terminal`. They print JSON through `print`, unchanged.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterable

from rich.console import Console
from rich.segment import Segment

from rheos.core.error_hints import hint_for_error
from rheos.core.errors import ConfigurationError, RheosError, Site
from rheos.core.printable import printable, printable_lines
from rheos.core.site import PACKAGE, is_users


def say(text: object, *, error: bool = False, flush: bool = False) -> None:
    """Print a message. Lines after its first one begin with `|`.

    Args:
        text: the message.
        error: whether to print to stderr.
        flush: whether to flush the output.
    """
    print(printable_lines(str(text)), file=sys.stderr if error else sys.stdout, flush=flush)


def say_lines(text: object, *, error: bool = False) -> None:
    """Print lines that Rheos wrote itself, such as a plan or an error, without marks."""
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
DIFFERENT = 3
"""The outputs of two programs differ, so the job was not handed over."""
INTERRUPTED = 130

_OURS = (PACKAGE, runpy.__file__, "<frozen runpy>", "<frozen importlib")
_HEADER = "Traceback (most recent call last):\n"


def report(error: BaseException) -> int:
    """Print the error to stderr and return the command's exit code. Ctrl-C counts as an error, too."""
    if isinstance(error, KeyboardInterrupt):
        print("cancelled", file=sys.stderr)
        return INTERRUPTED
    if not isinstance(error, RheosError):
        error = located_error(error)
    say_lines(error, error=True)
    return MISUSED if isinstance(error, ConfigurationError) else FAILED


def located_error(error: BaseException) -> RheosError:
    """Return the error for an exception of a program, with its line, advice and the user's frames."""
    whole = traceback.TracebackException.from_exception(error)
    _trim(whole)
    what = "".join(whole.format_exception_only())
    detail = "".join(whole.format())
    site = Site(whole.stack[-1].filename, whole.stack[-1].lineno or 0) if whole.stack else None
    if isinstance(error, SyntaxError) and error.filename:
        site, what = Site(error.filename, error.lineno or 0), f"{type(error).__name__}: {error.msg}"
    hint = hint_for_error(error)
    return RheosError(
        what.partition("\n")[0] if hint else what.rstrip(),
        site=site,
        hint=hint,
        detail=detail.removesuffix(what).removeprefix(_HEADER),
    )


def _trim(part: traceback.TracebackException) -> None:
    """Keep the user's frames; those of libraries, too, if there are no others."""
    kept = [frame for frame in part.stack if is_users(frame.filename)]
    rest = [frame for frame in part.stack if not frame.filename.startswith(_OURS)]
    part.stack = traceback.StackSummary.from_list(kept or rest)
    for inner in (part.__cause__, part.__context__):
        if inner is not None:
            _trim(inner)
