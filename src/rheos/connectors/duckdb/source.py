"""Source of the rows of a table or a query, in the order of a key: `duckdb.source(...)`."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rheos.connectors.duckdb.database_file import SOURCE, DuckDbFile, fetched, quoted
from rheos.connectors.duckdb.table_columns import (
    KEY,
    relation_columns,
    typed_rows,
    unique_keys,
    wanted_columns,
)
from rheos.connectors.files.chunks import Chunk, ChunkDecoder, ChunkReader
from rheos.connectors.key_argument import key_columns
from rheos.connectors.sql_database.row_blocks import RowPosition, check_keys
from rheos.connectors.sql_database.target_table import table_name
from rheos.core.connectors.contract import ReaderContext, Source, Split, SplitReader
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.site import located_at_call

_FIRST_ROWS = 8_192
_MAX_ROWS = 131_072
_TARGET_BYTES = 8 << 20


@located_at_call
def source(
    table: str | None = None,
    *,
    path: str | os.PathLike[str],
    query: str | None = None,
    key: str | Sequence[str] = (),
    columns: Sequence[str] | None = None,
    schema: Any = None,
) -> DuckDbSource:
    """Read the rows of a table or a query once, in the order of a unique key. Its position is the last
    key, so a job resumes there after a failure.

    ```python
    orders = env.from_source(rh.duckdb.source("orders", path="shop.duckdb"))
    ```

    Rows are read in blocks, each by a query that opens the file and closes it again: in between,
    another program may write. A row that does not change while the source reads is returned once.

    Args:
        table: Its name, or "schema.name"; also a view. It is inspected by this call.
        path: Path of the file, which must exist on each worker.
        query: A query to read instead of a table. It needs `key`.
        key: The columns that order the rows: unique, and never NULL. By default the table's primary
            key. Integers, strings and dates.
        columns: The columns to read; by default all of the table, or of `schema`.
        schema: Types of columns, a dataclass, a pyarrow.Schema or a dict, if they are not to be the
            default ones. A value that does not fit is an error.

    Returns:
        The source, for `env.from_source`.

    Raises:
        ProgramError: An argument is invalid, or the rows have no unique key.
        ConfigurationError: The file or the table does not exist, or DuckDB is not installed.
        SchemaError: A column does not exist, or cannot be read as its type.
        UnavailableError: Another process holds the file's lock.
    """
    if (table is None) == (query is None):
        raise ProgramError(
            "the source needs a table or a query", hint='write source("orders", path=...)'
        )
    keys, declared = key_columns(key), None if schema is None else resolve(schema)[0]
    file = DuckDbFile.of(path)
    of, name = (None, "") if table is None else table_name(table)
    label = "the query" if table is None else f"the table {table}"
    relation = quoted(of, name) if query is None else f"({query.rstrip().rstrip(';')}\n)"

    def inspected(connection: Any, _: object) -> tuple[pa.Schema, tuple[str, ...]]:
        there = relation_columns(connection, relation)
        primary = [] if query is not None else unique_keys(connection, of, name)
        return there, keys or tuple(primary[0][0] if primary and primary[0][1] else ())

    found, ordered = file.do(f"{label} cannot be inspected", SOURCE, inspected)
    if not ordered:
        raise ProgramError(
            f"{label} has no primary key, so that its rows have no positions",
            hint='name columns that are unique and never NULL: key="id"',
        )
    by = wanted_columns(found, ordered, None, label)
    for each in by:
        t = pa.types
        if not (t.is_integer(each.type) or t.is_string(each.type) or t.is_date(each.type)):
            raise SchemaError(
                f"the column {each.name!r} of {label} is {each.type}, by which rows cannot be ordered",
                hint="name a unique key of integers, strings or dates",
            )
    known = found if declared is None else declared
    names = known.names if columns is None else [columns] if isinstance(columns, str) else columns
    if not names:
        raise ProgramError("no column to read is named", hint='write columns=["id", "name"]')
    wanted = wanted_columns(found, names, declared, label)
    return DuckDbSource(file, None if table is None else (of, name), relation, label, by, wanted)


@dataclass(frozen=True)
class DuckDbSource(Source):
    """Source that `duckdb.source` creates."""

    file: DuckDbFile
    table: tuple[str | None, str] | None
    """Schema and name; None: a query is read."""
    relation: str
    """Quoted name of a table, or a query in parentheses."""
    label: str
    key: pa.Schema
    schema: pa.Schema
    bounded: bool = field(default=True, init=False)

    def splits(self) -> Sequence[Split]:
        return [Split("all rows", b"")]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        begin = RowPosition() if position is None else RowPosition.decode(position)
        return ChunkReader(self.label, _TableBlocks(self, begin), begin.encode(), ctx)

    def block_query(self, after: Sequence[int | str] | None, limit: int) -> tuple[str, dict[str, Any]]:
        """Return the query of the rows after a key, and its parameters."""
        columns = [quoted(name) for name in self.schema.names]
        for each in self.key:
            name = quoted(each.name)
            place = f"CAST({name} AS VARCHAR)" if pa.types.is_date(each.type) else name
            columns.append(f"{place} AS {quoted(KEY + each.name)}")
        names = [quoted(name) for name in self.key.names]
        where, values = "", dict[str, Any]()
        if after is not None:
            values = {f"after_{number}": value for number, value in enumerate(after)}
            bounds = [
                f"CAST(${place} AS DATE)" if pa.types.is_date(kind) else f"${place}"
                for place, kind in zip(values, self.key.types, strict=True)
            ]
            where = f" WHERE ({', '.join(names)}) > ({', '.join(bounds)})"
        # NULL must not be skipped, but found and refused.
        order = ", ".join(f"{name} NULLS FIRST" for name in names)
        query = f"SELECT {', '.join(columns)} FROM {self.relation} AS rheos_rows{where}"
        return f"{query} ORDER BY {order} LIMIT {limit}", values

    def positions(self) -> str:
        return f"rows of {self.label} in the order of {', '.join(self.key.names)}"

    def datasets(self) -> Sequence[Dataset]:
        return [] if self.table is None else [self.file.dataset(*self.table)]

    def describe(self) -> str:
        label = self.label.removeprefix("the ")
        return f"{label} of DuckDB in {self.file.path}, by {', '.join(self.key.names)}"


class _TableBlocks(ChunkDecoder):
    """Reader of blocks, whose size follows the size of the rows."""

    counts = "row"

    def __init__(self, of: DuckDbSource, position: RowPosition) -> None:
        self._of = of
        self._next = position
        self._limit = _FIRST_ROWS
        self._is_last = False
        self._lock = threading.Lock()

    def read(self) -> Chunk | None:
        with self._lock:
            return None if self._is_last else self._read()

    def _read(self) -> Chunk | None:
        of, begin, limit = self._of, self._next, self._limit
        query, values = of.block_query(begin.after, limit + 1)
        found = of.file.do(
            f"{of.label} cannot be read", SOURCE, lambda each, _: fetched(each, query, values)
        )
        self._is_last = found.num_rows <= limit
        found = found.slice(0, limit)
        if not found.num_rows:
            return None
        places = found.select([KEY + name for name in of.key.names]).to_pylist()
        keys = [tuple(place.values()) for place in places]
        check_keys(keys, of.label)
        batch = typed_rows(found, of.schema, of.label)
        fitting = _TARGET_BYTES * found.num_rows // max(batch.nbytes, 1)
        self._limit = max(1, min(fitting, 2 * limit, _MAX_ROWS))

        def position(row: int) -> bytes:
            at = RowPosition(begin.rows + row, keys[row - 1]) if row else begin
            return at.encode()

        self._next = RowPosition(begin.rows + len(keys), keys[-1])
        return Chunk(batch, None, len(keys), (), position, lambda row: begin.rows + row + 1)

    def close(self) -> None:
        # A query that still runs ends within its limit.
        with self._lock:
            self._is_last = True
