"""Changelogs: streams whose rows are changes of an updating table.

Each change is a row. Its column `op` is the kind of change:

| op | the row |
|---|---|
| `insert` | is new |
| `update_before` | existed, and is replaced by the next row with its key |
| `update_after` | is the new version of the row |
| `delete` | no longer exists |

If a table is truncated, the changelog has one `truncate` row. `operators/changelog/truncation_deletes`
replaces it by deletions of all earlier rows before any other operator reads the changes.

A stream that `retracts` emits each replaced row before its replacement, and each deleted row with all
columns, so that sums can retract it. A stream of *upserts* has no old rows: a row replaces any earlier
row with its key. A deleted row has reliable values only in its key columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

OP = "op"
INSERT = "insert"
UPDATE_BEFORE = "update_before"
UPDATE_AFTER = "update_after"
DELETE = "delete"

TRUNCATE = "truncate"
"""Kind of a row that empties the table. Only rows upstream of `truncation_deletes` have this kind or
the next ones."""
MESSAGE = "message"
"""Kind of a message of the source that changes no row."""
TOMBSTONE = "null"
"""Kind of a record without a value. Debezium sends one to Kafka after the deletion of a key."""
REJECTED = "rejected:"
"""Prefix of an unknown `op`, which marks the row as rejected."""

SPELLINGS = {
    INSERT: INSERT,
    UPDATE_BEFORE: UPDATE_BEFORE,
    UPDATE_AFTER: UPDATE_AFTER,
    DELETE: DELETE,
    # Names used by `rh.postgres.changes`.
    "snapshot": INSERT,
    "update": UPDATE_AFTER,
    # Names used by Debezium.
    "r": INSERT,
    "c": INSERT,
    "u": UPDATE_AFTER,
    "d": DELETE,
    # Names used by Flink.
    "+I": INSERT,
    "-U": UPDATE_BEFORE,
    "+U": UPDATE_AFTER,
    "-D": DELETE,
}
"""Kinds of changes by the names that other systems use."""
OF_TABLES = {TRUNCATE: TRUNCATE, "t": TRUNCATE, "m": MESSAGE, TOMBSTONE: TOMBSTONE}
"""Kinds that are not changes of one row, by the names used by `rh.postgres.changes` and Debezium."""


@dataclass(frozen=True)
class Changes:
    """The kind of a changelog: its key, and whether it retracts."""

    key: tuple[str, ...]
    """Columns that identify a row of the table. One subtask emits all changes of a row, in order. None
    if only all columns together identify a row, and several rows may be equal; then the stream
    retracts."""
    retracts: bool
    """Whether the stream emits the old version of a row before the new one."""
    filtered: bool = field(default=False, compare=False)
    """Whether a filter on other columns than the key has dropped rows. Then the old version of a row
    may be present without the new one."""

    def describe(self) -> str:
        kind = "changes with retractions" if self.retracts else "upserts"
        return f"{kind} by {', '.join(self.key)}" if self.key else f"{kind} of rows without a key"
