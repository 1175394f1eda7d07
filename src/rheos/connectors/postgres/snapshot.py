"""Reading of a table's rows in the order of its primary key."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import csv

from rheos.connectors.postgres.change_positions import Key, SnapshotRange, lsn_of
from rheos.connectors.postgres.change_rows import ChangeRows, ReadColumn, snapshot_batch
from rheos.connectors.postgres.connection import ServerSession, listed, quoted
from rheos.core.protocol.elements import Batch

_BLOCK_ROWS = 8192
_BLOCK_BYTES = 4 << 20
_TRANSACTION = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"


class SnapshotBlock:
    """Block of rows, with their keys to compute positions."""

    def __init__(self, of: ChangeRows, texts: Sequence[pa.Array], rows: Batch) -> None:
        self._of = of
        self._texts = texts
        self.rows = rows

    def key(self, row: int) -> Key:
        return self._of.key_of([text[row].as_py() for text in self._texts])


class TableSnapshot:
    """Snapshot of a table, in a transaction that ends with the session."""

    def __init__(self, session: ServerSession, of: ChangeRows, table_sql: str) -> None:
        self._session = session
        self._of = of
        self._table_sql = table_sql
        session.run(_TRANSACTION)
        [(snapshot, lsn)] = session.rows(
            "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text"
        )
        self.part = SnapshotRange(snapshot, lsn_of(lsn))

    def blocks(self, behind: Key | None) -> Iterator[SnapshotBlock]:
        """Yield the rows whose keys come after the given one."""
        now_us = time.time_ns() // 1000
        names = [column.name for column in self._of.columns]
        query = self._query(behind).encode()
        with self._session.connection.cursor() as cursor, cursor.copy(query) as copy:
            lines: list[Any] = []
            size_bytes = 0
            for line in copy:
                lines.append(line)
                size_bytes += len(line)
                if len(lines) >= _BLOCK_ROWS or size_bytes >= _BLOCK_BYTES:
                    yield self._block(names, lines, now_us)
                    lines, size_bytes = [], 0
            if lines:
                yield self._block(names, lines, now_us)

    def _block(self, names: Sequence[str], lines: Sequence[Any], now_us: int) -> SnapshotBlock:
        strings = {str(place): pa.string() for place in range(len(names))}
        table = csv.read_csv(
            pa.py_buffer(b"".join(lines)),
            csv.ReadOptions(column_names=list(strings), use_threads=False, block_size=1 << 30),
            csv.ParseOptions(newlines_in_values=True),
            csv.ConvertOptions(
                column_types=strings,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        ).combine_chunks()
        texts = [column.chunk(0) for column in table.columns]
        return SnapshotBlock(self._of, texts, snapshot_batch(self._of, texts, self.part.lsn, now_us))

    def _query(self, behind: Key | None) -> str:
        of = self._of
        names = listed([column.name for column in of.columns])
        keys = ", ".join(_ordered(of.columns[of.place(name)]) for name in of.key)
        where = "" if behind is None else f" WHERE ({keys}) > ({', '.join(map(_literal, behind))})"
        query = f"SELECT {names} FROM {self._table_sql}{where} ORDER BY {keys}"
        return f"COPY ({query}) TO STDOUT (FORMAT csv, FORCE_QUOTE ({names}))"


def _ordered(column: ReadColumn) -> str:
    """Return the SQL by which a key's column is sorted, in the same order in which `Key` compares."""
    return quoted(column.name) if column.is_whole else f'({quoted(column.name)}::text COLLATE "C")'


def _literal(value: int | str) -> str:
    if isinstance(value, int):
        return str(value)
    return "'" + value.replace("'", "''") + "'"
