"""Translation of pgoutput messages to rows with positions. Pure.

The server sends a transaction as a whole when it is committed, in commit order. The position determines
which changes were emitted before; the transaction's id determines whether the snapshot contains it.
Each change is examined once.
"""

from __future__ import annotations

from typing import assert_never

from rheos.connectors.postgres.change_positions import ChangesPosition, has_seen, has_seen_truncation
from rheos.connectors.postgres.change_rows import ChangeRows, GatheredChanges, Op
from rheos.connectors.postgres.pgoutput import (
    BeginMessage,
    CommitMessage,
    DeleteMessage,
    IgnoredMessage,
    InsertMessage,
    MalformedMessageError,
    Message,
    RelationMessage,
    TruncateMessage,
    UpdateMessage,
    Values,
)
from rheos.connectors.schema_changes import SchemaChange


class ChangeTranslation:
    """Translation of the change stream of one table to rows.

    Args:
        of: the rows. schema, table: the table; changes of others are skipped.
        position: position after which the stream begins.
        end_lsn: transactions that commit at this position or later are not emitted.
    """

    def __init__(
        self,
        of: ChangeRows,
        schema: str,
        table: str,
        position: ChangesPosition,
        end_lsn: int | None = None,
    ) -> None:
        self._of = of
        self._named = schema, table
        self._end_lsn = end_lsn
        self.parts = position.parts
        """Parts of the snapshot, in the same form as in positions."""
        self._seen_below = max((part.lsn for part in position.parts), default=0)
        """Position in the log. No part of the snapshot has seen transactions that commit there or
        later."""
        self._lsn = position.lsn
        self._given = position.changes
        """Number of changes of the next transaction that were emitted before."""
        self._timeline = position.timeline
        self._begin: BeginMessage | None = None
        self._changes = 0
        """Number of changes examined in this transaction."""
        self._described: dict[int, RelationMessage] = {}
        """Descriptions of the table, by their ids."""
        self._is_old = False
        """Whether the program knows a newer table than these describe."""
        self._relations: dict[int, tuple[list[int | None], int] | None] = {}
        """For relations of the table: indexes of its columns, and their number. None for other
        tables."""
        self.finished = False
        self.awaited: SchemaChange | None = None
        """Change of the table for which the program must start again. Nothing after it is read."""
        self._gathered = GatheredChanges(of)
        self._places: list[tuple[int, int]] = []

    @property
    def ended(self) -> bool:
        """Whether nothing more is read: the source has ended, or the program must start again."""
        return self.finished or self.awaited is not None

    @property
    def gathered_rows(self) -> int:
        return len(self._gathered)

    @property
    def gathered_bytes(self) -> int:
        return self._gathered.size_bytes

    def position(self) -> ChangesPosition:
        """Return the position after all examined changes. Once all changes are newer than the snapshot,
        it contains no parts any more."""
        if self._lsn >= self._seen_below:
            self.parts, self._seen_below = (), 0
        changes = max(self._changes, self._given)
        return ChangesPosition(self.parts, False, self._lsn, changes, self._timeline)

    def taken(self) -> tuple[GatheredChanges, list[tuple[int, int]]]:
        """Return the rows since the last call, and the position after each."""
        gathered, self._gathered = self._gathered, GatheredChanges(self._of)
        places, self._places = self._places, []
        return gathered, places

    def caught_up(self, wal_end: int) -> None:
        """Note that everything committed before `wal_end` was received."""
        if self._begin is None:
            self._lsn = max(self._lsn, wal_end)
            if self._end_lsn is not None and wal_end >= self._end_lsn:
                self.finished = True

    def take(self, message: Message) -> None:
        """Process a message. Raises MalformedMessageError and InputError."""
        if self.ended:
            return
        match message:
            case BeginMessage():
                if self._end_lsn is not None and message.commit_lsn >= self._end_lsn:
                    self.finished = True
                    return
                self._begin, self._changes = message, 0
                if self._is_old and message.commit_lsn >= self._of.known_lsn:
                    for described in self._described.values():
                        self._describe(described)
            case CommitMessage():
                if message.end_lsn > self._lsn:
                    self._lsn, self._given = message.end_lsn, 0
                self._begin, self._changes = None, 0
            case RelationMessage():
                if (message.schema, message.name) == self._named:
                    self._describe(message)
                else:
                    self._relations[message.id] = None
            case InsertMessage():
                new = self._ours(message.relation, message.new)
                begin = None if new is None else self._next()
                if new is not None and begin is not None and not self._has_seen(begin, new):
                    self._add("insert", begin, new, None)
            case UpdateMessage():
                new = self._ours(message.relation, message.new)
                old = self._ours(message.relation, message.old)
                if new is not None and old is not None and self._of.moves(old, new):
                    self._move(old, new)
                elif new is not None and (begin := self._next()) is not None:
                    self._update(begin, new, old)
            case DeleteMessage():
                old = self._ours(message.relation, message.old)
                begin = None if old is None else self._next()
                if old is not None and begin is not None and not self._has_seen(begin, old):
                    self._add("delete", begin, old, old)
            case TruncateMessage():
                for relation in message.relations:
                    begin = None if self._relation(relation) is None else self._next()
                    if begin is not None and not self._has_seen(begin, None):
                        self._add("truncate", begin, [None] * len(self._of.columns), None)
            case IgnoredMessage():
                pass
            case _:
                assert_never(message)

    def _describe(self, message: RelationMessage) -> None:
        """Take the columns of the rows that follow."""
        lsn = self._lsn if self._begin is None else self._begin.commit_lsn
        self._is_old = lsn < self._of.known_lsn
        self._described[message.id] = message
        places = self._of.places(message, lsn)
        if isinstance(places, SchemaChange):
            self.awaited = places
        else:
            self._relations[message.id] = places, len(message.columns)

    def _move(self, old: Values, new: Values) -> None:
        """Add an update of the key as two changes: a deletion, and an insertion."""
        rows: tuple[tuple[Op, Values], ...] = (("delete", old), ("insert", new))
        for op, values in rows:
            begin = self._next()
            if begin is not None and not self._has_seen(begin, values):
                self._add(op, begin, values, old)

    def _update(self, begin: BeginMessage, new: Values, old: Values | None) -> None:
        """Add an update. If the update changes the key, the row may move between parts of the snapshot.
        If only one of the two parts has seen the update, it is emitted as an insert or a delete."""
        new_seen = self._has_seen(begin, new)
        old_seen = new_seen if old is None else self._has_seen(begin, old)
        if not new_seen and not old_seen:
            self._add("update", begin, new, old)
        elif not new_seen:
            self._add("insert", begin, new, None)
        elif not old_seen:
            assert old is not None
            self._add("delete", begin, old, old)

    def _ours(self, relation: int, values: Values | None) -> Values | None:
        """Return the values of the columns that are read; None if the change is of another table."""
        known = self._relation(relation)
        if known is None or values is None:
            return None
        places, count = known
        if len(values) != count:
            raise MalformedMessageError(f"a row has {len(values)} columns, but the table has {count}")
        return [None if place is None else values[place] for place in places]

    def _relation(self, relation: int) -> tuple[list[int | None], int] | None:
        if relation not in self._relations:
            raise MalformedMessageError(
                f"a change of the table {relation}, which the server has not described"
            )
        return self._relations[relation]

    def _next(self) -> BeginMessage | None:
        """Return the transaction of the next change; None if the change was emitted before."""
        if self._begin is None:
            raise MalformedMessageError("a change outside of a transaction")
        self._changes += 1
        if self._begin.commit_lsn < self._lsn or self._changes <= self._given:
            return None
        return self._begin

    def _has_seen(self, begin: BeginMessage, values: Values | None) -> bool:
        if begin.commit_lsn >= self._seen_below:
            return False
        if values is None:
            return has_seen_truncation(self.parts, begin.xid)
        return has_seen(self.parts, self._of.key_of(values), begin.xid)

    def _add(self, op: Op, begin: BeginMessage, new: Values, before: Values | None) -> None:
        self._gathered.add(op, new, before, begin.commit_us, begin.commit_lsn)
        self._places.append((self._lsn, self._changes))
