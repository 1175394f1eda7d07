"""Parsing of typed input: where statements end, and completions at the cursor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "JOIN", "LEFT JOIN", "ON", "UNION ALL", "WITH"),
    *("INSERT INTO", "CREATE TABLE", "CREATE VIEW", "VALUES", "CASE WHEN", "INTERVAL", "WATERMARK FOR"),
    *("TUMBLE", "HOP", "CUMULATE", "SESSION", "DESCRIPTOR", "TABLE", "PARTITION BY", "ORDER BY"),
    *("MATCH_RECOGNIZE", "MEASURES", "PATTERN", "DEFINE", "EXPLAIN", "SHOW TABLES", "DESCRIBE", "SET"),
)

_PIECES = re.compile(
    r"""
    --[^\n]*                      # A comment, to the end of its line.
    | /\*.*?(?:\*/|\Z)            # One that says its end.
    | '(?:[^'\\]|\\.|'')*(?:'|\Z) # Texts and names in quotes, which hold no statement's end.
    | "(?:[^"\\]|\\.)*(?:"|\Z)
    | `[^`]*(?:`|\Z)
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)
_WORD = re.compile(r"[\w.]*\Z")


def statements(text: str) -> tuple[list[str], str]:
    """Return the complete statements without their semicolons, and the rest after the last one."""
    found, begin = [], 0
    for piece in _PIECES.finditer(text):
        if piece["end"]:
            found.append(text[begin : piece.start()])
            begin = piece.end()
    return [each for each in found if not _is_empty(each)], text[begin:]


def is_whole(text: str) -> bool:
    """Whether what was typed can be carried out: statements up to a semicolon, or a command."""
    return text.lstrip().startswith(".") or _is_empty(statements(text)[1])


def word_at_end(text: str) -> str:
    """Return the typed part of the word at the cursor."""
    found = _WORD.search(text)
    return "" if found is None else found[0]


def _is_empty(text: str) -> bool:
    return not _PIECES.sub(lambda piece: "" if piece[0][:2] in ("--", "/*") else piece[0], text).strip()


def completions(before: str, tables: Mapping[str, Sequence[str]], commands: Iterable[str]) -> list[str]:
    """Return completions for the word at the cursor: names of tables, their columns, and SQL keywords.
    `before` is the input up to the cursor."""
    word = word_at_end(before)
    if before.strip() == word and word.startswith("."):
        return [each for each in commands if each.startswith(word)]
    table, point, column = word.rpartition(".")
    if point:
        columns = (of for name, of in tables.items() if name.casefold() == table.casefold())
        return [f"{table}.{each}" for each in next(columns, ()) if _begins(each, column)]
    if not word:
        return []
    names = dict.fromkeys([*tables, *(each for columns in tables.values() for each in columns)])
    keywords = [each if word.isupper() else each.lower() for each in KEYWORDS]
    return [each for each in (*names, *keywords) if _begins(each, word)]


def _begins(name: str, word: str) -> bool:
    return name.casefold().startswith(word.casefold())
