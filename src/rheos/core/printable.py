"""Makes strings of records and programs safe to show on terminals, in logs and in notebooks.

A record can contain a terminal command, a character that reverses the writing direction, or a line that
looks like a message of Rheos. Each such character is written as a Python escape (`\\x1b`, `\\u202e`).
JSON and files stay exact: this is only for output that people read.
"""

from __future__ import annotations

import re
import unicodedata

_CANDIDATE = re.compile(r"[^ -~]")
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode categories of control and format characters, lone surrogates, and line separators."""

CONTINUED = "  | "
"""Start of each further line of a message."""


def printable(text: str) -> str:
    """Return the string on one line, with all characters escaped except visible ones and spaces.

    >>> printable("joe\\n\\x1b[2J \\u202e caf\\u00e9")
    'joe\\\\n\\\\x1b[2J \\\\u202e café'
    """
    return text if text.isprintable() else _CANDIDATE.sub(_escaped, text)


def printable_lines(text: str, continued: str = CONTINUED) -> str:
    """Return the string with its lines kept and all characters printable. Each line after the first
    starts with `continued`, so that readers do not take it for a separate message."""
    if text.isprintable():
        return text
    return f"\n{continued}".join(printable(line) for line in re.split(r"\r?\n", text))


def printable_json(text: str) -> str:
    """Return lines of JSON in which JSON's own escapes replace the characters that `printable` escapes.
    The lines are printable, and parsers read the same values."""
    lines = text.split("\n")
    return "\n".join(
        line if line.isprintable() else _CANDIDATE.sub(_escaped_json, line) for line in lines
    )


def _escaped_json(found: re.Match[str]) -> str:
    character = found[0]
    if unicodedata.category(character) not in _HIDDEN:
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    if unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode()
