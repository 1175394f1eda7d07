"""Lookup of a table's rows by the values of some columns: one query per batch of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.key_argument import key_columns
from rheos.connectors.keyed_rows import LookupRows, check_comparable_keys
from rheos.connectors.sql_database.address import DatabaseAddress, DatabaseSystem
from rheos.connectors.sql_database.row_checks import frame_for
from rheos.connectors.sql_database.session import LOOKUP, DatabaseSession
from rheos.connectors.sql_database.source_table import (
    SourceTable,
    batch_of,
    found_table,
    quoted,
    select_list,
)
from rheos.connectors.sql_database.target_table import table_name
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.lookup import Found, Lookup, LookupClient, LookupContext
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.time_bounds import PYTHON, refuse_times_outside
from rheos.core.site import located_at_call

MAX_FOUND = 1_000_000
"""Maximum number of rows that one query may find."""
_ASKED_VALUES = 900
"""Maximum number of values in a query. Old versions of SQLite allow 999 parameters."""


@located_at_call
def lookup(
    table: str,
    *,
    url: str,
    key: str | Sequence[str],
    columns: Sequence[str] | None = None,
    schema: Any = None,
    options: Mapping[str, object] | None = None,
) -> SqlDatabaseLookup:
    """Create a lookup of a table's rows by key, for `stream.lookup`: of MariaDB, PostgreSQL or SQLite.

    ```python
    users = rh.sql_database.lookup("users", url="mysql://ada@localhost/shop", key="id")
    visits.lookup(users, on="user_id", columns=["country"], cache_for="10m")
    ```

    Args:
        table: Its name, or "schema.name"; also a view. It is inspected by this call.
        url: Address of the database, as in `rh.sql_database.sink`. The password is never shown.
        key: The key column or columns, preferably those of an index: integers, strings, bytes, dates
            or, except in SQLite, decimals. `on=` of the lookup names a column of the stream for each,
            in this order. Keys are compared exactly, also if the database ignores case. If several
            rows have a key, all are found.
        columns: The columns to read; by default all but the key's, of the table or of `schema`.
        schema: Types of columns, a dataclass, a pyarrow.Schema or a dict, if they are not to be the
            default ones. A value that does not fit is an error.
        options: Further arguments of the driver's `connect`. Their values are shown nowhere.

    Returns:
        The lookup.

    Raises:
        ProgramError: An argument is invalid, or no column is left to look up.
        ConfigurationError: The table does not exist, or the driver is not installed.
        SchemaError: The table has no such column, or its type cannot be a key.
        UnavailableError: The database cannot be reached.
    """
    of, name = table_name(table)
    keys = key_columns(key, required=True)
    declared = None if schema is None else resolve(schema)[0]
    address = DatabaseAddress.of(url, options)
    session = DatabaseSession(address, f"the table {table} cannot be inspected", LOOKUP)
    try:
        found = session.do(lambda connection, _: found_table(connection, address.backend, of, name))
    finally:
        session.close()
    by = found.fields(keys, declared)
    for field in by:
        if not _is_key(address.backend, field.type):
            raise SchemaError(
                f"the column {field.name!r} of the table {found} is {field.type}, which is no key",
                hint="keys are integers, strings, bytes, dates and, except in SQLite, decimals",
            )
    if columns is None:
        there = found.types if declared is None else declared.names
        columns = [each for each in there if each not in keys]
    wanted = found.fields([columns] if isinstance(columns, str) else list(columns), declared)
    if not wanted.names:
        raise ProgramError(
            "no column to look up is named", hint='name the columns: columns=["country"]'
        )
    return SqlDatabaseLookup(address, found, keys, by, wanted)


def _is_key(backend: DatabaseSystem, kind: pa.DataType) -> bool:
    t = pa.types
    if t.is_decimal(kind):
        return backend is not DatabaseSystem.SQLITE
    return bool(t.is_integer(kind) or t.is_string(kind) or t.is_binary(kind) or t.is_date(kind))


@dataclass(frozen=True)
class SqlDatabaseLookup(Lookup):
    """Lookup that `sql_database.lookup` creates."""

    address: DatabaseAddress
    table: SourceTable
    keys: tuple[str, ...]
    key_schema: pa.Schema
    schema: pa.Schema

    def validate(self, keys: pa.Schema) -> None:
        check_comparable_keys(keys, self.key_schema, f"the table {self.table}")

    def open(self, ctx: LookupContext) -> LookupClient:
        return _DatabaseLookupClient(self)

    def query(self, connection: Any, count: int) -> str:
        """Return the query for a number of keys. Its parameters are the values, key by key."""
        backend, table = self.address.backend, self.table
        place = "?" if backend is DatabaseSystem.SQLITE else "%s"
        columns = select_list(connection, backend, [*self.key_schema, *self.schema])
        names = ", ".join(quoted(connection, name) for name in self.keys)
        one = ", ".join([place] * len(self.keys))
        if len(self.keys) == 1:
            values = ", ".join([place] * count)
        else:
            names, values = f"({names})", ", ".join([f"({one})"] * count)
            if backend is DatabaseSystem.SQLITE:
                values = f"VALUES {values}"
        return (
            f"SELECT {columns} FROM {quoted(connection, table.schema, table.name)} "
            f"WHERE {names} IN ({values}) LIMIT {MAX_FOUND + 1}"
        )

    def datasets(self) -> Sequence[Dataset]:
        return [self.address.dataset(self.table.schema, self.table.name)]

    def describe(self) -> str:
        return (
            f"table {self.table} of {self.address.backend} at {self.address}, by {', '.join(self.keys)}"
        )


class _DatabaseLookupClient(LookupClient):
    def __init__(self, lookup: SqlDatabaseLookup) -> None:
        self._lookup = lookup
        doing = f"the table {lookup.table} cannot be read"
        self._session = DatabaseSession(lookup.address, doing, LOOKUP)

    def fetch(self, keys: Batch) -> Found:
        lookup = self._lookup
        refuse_times_outside(keys, PYTHON, "a key in a SQL database")
        asked = _askable(lookup, keys)
        rows = self._session.do(
            lambda connection, progressed: self._rows(connection, asked, progressed)
        )
        columns, count = [*lookup.key_schema, *lookup.schema], len(lookup.keys)
        found = batch_of(lookup.address.backend, rows, columns, str(lookup.table)).columns
        by = pa.Table.from_arrays(found[:count], schema=lookup.key_schema)
        return LookupRows(by, pa.Table.from_arrays(found[count:], schema=lookup.schema)).find(keys)

    def _rows(self, connection: Any, asked: pl.DataFrame, progressed: Progressed) -> list[Any]:
        rows: list[Any] = []
        for part in asked.iter_slices(max(_ASKED_VALUES // len(asked.columns), 1)):
            query = self._lookup.query(connection, len(part))
            values = tuple(value for row in part.rows() for value in row)
            found = connection.exec_driver_sql(query, values).fetchall()
            if len(found) > MAX_FOUND:
                raise InputError(
                    f"{len(part)} keys have more than {MAX_FOUND:,} rows in the table "
                    f"{self._lookup.table}",
                    hint="look up by a key that fewer rows have",
                )
            rows += found
            progressed()
        return rows

    def close(self) -> None:
        self._session.close()


def _askable(lookup: SqlDatabaseLookup, keys: Batch) -> pl.DataFrame:
    """Return the values of keys that the table may have, for the driver."""
    columns = []
    for field, column in zip(lookup.key_schema, keys.columns, strict=True):
        kind = pl.Series(pl.from_arrow(pa.array([], field.type))).dtype
        values = pl.Series(field.name, pl.from_arrow(column)).cast(kind, strict=False)
        if kind == pl.String:
            # No string in PostgreSQL has a zero byte, and its driver refuses one.
            values = values.set(values.str.contains("\0", literal=True), None)
        columns.append(values)
    return frame_for(lookup.address.backend, pl.DataFrame(columns).drop_nulls())
