"""Streams of changes: what a row of one says, and of which streams it is known.

A table that changes is given as its changes, a row each. The column `op` says what a row is:

| op | the row |
|---|---|
| `insert` | is new |
| `update_before` | was there, and is replaced by the next row with its key |
| `update_after` | is what it became |
| `delete` | is there no more |

A row of a table that is truncated is all that is said of the rows that were there: `truncate` becomes
their deletions (`operators/changelog/emptied`) before anything else takes the changes.

A stream that `retracts` gives each row as it was before the row that replaces it, and the whole row
that is deleted: so sums can take it back. A stream of *upserts* does not: a row replaces the one with
its key, whatever that was, and of a row that is deleted only the key is sure to be right.
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
    # Of `rh.postgres.changes`.
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
"""What others write, and what it is here."""
OF_TABLES = {TRUNCATE: TRUNCATE, "t": TRUNCATE, "m": MESSAGE, TOMBSTONE: TOMBSTONE}
"""The same of what is no change of one row: `rh.postgres.changes`, and Debezium."""


@dataclass(frozen=True)
class Changes:
    """That the rows of a stream are changes of a table."""

    key: tuple[str, ...]
    """The columns that a row of the table is known by. All changes of a row are given in their order,
    by one subtask. None, where rows are known by all they are, and several may be alike: then it
    retracts."""
    retracts: bool
    """Whether what a row was is given, before what it became."""
    filtered: bool = field(default=False, compare=False)
    """Whether rows were dropped by more than their key: of a change, what the row was may then be given
    without what it became."""

    def describe(self) -> str:
        kind = "changes with retractions" if self.retracts else "upserts"
        return f"{kind} by {', '.join(self.key)}" if self.key else f"{kind} of rows without a key"
