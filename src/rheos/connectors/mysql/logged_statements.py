"""Statements in the server's log, and their effect on one table. Pure."""

from __future__ import annotations

import re
from enum import Enum


class Effect(Enum):
    """Effect of a statement on the rows of a table."""

    NONE = "none"
    COMMITS = "commits"
    ROLLS_BACK = "rolls back"
    TRUNCATES = "truncates"
    REPLACES = "replaces"
    """The table is dropped, renamed or replaced, or loses a partition."""
    CHANGES_ROWS = "changes rows"
    """Rows change, and the log does not contain them."""


_COMMENT = re.compile(r"/\*(?![!M]).*?\*/|--\s[^\n]*\n|#[^\n]*\n", re.DOTALL)
_NAME = r"(?:`(?:[^`]|``)+`|\"[^\"]+\"|[\w$]+)"
_TABLE = rf"(?:{_NAME}\s*\.\s*)?{_NAME}"
_TRUNCATE = re.compile(rf"TRUNCATE\s+(?:TABLE\s+)?({_TABLE})", re.IGNORECASE)
_DROP = re.compile(
    rf"DROP\s+TABLE\s+(?:IF\s+EXISTS\s+)?((?:{_TABLE})(?:\s*,\s*{_TABLE})*)", re.IGNORECASE
)
_DROP_DATABASE = re.compile(
    rf"DROP\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+EXISTS\s+)?({_NAME})", re.IGNORECASE
)
_REPLACE = re.compile(rf"CREATE\s+OR\s+REPLACE\s+TABLE\s+({_TABLE})", re.IGNORECASE)
_CREATE = re.compile(rf"CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?({_TABLE})", re.IGNORECASE)
_RENAME = re.compile(r"RENAME\s+TABLES?\s+(.*)", re.IGNORECASE | re.DOTALL)
_ALTER = re.compile(
    rf"ALTER\s+(?:ONLINE\s+|IGNORE\s+)*TABLE\s+(?:IF\s+EXISTS\s+)?({_TABLE})(.*)",
    re.IGNORECASE | re.DOTALL,
)
_LOSES_ROWS = re.compile(
    r"\b(?:(?:DROP|TRUNCATE|EXCHANGE)\s+PARTITION|(?:IMPORT|DISCARD)\s+TABLESPACE"
    r"|RENAME\s+(?:TO|AS)\b|RENAME\s+(?!COLUMN|INDEX|KEY))",
    re.IGNORECASE,
)
_WRITES = re.compile(r"(?:INSERT|UPDATE|DELETE|REPLACE|LOAD|WITH)\b", re.IGNORECASE)
_COMMIT, _ROLLBACK = re.compile(r"COMMIT\b", re.IGNORECASE), re.compile(r"ROLLBACK\s*$", re.IGNORECASE)


def created_table(sql: str, current: str) -> tuple[str, str] | None:
    """Return the database and the name of a table that a statement creates; None if it creates none."""
    found = _CREATE.match(_COMMENT.sub(" ", sql).strip())
    if found is None:
        return None
    parts = [_bare(each) for each in re.findall(_NAME, found[1])]
    return (current, parts[0]) if len(parts) == 1 else (parts[0], parts[1])


def effect_of(sql: str, current: str, database: str, table: str) -> Effect:
    """Return the effect of a statement on `database`.`table`, if it runs in the database `current`."""
    text = _COMMENT.sub(" ", sql).strip().rstrip(";").strip()

    def names(written: str) -> bool:
        parts = [_bare(each) for each in re.findall(_NAME, written)]
        return ([current, *parts] if len(parts) == 1 else parts) == [database, table]

    if _COMMIT.match(text):
        return Effect.COMMITS
    if _ROLLBACK.match(text):
        return Effect.ROLLS_BACK
    if (found := _TRUNCATE.match(text)) is not None:
        return Effect.TRUNCATES if names(found[1]) else Effect.NONE
    if (found := _DROP.match(text)) is not None:
        is_gone = any(names(each) for each in re.findall(_TABLE, found[1]))
        return Effect.REPLACES if is_gone else Effect.NONE
    if (found := _DROP_DATABASE.match(text)) is not None:
        return Effect.REPLACES if _bare(found[1]) == database else Effect.NONE
    if (found := _REPLACE.match(text)) is not None:
        return Effect.REPLACES if names(found[1]) else Effect.NONE
    if (found := _RENAME.match(text)) is not None:
        return Effect.REPLACES if any(map(names, re.findall(_TABLE, found[1]))) else Effect.NONE
    if (found := _ALTER.match(text)) is not None:
        is_ours = names(found[1]) and _LOSES_ROWS.search(found[2]) is not None
        return Effect.REPLACES if is_ours else Effect.NONE
    if _WRITES.match(text) and re.search(rf"(?<![\w$]){re.escape(table)}(?![\w$])", text):
        return Effect.CHANGES_ROWS
    return Effect.NONE


def _bare(name: str) -> str:
    if name[0] in '`"':
        return name[1:-1].replace("``", "`")
    return name
