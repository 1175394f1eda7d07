"""Envelopes in which capture systems send changes: names of fields, and kinds of changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rheos.core.graph.changelog import DELETE, INSERT, MESSAGE, TRUNCATE, UPDATE_AFTER


@dataclass(frozen=True)
class ChangeEnvelope:
    """Layout of a change: a record with its kind, and the row before and after it."""

    kind: str
    """Field with the kind of change."""
    kinds: Mapping[str, str]
    """Operations by kind. MESSAGE marks what is no change of a row."""
    added: str
    """Kind that a writer uses for rows that are inserted or updated."""
    removed: str
    """Kind that a writer uses for rows that are deleted or retracted."""
    before: str = "before"
    after: str = "after"
    deleted_in: str = "before"
    """Field that has the row of a deletion."""
    partial: bool = False
    """Whether `before` has only the columns that an update has changed."""
    listed: bool = False
    """Whether a record has lists of rows, and each value in them is a string."""
    within: str | None = None
    """Field that contains the envelope if the record has its schema, too."""


DEBEZIUM = ChangeEnvelope(
    kind="op",
    kinds={"c": INSERT, "r": INSERT, "u": UPDATE_AFTER, "d": DELETE, "t": TRUNCATE, "m": MESSAGE},
    added="c",
    removed="d",
    within="payload",
)
OGG = ChangeEnvelope(
    kind="op_type",
    kinds={"I": INSERT, "U": UPDATE_AFTER, "D": DELETE, "T": TRUNCATE},
    added="I",
    removed="D",
)
CANAL = ChangeEnvelope(
    kind="type",
    kinds={
        "INSERT": INSERT,
        "UPDATE": UPDATE_AFTER,
        "DELETE": DELETE,
        "TRUNCATE": TRUNCATE,
        **dict.fromkeys(
            ("CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX", "QUERY", "INIT"), MESSAGE
        ),
    },
    added="INSERT",
    removed="DELETE",
    before="old",
    after="data",
    deleted_in="data",
    partial=True,
    listed=True,
)
MAXWELL = ChangeEnvelope(
    kind="type",
    kinds={
        "insert": INSERT,
        "bootstrap-insert": INSERT,
        "update": UPDATE_AFTER,
        "delete": DELETE,
        **dict.fromkeys(
            (
                "bootstrap-start",
                "bootstrap-complete",
                "table-create",
                "table-alter",
                "table-drop",
                "database-create",
                "database-alter",
                "database-drop",
            ),
            MESSAGE,
        ),
    },
    added="insert",
    removed="delete",
    before="old",
    after="data",
    deleted_in="data",
    partial=True,
)
