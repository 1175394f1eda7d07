"""Text of records and of programs as people may see it: on terminals, in logs and in notebooks.

A record can hold a command for the terminal, a character that reverses the order of letters, or a line
that looks like one of Rheos' own. So each such character is written as Python writes it in a string
(`\\x1b`, `\\u202e`). JSON and files stay exact: this is for what is shown to people alone.
"""

from __future__ import annotations

import re
import unicodedata

_CANDIDATE = re.compile(r"[^ -~]")
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode's categories of control and format characters, lone surrogates, and separators of lines."""

CONTINUED = "  | "
"""Start of each further line of a message."""


def printable(text: str) -> str:
    """Return the text on one line, with all characters escaped except visible ones and spaces.

    >>> printable("joe\\n\\x1b[2J \\u202e caf\\u00e9")
    'joe\\\\n\\\\x1b[2J \\\\u202e café'
    """
    return text if text.isprintable() else _CANDIDATE.sub(_escaped, text)


def printable_lines(text: str, continued: str = CONTINUED) -> str:
    """Return the text with its lines kept and printable. Each line after the first starts with
    `continued`, so none can pass for a message of its own."""
    if text.isprintable():
        return text
    return f"\n{continued}".join(printable(line) for line in re.split(r"\r?\n", text))


def printable_json(text: str) -> str:
    """Return lines of JSON, with JSON's own escapes for what `printable` escapes in strings: they are
    printable, and parsers read the same values."""
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
