"""Source of the rows of a table or a query: `sql_database.source(...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa

from rheos.connectors.files.chunks import ChunkReader
from rheos.connectors.sql_database.address import DatabaseAddress
from rheos.connectors.sql_database.row_blocks import PartitionRange, ReadRows, RowBlocks, RowPosition
from rheos.connectors.sql_database.session import SOURCE, DatabaseSession
from rheos.connectors.sql_database.source_key import check_key_of_query, table_key
from rheos.connectors.sql_database.source_table import SourceTable, check_readable, found_table
from rheos.connectors.sql_database.target_table import table_name
from rheos.core.connectors.contract import ReaderContext, Source, Split, SplitReader
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.site import located_at_call

_MOST_PARTITIONS = 10_000


@located_at_call
def source(
    table: str | None = None,
    *,
    url: str,
    query: str | None = None,
    key: str | Sequence[str] = (),
    columns: Sequence[str] | None = None,
    schema: Any = None,
    partition_on: str | None = None,
    partitions: int = 1,
    bounds: tuple[int, int] | tuple[date, date] | None = None,
    options: Mapping[str, object] | None = None,
) -> SqlDatabaseSource:
    """Read the rows of a table or a query once, in the order of a unique key: of MariaDB, PostgreSQL or
    SQLite. Its position is the last key, so a job resumes there after a failure.

    ```python
    shop = "postgresql://ada@localhost/shop"
    orders = env.from_source(rh.sql_database.source("orders", url=shop))
    ```

    Rows are read in blocks, each by a query of its own. A row that does not change while the source
    reads is returned once. Of rows that are inserted, updated or deleted meanwhile, some are missed or
    old: read changes with `rh.postgres.changes` or `rh.mysql.changes`.

    Args:
        table: Its name, or "schema.name"; it is inspected by this call.
        url: Address of the database, as in `rh.sql_database.sink`. The password is never shown.
        query: A query to read instead of a table. It needs `key` and `schema`.
        key: The columns that order the rows: unique, and never NULL. By default the table's primary
            key. Integers, dates and, in a table, strings.
        columns: The columns to read; by default all of the table, or of `schema`.
        schema: Types of columns, a dataclass, a pyarrow.Schema or a dict, if they are not to be the
            default ones. A value that does not fit is an error.
        partition_on: The integer or date column that divides the rows into splits, which subtasks read
            in parallel; preferably with an index.
        partitions: Number of splits.
        bounds: Least and greatest value of `partition_on`, which decide how it is divided. Rows outside
            are read in the first and the last split, as are NULLs in the first one.
        options: Further arguments of the driver's `connect`. Their values are shown nowhere.

    Returns:
        The source, for `env.from_source`.

    Raises:
        ProgramError: An argument is invalid, or the rows have no unique key.
        ConfigurationError: The table does not exist, or the driver is not installed.
        SchemaError: A column does not exist, or cannot be read as its type.
        UnavailableError: The database cannot be reached.
    """
    if (table is None) == (query is None):
        raise ProgramError(
            "the source needs a table or a query", hint='write source("orders", url=...)'
        )
    address = DatabaseAddress.of(url, options)
    declared = None if schema is None else resolve(schema)[0]
    keys = (key,) if isinstance(key, str) else tuple(key)
    parts = _parts(partition_on, partitions, bounds)
    if query is not None:
        rows = _of_query(address, query, keys, columns, declared)
    else:
        rows = _of_table(address, table, keys, columns, declared)
    if partition_on is not None:
        _check_partition_column(rows, partition_on, bounds)
        rows = replace(rows, partition_on=partition_on)
    return SqlDatabaseSource(rows, parts)


def _of_query(
    address: DatabaseAddress,
    query: str,
    key: tuple[str, ...],
    columns: Sequence[str] | None,
    declared: pa.Schema | None,
) -> ReadRows:
    if declared is None:
        raise ProgramError(
            "a query needs schema=, the types of its columns", hint='write schema={"id": int}'
        )
    check_key_of_query(declared, key)
    for each in declared:
        check_readable(each, "the query")
    names = _names(columns, declared.names)
    for name in names:
        if name not in declared.names:
            raise SchemaError(
                f"columns= names {name!r}, which schema= does not have",
                hint=f"it has {', '.join(declared.names)}",
            )
    wanted = pa.schema([declared.field(name) for name in names])
    by = pa.schema([declared.field(name) for name in key])
    return ReadRows(address, "the query", query.rstrip().rstrip(";"), wanted, key, by, declared)


def _of_table(
    address: DatabaseAddress,
    table: str | None,
    key: tuple[str, ...],
    columns: Sequence[str] | None,
    declared: pa.Schema | None,
) -> ReadRows:
    of, name = table_name(table)
    session = DatabaseSession(address, f"the table {table} cannot be inspected", SOURCE)

    def inspected(connection: Any, _: object) -> tuple[SourceTable, tuple[str, ...]]:
        found = found_table(connection, address.backend, of, name)
        found.fields(key)
        return found, table_key(connection, address.backend, of, name, key)

    try:
        found, ordered = session.do(inspected)
    finally:
        session.close()
    there = found.types if declared is None else declared.names
    wanted = found.fields(_names(columns, list(there)), declared)
    known = pa.schema([(name, kind) for name, kind in found.types.items() if kind is not None])
    label = f"the table {found}"
    return ReadRows(address, label, (of, name), wanted, ordered, found.fields(ordered), known)


def _names(columns: Sequence[str] | None, known: Sequence[str]) -> Sequence[str]:
    names = known if columns is None else [columns] if isinstance(columns, str) else list(columns)
    if not names:
        raise ProgramError("no column to read is named", hint='write columns=["id", "name"]')
    return names


def _parts(on: str | None, count: int, bounds: Any) -> tuple[PartitionRange, ...]:
    """Return the parts of a partitioned source: one without a partition column. Raises ProgramError."""
    if on is None:
        if count != 1 or bounds is not None:
            raise ProgramError("partitions= and bounds= need a column", hint='write partition_on="id"')
        return (PartitionRange(),)
    if not (isinstance(count, int) and 1 <= count <= _MOST_PARTITIONS):
        raise ProgramError(
            f"partitions={count!r} is not a number up to {_MOST_PARTITIONS:,}",
            hint="write partitions=8",
        )
    kinds = {type(each) for each in bounds} if isinstance(bounds, tuple) and len(bounds) == 2 else set()
    if kinds not in ({int}, {date}) or bounds[0] > bounds[1]:
        raise ProgramError(
            f"bounds={bounds!r} are not the least and the greatest value of a column",
            hint="write bounds=(1, 1_000_000), or two dates",
        )
    low, high = bounds
    of_dates = kinds == {date}
    size = (high - low).days + 1 if of_dates else high - low + 1
    count = min(count, size)
    cuts: list[int | str] = []
    for number in range(1, count):
        step = size * number // count
        cuts.append(str(low + timedelta(days=step)) if of_dates else low + step)
    return tuple(
        PartitionRange(first, end) for first, end in zip([None, *cuts], [*cuts, None], strict=True)
    )


def _check_partition_column(rows: ReadRows, on: str, bounds: Any) -> None:
    if on not in rows.known.names:
        raise SchemaError(
            f"partition_on= names the column {on!r}, which {rows.label} does not have",
            hint=f"it has {', '.join(rows.known.names)}",
        )
    kind = rows.known.field(on).type
    fits = pa.types.is_integer if isinstance(bounds[0], int) else pa.types.is_date
    if not fits(kind):
        raise SchemaError(
            f"the column {on!r} of {rows.label} is {kind}, which does not fit bounds={bounds!r}",
            hint="partition by a column of integers or dates, with bounds of the same type",
        )


@dataclass(frozen=True)
class SqlDatabaseSource(Source):
    """Source that `sql_database.source` creates."""

    rows: ReadRows
    parts: tuple[PartitionRange, ...]
    bounded: bool = field(default=True, init=False)

    @property
    def schema(self) -> pa.Schema:
        return self.rows.columns

    def without_others(self, low: int, high: int) -> SqlDatabaseSource:
        """Return the source of those rows alone whose partition column is within the bounds."""
        ends = [low, *(part.first for part in self.parts[1:]), high + 1]
        return replace(self, parts=tuple(PartitionRange(*each) for each in pairwise(ends)))

    def splits(self) -> Sequence[Split]:
        return [Split(_name(part), msgspec.msgpack.encode(part)) for part in self.parts]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        part = msgspec.msgpack.decode(split.payload, type=PartitionRange)
        begin = RowPosition() if position is None else RowPosition.decode(position)
        label = f"{self.rows.label} ({split.id})"
        return ChunkReader(label, RowBlocks(self.rows, part, begin), begin.encode(), ctx)

    def positions(self) -> str:
        rows, names = self.rows, ", ".join(map(_name, self.parts))
        parts = "" if rows.partition_on is None else f", divided by {rows.partition_on}: {names}"
        return f"rows of {rows.label} in the order of {', '.join(rows.key)}{parts}"

    def datasets(self) -> Sequence[Dataset]:
        of = self.rows.relation
        return [] if isinstance(of, str) else [self.rows.address.dataset(*of)]

    def describe(self) -> str:
        rows = self.rows
        label = rows.label.removeprefix("the ")
        return f"{label} of {rows.address.backend} at {rows.address}, by {', '.join(rows.key)}"


def _name(part: PartitionRange) -> str:
    if part == PartitionRange():
        return "all rows"
    first = "" if part.first is None else str(part.first)
    return f"{first}..{'' if part.end is None else part.end}"
