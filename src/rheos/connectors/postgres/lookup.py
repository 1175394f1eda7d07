"""Lookup of a table's rows by the values of some columns: one query per batch of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.connectors.postgres.change_values import from_text, read_as
from rheos.connectors.postgres.column_types import as_strings, column_types, takes
from rheos.connectors.postgres.connection import ServerOptions, client, listed, quoted
from rheos.connectors.postgres.errors import postgres_error
from rheos.connectors.postgres.retrying import RetryingSession
from rheos.connectors.postgres.target_table import TargetTable, check_table_name, find_table
from rheos.connectors.postgres.watched_session import WatchedSession
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.lookup import Found, Lookup, LookupClient, LookupContext
from rheos.core.errors import ConfigurationError, ProgramError, SchemaError, UnavailableError
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call

_WITHIN = "SET statement_timeout TO '20s'"
_CANCELED = "57014"
_ASKED_AS = {
    # A key that exceeds the column's range is not found, and not an error.
    "smallint": "bigint",
    "integer": "bigint",
    # Without a length, "character" means one character, and the key would be truncated.
    "character": "bpchar",
}


@located_at_call
def lookup(
    table: str,
    *,
    url: str,
    key: str | Sequence[str],
    columns: Sequence[str] | None = None,
    options: Mapping[str, object] | None = None,
) -> PostgresLookup:
    """Create a lookup of a table's rows by key, for `stream.lookup`.

    ```python
    users = rh.postgres.lookup("users", url="postgresql://ada@localhost/shop", key="id")
    visits.lookup(users, on="user_id", columns=["country"])
    ```

    Args:
        table: Its name, or "schema.name". The table is inspected by this call.
        url: Address of the server, in a form that libpq accepts. The password is never shown.
        key: The key column or columns, preferably those of an index. `on=` of the lookup names a column
            of the stream for each, in this order. If several rows have a key, all are found.
        columns: The columns to read; by default all but the key's. Numbers without a precision, JSON,
            UUIDs, enums and arrays are strings.
        options: Further parameters of libpq, such as sslmode and sslrootcert. Their values are shown
            nowhere.

    Returns:
        The lookup.

    Raises:
        ProgramError: An argument is invalid, or no column is left to look up.
        ConfigurationError: The table does not exist.
        SchemaError: The table has no such column.
        UnavailableError: The server cannot be reached.
    """
    client()
    check_table_name(table)
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not keys or not all(isinstance(each, str) for each in keys):
        raise ProgramError(
            f"key={key!r} does not name columns", hint='write key="id" or key=["a", "b"]'
        )
    if isinstance(columns, str):
        columns = [columns]
    reached = ServerOptions.of(url, options)
    session = RetryingSession(reached, f"the table {table} cannot be inspected")
    try:
        found = session.do(lambda s: find_table(s, table))
    finally:
        session.close()
    if found is None:
        raise ConfigurationError(
            f"the table {table} does not exist", hint="create it, or correct its name and schema"
        )
    there = [column.name for column in found.columns]
    wanted = [name for name in there if name not in keys] if columns is None else list(columns)
    for name in (*keys, *wanted):
        if name not in there:
            raise SchemaError(
                f"the table {found} has no column {name!r}", hint=f"it has {', '.join(there)}"
            )
    if not wanted:
        raise ProgramError(
            "no column to look up is named", hint='name the columns: columns=["country"]'
        )
    return PostgresLookup(reached, found, keys, _schema(found, wanted))


def _schema(table: TargetTable, names: Sequence[str]) -> pa.Schema:
    types = {column.name: read_as(column.type) for column in table.columns}
    return pa.schema([pa.field(name, types[name]) for name in names])


@dataclass(frozen=True)
class PostgresLookup(Lookup):
    """Lookup that `postgres.lookup` creates."""

    options: ServerOptions
    table: TargetTable
    keys: tuple[str, ...]
    schema: pa.Schema

    def validate(self, keys: pa.Schema) -> None:
        for name, field in zip(self.keys, keys, strict=True):
            column = self.table.column(name)
            assert column is not None, "the key columns have been inspected"
            if column_types(field.type) is None or not takes(column.type, field.type):
                raise SchemaError(
                    f"the column {name!r} of the table {self.table} is {column.type}, but the "
                    f"stream's column is {field.type}",
                    hint="cast the stream's column first",
                )

    def open(self, ctx: LookupContext) -> LookupClient:
        return _PostgresLookupClient(self)

    def query(self) -> str:
        """Return the query. Its parameters are arrays, one for each column of the key."""
        arrays, conditions = [], []
        for number, name in enumerate(self.keys, 1):
            column = self.table.column(name)
            assert column is not None
            bare = column.type.split("(")[0].strip() + column.type.partition(")")[2]
            arrays.append(f"${number}::{_ASKED_AS.get(bare, bare)}[]")
            conditions.append(f"t.{quoted(name)} = k.k{number}")
        names = ", ".join(f"k{number}" for number in range(1, len(self.keys) + 1))
        wanted = ", ".join(f"t.{quoted(name)}" for name in self.schema.names)
        return (
            f"SELECT k.place - 1, {wanted} FROM unnest({', '.join(arrays)}) WITH ORDINALITY "
            f"AS k({names}, place) JOIN {self.table.sql} t ON {' AND '.join(conditions)}"
        )

    def datasets(self) -> Sequence[Dataset]:
        return self.options.datasets(str(self.table))

    def describe(self) -> str:
        return f"PostgreSQL table {self.table} at {self.options}, by {listed(self.keys)}"


class _PostgresLookupClient(LookupClient):
    def __init__(self, lookup: PostgresLookup) -> None:
        self._lookup = lookup
        self._doing = f"the table {lookup.table} cannot be read"
        self._query = lookup.query().encode()
        self._session = WatchedSession(lookup.options, self._doing, _WITHIN)

    def fetch(self, keys: Batch) -> Found:
        try:
            return self._decode(self._answer([_array(column) for column in keys.columns]))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._session.close()

    def _answer(self, parameters: Sequence[bytes]) -> Any:
        options, psycopg = self._lookup.options, client()
        try:
            # Results in text form are converted column by column.
            result = self._session.do(
                lambda session: session.connection.pgconn.exec_params(self._query, parameters)
            )
            if result.status == psycopg.pq.ExecStatus.TUPLES_OK:
                return result
            error = psycopg.errors.error_from_result(result)
        except psycopg.Error as raised:
            error = raised
        if error.sqlstate == _CANCELED:
            raise UnavailableError(f"{self._doing}, at {options}: the query takes longer than 20 s")
        raise postgres_error(error, self._doing, options) from None

    def _decode(self, result: Any) -> Found:
        lookup = self._lookup
        rows = range(result.ntuples)
        columns = []
        for place, field in enumerate(lookup.schema, 1):
            values = [result.get_value(row, place) for row in rows]
            text = pa.array(values, pa.binary()).cast(pa.string())
            named = f"the column {field.name!r} of {lookup.table}"
            columns.append(from_text(text, field.type, named))
        of = pa.array([int(result.get_value(row, 0)) for row in rows], pa.int32())
        return Found(pa.RecordBatch.from_arrays(columns, schema=lookup.schema), of)


def _array(column: pa.Array) -> bytes:
    """Return an array literal. Strings with a zero byte, which no table contains, become null."""
    texts = as_strings(column).to_pylist()
    values = (
        "NULL" if "\0" in text else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for text in texts
    )
    return f"{{{','.join(values)}}}".encode()
