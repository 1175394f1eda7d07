"""Blocks of rows in the order of a key. Each block is one query, which begins after the last key."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from rheos.connectors.files.chunks import Chunk, ChunkDecoder
from rheos.connectors.sql_database.address import DatabaseAddress, DatabaseSystem
from rheos.connectors.sql_database.session import SOURCE, DatabaseSession
from rheos.connectors.sql_database.source_table import batch_of, quoted, select_list
from rheos.core.errors import InputError

Key: TypeAlias = tuple[int | str, ...]
"""Values of a key's columns; dates are strings."""

MAX_ROWS = 8192
_FIRST_ROWS = 512
_TARGET_BYTES = 4 << 20


class RowPosition(msgspec.Struct, frozen=True, array_like=True):
    """Position of a reader."""

    rows: int = 0
    """Number of rows that were returned."""
    after: tuple[int | str, ...] | None = None
    """Key of the last row that was returned."""

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, position: bytes) -> RowPosition:
        """Decode a position of a checkpoint."""
        return msgspec.msgpack.decode(position, type=cls)


class PartitionRange(msgspec.Struct, frozen=True, array_like=True):
    """Part of the rows, by the values of one column."""

    first: int | str | None = None
    """Least value; None for the part that also has all smaller values, and NULL."""
    end: int | str | None = None
    """Value after the greatest one; None if no value is too great."""


@dataclass(frozen=True)
class ReadRows:
    """Rows of a table or a query. Frozen: it is sent to the workers."""

    address: DatabaseAddress
    label: str
    """Name for people."""
    relation: tuple[str | None, str] | str
    """Schema and name of a table, or the SQL of a query."""
    columns: pa.Schema
    key: tuple[str, ...]
    key_schema: pa.Schema
    known: pa.Schema
    """All columns of the table, or of the query."""
    partition_on: str | None = None

    def query(
        self, connection: Any, part: PartitionRange, after: Key | None, limit: int
    ) -> tuple[str, tuple[Any, ...]]:
        """Return the query of a block, and its parameters."""
        backend = self.address.backend
        place = "?" if backend is DatabaseSystem.SQLITE else "%s"
        names = [quoted(connection, name) for name in self.key]
        conditions, values = [], list[Any]()
        if self.partition_on is not None:
            on = quoted(connection, self.partition_on)
            if part.first is not None:
                conditions.append(f"{on} >= {place}")
                values.append(part.first)
            if part.end is not None:
                below = f"{on} < {place}"
                conditions.append(below if part.first is not None else f"({below} OR {on} IS NULL)")
                values.append(part.end)
        if after is not None:
            cases = []
            for count, name in enumerate(names):
                equal = [f"{each} = {place}" for each in names[:count]]
                cases.append(" AND ".join([*equal, f"{name} > {place}"]))
                values += after[: count + 1]
            conditions.append(f"({' OR '.join(f'({case})' for case in cases)})")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        of_query = isinstance(self.relation, str)
        # NULL in the key of a query must not be skipped.
        nulls = " NULLS FIRST" if of_query and backend is DatabaseSystem.POSTGRES else ""
        order = ", ".join(f"{name}{nulls}" for name in names)
        selected = select_list(connection, backend, [*self.key_schema, *self.columns])
        of = self._relation_sql(connection)
        return f"SELECT {selected} FROM {of}{where} ORDER BY {order} LIMIT {limit}", tuple(values)

    def _relation_sql(self, connection: Any) -> str:
        if isinstance(self.relation, str):
            escapes = self.address.backend is not DatabaseSystem.SQLITE
            query = self.relation.replace("%", "%%") if escapes else self.relation
            return f"({query}\n) AS rows_of_query"
        return quoted(connection, *self.relation)


class RowBlocks(ChunkDecoder):
    """Reader of the blocks of one part, whose size follows the size of the rows."""

    counts = "row"

    def __init__(self, of: ReadRows, part: PartitionRange, position: RowPosition) -> None:
        self._of = of
        self._part = part
        self._next = position
        self._limit = _FIRST_ROWS
        self._session = DatabaseSession(of.address, f"{of.label} cannot be read", SOURCE)
        self._is_last = False
        self._lock = threading.Lock()

    def read(self) -> Chunk | None:
        """Return the next block. Raises a RheosError."""
        with self._lock:
            return self._read()

    def _read(self) -> Chunk | None:
        of, begin, limit = self._of, self._next, self._limit
        if self._is_last:
            return None

        def work(connection: Any, _: object) -> list[Any]:
            query, values = of.query(connection, self._part, begin.after, limit + 1)
            return list(connection.exec_driver_sql(query, values).fetchall())

        rows = self._session.do(work)
        count = len(of.key)
        keys: list[Key] = [tuple(row[:count]) for row in rows]
        check_keys(keys, of.label)
        self._is_last = len(rows) <= limit
        rows, keys = rows[:limit], keys[:limit]
        if not rows:
            return None
        batch = batch_of(of.address.backend, [row[count:] for row in rows], list(of.columns), of.label)
        fitting = _TARGET_BYTES * len(rows) // max(batch.nbytes, 1)
        self._limit = max(1, min(fitting, 2 * limit, MAX_ROWS))

        def position(row: int) -> bytes:
            at = RowPosition(begin.rows + row, keys[row - 1]) if row else begin
            return at.encode()

        self._next = RowPosition(begin.rows + len(rows), keys[-1])
        return Chunk(batch, None, len(rows), (), position, lambda row: begin.rows + row + 1)

    def close(self) -> None:
        # A query that still runs ends within its limit.
        with self._lock:
            self._is_last = True
            self._session.close()


def check_keys(keys: Sequence[Key], label: str) -> None:
    """Raise InputError if a key is no position: the rows after it would be lost."""
    for key in keys:
        if not all(type(value) in (int, str) for value in key):
            raise InputError(
                f"a row of {label} has the key {key!r}, which cannot be a position",
                hint="leave out rows whose key is NULL or of another type",
            )
    if len({*keys}) < len(keys):
        raise InputError(f"several rows of {label} have one key", hint="name a unique key in key=")
