"""Changelogs: streams whose rows are changes of an updating table.

Each change is a row. Its column `op` is the kind of change:

| op | the row |
|---|---|
| `insert` | is new |
| `update_before` | existed, and is replaced by the next row with its key |
| `update_after` | is the new version of the row |
| `delete` | no longer exists |

If a table is truncated, the changelog has one row for that. `operators/changelog/emptied` replaces the
`truncate` by the deletions of all rows before any other operator reads the changes.

A stream that `retracts` emits each replaced row before the row that replaces it, and each deleted row
whole, so sums can retract it. A stream of *upserts* does not: a row replaces the one with its key,
whatever that was, and only the key of a deleted row is reliable.
"""

from __future__ import annotations

from dataclasses import dataclass, field

OP = "op"
INSERT = "insert"
UPDATE_BEFORE = "update_before"
UPDATE_AFTER = "update_after"
DELETE = "delete"

TRUNCATE = "truncate"
"""The table is emptied. Only before `emptied`, as are the marks that follow."""
MESSAGE = "message"
"""It concerns no row."""
TOMBSTONE = "null"
"""A record without a value. Debezium sends one to Kafka after the deletion of a key."""
REJECTED = "rejected:"
"""Prefix of an unknown `op`, which marks the row as rejected."""

SPELLINGS = {
    INSERT: INSERT,
    UPDATE_BEFORE: UPDATE_BEFORE,
    UPDATE_AFTER: UPDATE_AFTER,
    DELETE: DELETE,
    # The names of `rh.postgres.changes`.
    "snapshot": INSERT,
    "update": UPDATE_AFTER,
    # Debezium's.
    "r": INSERT,
    "c": INSERT,
    "u": UPDATE_AFTER,
    "d": DELETE,
    # Flink's.
    "+I": INSERT,
    "-U": UPDATE_BEFORE,
    "+U": UPDATE_AFTER,
    "-D": DELETE,
}
"""The kinds of changes by the names that other systems use."""
OF_TABLES = {TRUNCATE: TRUNCATE, "t": TRUNCATE, "m": MESSAGE, TOMBSTONE: TOMBSTONE}
"""The same of what is no change of one row: `rh.postgres.changes`, and Debezium."""


@dataclass(frozen=True)
class Changes:
    """The kind of a changelog: its key, and whether it retracts."""

    key: tuple[str, ...]
    """The columns that identify a row of the table. One subtask emits all changes of a row, in their
    order. None if only all columns together identify a row, and several rows may be equal; then the
    stream retracts."""
    retracts: bool
    """Whether what a row was is given, before what it became."""
    filtered: bool = field(default=False, compare=False)
    """Whether rows were dropped by more than their key: of a change, what the row was may then be given
    without what it became."""

    def describe(self) -> str:
        kind = "changes with retractions" if self.retracts else "upserts"
        return f"{kind} by {', '.join(self.key)}" if self.key else f"{kind} of rows without a key"
