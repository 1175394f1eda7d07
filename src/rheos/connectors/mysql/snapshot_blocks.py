"""Blocks of a table's rows in the order of the primary key, each exact as of one place in the log.

A block is read in a transaction of its own, WITH CONSISTENT SNAPSHOT. MariaDB reports the place in the
log at which that snapshot was taken (`binlog_snapshot_position`), without a lock on the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rheos.connectors.mysql.binlog_position import Key, LogPlace
from rheos.connectors.mysql.column_families import ColumnFamily
from rheos.connectors.mysql.server_log import table_sql
from rheos.connectors.mysql.server_login import quoted, rows_of
from rheos.connectors.mysql.table_rows import SelectedColumn, TableRows
from rheos.core.errors import ConfigurationError

MAX_ROWS = 8192
_FIRST_ROWS = 512
_TARGET_BYTES = 4 << 20
_BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
_VALUE_BYTES = 8


@dataclass(frozen=True)
class TableBlock:
    """Rows of the snapshot."""

    rows: Sequence[Sequence[Any]]
    place: LogPlace
    """Place in the log that divides the transactions that the rows contain from the later ones."""
    is_last: bool


class BlockReader:
    """Reader of blocks, whose size follows the size of the rows."""

    def __init__(self, of: TableRows) -> None:
        self._of = of
        self._limit = _FIRST_ROWS
        table = _escaped(table_sql(of.database, of.table))
        self._query = f"SELECT {', '.join(map(_selected, of.columns))} FROM {table}"
        self._keys = [(column, _ordered(column)) for column in map(self._column, of.key)]

    def _column(self, name: str) -> SelectedColumn:
        return self._of.columns[self._of.place(name)]

    def read(self, connection: Any, upto: Key | None) -> TableBlock:
        """Read the block after a key; the first one after None. Raises the client's errors."""
        limit = self._limit
        where, values = self._condition_after(upto)
        order = ", ".join(sql for _, sql in self._keys)
        rows_of(connection, _BEGIN)
        place = _snapshot_place(connection)
        rows = rows_of(connection, f"{self._query}{where} ORDER BY {order} LIMIT {limit}", values)
        rows_of(connection, "ROLLBACK")
        size_bytes = sum(
            len(value) if isinstance(value, str | bytes) else _VALUE_BYTES
            for row in rows
            for value in row
        )
        fitting = _TARGET_BYTES * max(len(rows), 1) // max(size_bytes, 1)
        self._limit = max(1, min(fitting, 2 * limit, MAX_ROWS))
        return TableBlock(rows, place, len(rows) < limit)

    def _condition_after(self, upto: Key | None) -> tuple[str, list[object]]:
        """Return the condition on keys after the given one. Written out for each column, because the
        server uses no index for a comparison of tuples."""
        if upto is None:
            return "", []
        cases, values = [], list[object]()
        for count in range(len(upto)):
            terms = []
            for place, (column, sql) in enumerate(self._keys[: count + 1]):
                sign = ">" if place == count else "="
                is_bare = column.family is ColumnFamily.INTEGER
                terms.append(f"{sql} {sign} {'%s' if is_bare else 'CAST(%s AS BINARY)'}")
                values.append(upto[place])
            cases.append("(" + " AND ".join(terms) + ")")
        return f" WHERE {' OR '.join(cases)}", values


def _escaped(sql: str) -> str:
    """Return SQL for a statement with values."""
    return sql.replace("%", "%%")


def _selected(column: SelectedColumn) -> str:
    """Return the SQL of a value in the form of its family."""
    name = _escaped(quoted(column.name))
    if column.data_type == "bit":
        return f"{name} + 0"
    if column.data_type == "float":
        return f"CAST({name} AS DOUBLE)"  # The server prints only six digits of a FLOAT.
    return name


def _ordered(column: SelectedColumn) -> str:
    """Return the SQL by which a key's column is sorted, in the same order in which `Key` compares."""
    name = _escaped(quoted(column.name))
    if column.family is ColumnFamily.INTEGER:
        return name
    if column.family is ColumnFamily.BYTES:
        return f"CAST(HEX({name}) AS BINARY)"
    return f"CAST(CONVERT(CAST({name} AS CHAR) USING utf8mb4) AS BINARY)"


def _snapshot_place(connection: Any) -> LogPlace:
    status = {
        str(name).lower(): str(value)
        for name, value in rows_of(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")
    }
    file, offset = status.get("binlog_snapshot_file"), status.get("binlog_snapshot_position")
    if not file or not offset:
        raise ConfigurationError(
            "the server does not report the place of a snapshot in its binlog",
            hint="start it with --log-bin, and use tables of InnoDB",
        )
    return LogPlace(file, int(offset))
