"""Translation of events of the binlog to rows with positions. Pure.

The server writes each transaction as a whole, in commit order. A position is the place after the last
transaction, with the number of changes of the next one that were read. Each change is examined once.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from rheos.connectors.mysql.binlog_events import (
    Begin,
    IgnoredEvent,
    LoggedCommit,
    LoggedEvent,
    LogHeartbeat,
    MalformedEventError,
    Rotation,
    RowChanges,
    Statement,
    TableDescription,
    decoded_rows,
)
from rheos.connectors.mysql.binlog_position import BinlogPosition, LogPlace
from rheos.connectors.mysql.logged_columns import LoggedColumn
from rheos.connectors.mysql.logged_statements import Effect, created_table, effect_of
from rheos.connectors.mysql.table_rows import ChangeRun, Op, TableRows, Values
from rheos.connectors.schema_changes import SchemaChange
from rheos.core.errors import InputError


class BinlogTranslation:
    """Translation of the log to changes of one table.

    Args:
        of: the rows.
        position: position after which the log is read.
    """

    def __init__(self, of: TableRows, position: BinlogPosition) -> None:
        self._of = of
        self._at = position
        self._file = position.place.file
        self._given = position.changes
        """Number of changes of the next transaction that were emitted before."""
        self._begin: Begin | None = None
        self._changes = 0
        """Number of changes examined in this transaction."""
        self._tables: dict[int, tuple[tuple[LoggedColumn, ...], list[int | None], bool]] = {}
        """Columns of the table by the ids of its descriptions, with the places of those read, and
        whether the program knows a newer table."""
        self._logged_as = of
        """The rows in the form in which the last description has them."""
        self._run = ChangeRun(of)
        self._after: list[BinlogPosition] = []
        self.awaited: SchemaChange | None = None
        """Change of the table for which the program must start again. Nothing after it is read."""

    @property
    def place(self) -> LogPlace:
        """Place after the last transaction that was examined."""
        return self._at.place

    @property
    def rows(self) -> int:
        """Number of rows since the last call of `taken`."""
        return len(self._run)

    @property
    def size_bytes(self) -> int:
        """Approximate size of these rows."""
        return self._run.size_bytes

    def position(self) -> BinlogPosition:
        """Return the position after all examined changes."""
        return msgspec.structs.replace(self._at, changes=max(self._changes, self._given))

    def taken(self) -> tuple[ChangeRun, list[BinlogPosition]]:
        """Return the rows since the last call, and the position after each."""
        run, self._run = self._run, ChangeRun(self._logged_as)
        after, self._after = self._after, []
        return run, after

    def emitted(self, position: BinlogPosition) -> None:
        """Note that a block of the snapshot was emitted, which reaches up to the key of a position."""
        self._at = msgspec.structs.replace(
            self._at, in_snapshot=position.in_snapshot, upto=position.upto
        )

    def divides(self, logged: LoggedEvent) -> bool:
        """Return whether the rows so far must be taken first: the event describes the table anew."""
        event = logged.event
        if not isinstance(event, TableDescription) or event.columns is None or not self.rows:
            return False
        return not self._is_described(event.id, event.columns)

    def _is_described(self, id: int, columns: tuple[LoggedColumn, ...]) -> bool:
        """Return whether the next rows have the form of those so far."""
        known = self._tables.get(id)
        return known is not None and known[0] == columns and known[2] is self._is_old

    @property
    def _is_old(self) -> bool:
        """Whether the program knows a newer table."""
        return self._at.place.order < self._of.known_at.order

    def take(self, logged: LoggedEvent) -> None:
        """Process an event. Raises MalformedEventError and InputError."""
        if self.awaited is not None:
            return
        event = logged.event
        match event:
            case Rotation():
                self._file = event.file
                if self._begin is None:
                    self._reach(event.offset)
                return
            case LogHeartbeat():
                return
            case Begin():
                if self._begin is not None:
                    raise MalformedEventError("a transaction begins within another")
                self._begin, self._changes = event, 0
                return
            case TableDescription():
                if event.columns is None:
                    # A server that has restarted gives ids of this table to others.
                    self._tables.pop(event.id, None)
                elif not self._describes(event.id, event.columns):
                    return
            case RowChanges():
                if event.table_id in self._tables:
                    self._take_rows(event, logged.time_s * 1_000_000)
            case Statement() if self._creates(event):
                return
            case Statement():
                self._take_statement(event, logged.time_s * 1_000_000)
            case LoggedCommit():
                self._end()
            case IgnoredEvent():
                pass
            case _:
                assert_never(event)
        if self._begin is None and logged.end_offset:
            self._reach(logged.end_offset)

    def _reach(self, offset: int) -> None:
        place = LogPlace(self._file, offset)
        if place.order < self._at.place.order:
            raise MalformedEventError(
                f"the log continues at {place}, before {self._at.place}. A file of more than 4 GB "
                "cannot be read"
            )
        if place != self._at.place:
            self._at = msgspec.structs.replace(self._at, place=place)
            self._given = 0

    def _end(self) -> None:
        if self._begin is None:
            raise MalformedEventError("a transaction ends that has not begun")
        self._at = msgspec.structs.replace(self._at, gtid=self._begin.gtid)
        self._begin, self._changes = None, 0

    def _describes(self, id: int, columns: tuple[LoggedColumn, ...]) -> bool:
        """Take the columns of the rows that follow. Returns False if the program must start again."""
        if self._is_described(id, columns):
            return True
        assert not self.rows, "rows of another form are taken first"
        is_old = self._is_old
        places = self._of.places(columns, self._at.place, is_old=is_old)
        if isinstance(places, SchemaChange):
            self.awaited = places
            return False
        self._tables[id] = columns, places, is_old
        self._logged_as = self._of.of_families(
            [
                read.family if place is None else columns[place].kind.family
                for read, place in zip(self._of.columns, places, strict=True)
            ]
        )
        self._run = ChangeRun(self._logged_as)
        return True

    def _creates(self, statement: Statement) -> bool:
        """Return whether a table is created that the program must learn. Nothing after it is read."""
        of = self._of
        if of.selection is None or self._at.place.order < of.known_at.order:
            return False
        database, name = created_table(statement.sql, statement.database) or ("", "")
        if database != of.database or not of.selection.has(name):
            return False
        self.awaited = SchemaChange(f"the table {database}.{name} was created after {self._at.place}")
        return True

    def _take_statement(self, statement: Statement, time_us: int) -> None:
        of = self._of
        match effect_of(statement.sql, statement.database, of.database, of.table):
            case Effect.NONE:
                pass
            case Effect.COMMITS:
                self._end()
                return
            case Effect.ROLLS_BACK:
                if self._changes:
                    raise InputError(
                        f"a transaction that changes {of} was logged and rolled back, because it also "
                        "changes a table without transactions",
                        hint="write to tables of InnoDB in transactions of their own",
                    )
                self._end()
                return
            case Effect.TRUNCATES:
                if self._next():
                    self._add("truncate", [None] * len(of.columns), None, time_us)
            case Effect.REPLACES:
                raise InputError(
                    f"the table {of} was dropped, renamed or replaced, or lost a partition: "
                    f"{statement.sql[:200]}",
                    hint="start the job anew, without its checkpoints: it then begins with a new "
                    "snapshot",
                )
            case Effect.CHANGES_ROWS:
                raise InputError(
                    f"a change of {of} was logged as a statement, without its rows: "
                    f"{statement.sql[:200]}",
                    hint="SET GLOBAL binlog_format = 'ROW', also in each session that sets it; then "
                    "start the job anew, without its checkpoints",
                )
        if self._begin is not None and self._begin.is_standalone:
            self._end()

    def _take_rows(self, event: RowChanges, time_us: int) -> None:
        if self._begin is None:
            raise MalformedEventError("a change outside of a transaction")
        if self._begin.is_prepared:
            raise InputError(
                f"an XA transaction changes {self._of}, and may still be rolled back",
                hint="write to the table without XA",
            )
        columns, places, _ = self._tables[event.table_id]
        for old, new in decoded_rows(event, columns):
            self._take_row(
                None if old is None else _placed(old, places),
                None if new is None else _placed(new, places),
                time_us,
            )

    def _take_row(self, old: Values | None, new: Values | None, time_us: int) -> None:
        """Take a change. The snapshot may cover only one of the two keys of an update: then it is
        emitted as an insertion or a deletion."""
        of, at = self._of, self._at
        if old is not None and new is not None and of.key and of.moves(old, new):
            self._take_row(old, None, time_us)
            self._take_row(None, new, time_us)
            return
        if not self._next():
            return
        has_old = old is not None and at.covers(of.key_of(old))
        has_new = new is not None and at.covers(of.key_of(new))
        if has_new:
            assert new is not None
            self._add("update" if has_old else "insert", new, old if has_old else None, time_us)
        elif has_old:
            assert old is not None
            self._add("delete", old, old, time_us)

    def _next(self) -> bool:
        """Count a change; return whether it was not emitted before."""
        self._changes += 1
        return self._changes > self._given

    def _add(self, op: Op, row: Values, before: Values | None, time_us: int) -> None:
        self._run.add(op, row, before, time_us, self._at.place)
        self._after.append(msgspec.structs.replace(self._at, changes=self._changes))


def _placed(row: Values, places: list[int | None]) -> Values:
    return [None if place is None else row[place] for place in places]
