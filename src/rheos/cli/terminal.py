"""Output of commands for people, without characters that control a terminal (`rheos.core.printable`).

Commands print by `say` and `Terminal`, and JSON by `print`: that stays exact.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.segment import Segment

from rheos.core.printable import printable, printable_lines


def say(text: object, *, error: bool = False, flush: bool = False) -> None:
    """Print one message. The lines after its first one start with `|`.

    Args:
        text: what is printed; further lines begin with "|".
        error: whether it goes to stderr.
        flush: whether it is written at once.
    """
    print(printable_lines(str(text)), file=sys.stderr if error else sys.stdout, flush=flush)


def say_lines(text: object, *, error: bool = False) -> None:
    """Print lines that Rheos itself wrote, such as a plan or an error, without marking them."""
    print(printable_lines(str(text), ""), file=sys.stderr if error else sys.stdout)


class Terminal(Console):
    """A console of Rich that shows tables and texts, its own styles apart, as `printable` does."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(map(_printable, buffer))


def _printable(segment: Segment) -> Segment:
    if segment.control or segment.text.isprintable():
        return segment
    text = "\n".join(map(printable, segment.text.split("\n")))
    return Segment(text, segment.style)
