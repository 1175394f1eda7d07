"""Lookup of rows of a ClickHouse table by key: `clickhouse.lookup(...)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from rheos.connectors.clickhouse.columns import plain_type
from rheos.connectors.clickhouse.session import (
    ClickhouseSession,
    ServerAddress,
    client,
    literal,
    quoted,
)
from rheos.connectors.clickhouse.target_table import TableName, found_table
from rheos.connectors.key_argument import key_columns
from rheos.connectors.keyed_rows import LookupRows, check_comparable_keys
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.lookup import Found, Lookup, LookupClient, LookupContext
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.formats.arrow_bytes import table_of
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.time_bounds import PYTHON, refuse_times_outside
from rheos.core.site import located_at_call

MAX_FOUND = 1_000_000
"""Maximum number of rows that one query may find."""
_ASKED_VALUES = 4096
"""Maximum number of values in a query."""
_SETTINGS = {
    "output_format_arrow_string_as_string": 1,
    "output_format_arrow_compression_method": "none",
    "max_query_size": 64 << 20,
}
_AS_TEXT = ("UUID", "Enum8(", "Enum16(", "IPv4", "IPv6")
"""Types that are read as strings."""
_TIME = "DateTime"


@located_at_call
def lookup(
    table: str,
    *,
    url: str,
    key: str | Sequence[str],
    columns: Sequence[str] | None = None,
    schema: Any = None,
    ca_certs: str | None = None,
) -> ClickhouseLookup:
    """Create a lookup of a table's rows by key, for `stream.lookup`.

    ```python
    users = rh.clickhouse.lookup("shop.users", url="http://localhost:8123", key="id")
    visits.lookup(users, on="user_id", columns=["country"], cache_for="10m")
    ```

    Args:
        table: "database.table", or "table" of the user's default database. It is inspected by this
            call. Of a ReplacingMergeTree only current rows are found (FINAL).
        url: As in `rh.clickhouse.sink`.
        key: The key column or columns, preferably the first ones of the table's order: integers,
            strings, dates. `on=` of the lookup names a column of the stream for each, in this order. If
            several rows have a key, all are found.
        columns: The columns to read; by default all but the key's, of the table or of `schema`.
        schema: Types of columns, a dataclass, a pyarrow.Schema or a dict, if they are not to be the
            default ones. A value that does not fit is an error.
        ca_certs: As in `rh.clickhouse.sink`.

    Returns:
        The lookup.

    Raises:
        ProgramError: An argument is invalid, or no column is left to look up.
        ConfigurationError: The table does not exist, or the HTTP client is not installed.
        SchemaError: The table has no such column, or its type cannot be a key.
        UnavailableError: The server cannot be reached.
    """
    client()
    name = TableName.of(table)
    keys = key_columns(key, required=True)
    declared = None if schema is None else resolve(schema)[0]
    server = ServerAddress(url, ca_certs)
    session = ClickhouseSession(server, f"the table {name} cannot be inspected")
    try:
        found = found_table(session, name, "create it, or correct its name and database")
        kinds = {column.name: column.type for column in found.columns}
        if columns is None:
            there = list(kinds) if declared is None else declared.names
            columns = [each for each in there if each not in keys]
        wanted = [columns] if isinstance(columns, str) else list(columns)
        if not wanted:
            raise ProgramError(
                "no column to look up is named", hint='name the columns: columns=["country"]'
            )
        for each in (*keys, *wanted):
            if each not in kinds:
                raise SchemaError(
                    f"the table {name} has no column {each!r}",
                    hint=f"its columns are {', '.join(kinds)}",
                )
        selected = tuple(_selected(each, kinds[each]) for each in (*keys, *wanted))
        query = f"SELECT {', '.join(selected)} FROM {name.sql} LIMIT 0 FORMAT ArrowStream"
        types = _decoded(session.ask(query, _SETTINGS)).schema
    finally:
        session.close()
    fields = [
        types.field(each) if declared is None or each not in declared.names else declared.field(each)
        for each in (*keys, *wanted)
    ]
    by = pa.schema(fields[: len(keys)])
    for field in by:
        if not _is_key(field.type):
            raise SchemaError(
                f"the column {field.name!r} of the table {name} is {field.type}, which is no key",
                hint="keys are integers, strings and dates",
            )
    rows = pa.schema(fields[len(keys) :])
    return ClickhouseLookup(server, name, keys, by, rows, selected, found.needs_final)


def _is_key(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_integer(kind) or t.is_string(kind) or t.is_date32(kind))


def _selected(name: str, type: str) -> str:
    """Return the SQL that selects a column as Arrow has its values."""
    stored, _ = plain_type(type)
    if stored.startswith(_AS_TEXT):
        return f"toString({quoted(name)}) AS {quoted(name)}"
    if stored == "Date":
        return f"toDate32({quoted(name)}) AS {quoted(name)}"
    if stored.startswith(_TIME) and not stored.startswith("DateTime64"):
        return f"toDateTime64({quoted(name)}, 0, 'UTC') AS {quoted(name)}"
    return quoted(name)


def _decoded(content: bytes) -> pa.Table:
    try:
        return table_of(content)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"the server's answer is not Arrow: {error}") from None


@dataclass(frozen=True)
class ClickhouseLookup(Lookup):
    """Lookup that `clickhouse.lookup` creates."""

    server: ServerAddress
    table: TableName
    keys: tuple[str, ...]
    key_schema: pa.Schema
    schema: pa.Schema
    selected: tuple[str, ...]
    """SQL of the columns."""
    final: bool

    def validate(self, keys: pa.Schema) -> None:
        check_comparable_keys(keys, self.key_schema, f"the table {self.table}")

    def open(self, ctx: LookupContext) -> LookupClient:
        return _ClickhouseClient(self)

    def query(self, keys: pl.DataFrame) -> str:
        """Return the query for some keys."""
        values = ", ".join(f"({', '.join(map(literal, row))})" for row in keys.rows())
        names = ", ".join(map(quoted, self.keys))
        final = " FINAL" if self.final else ""
        return (
            f"SELECT {', '.join(self.selected)} FROM {self.table.sql}{final} "
            f"WHERE ({names}) IN ({values}) LIMIT {MAX_FOUND + 1} FORMAT ArrowStream"
        )

    def datasets(self) -> Sequence[Dataset]:
        place = self.server.address.partition("://")[2]
        return server_datasets("clickhouse", place, [self.table])

    def describe(self) -> str:
        return f"ClickHouse table {self.table} at {self.server.address}, by {', '.join(self.keys)}"


class _ClickhouseClient(LookupClient):
    def __init__(self, lookup: ClickhouseLookup) -> None:
        self._lookup = lookup
        self._session = ClickhouseSession(lookup.server, f"the table {lookup.table} cannot be read")

    def fetch(self, keys: Batch) -> Found:
        lookup = self._lookup
        refuse_times_outside(keys, PYTHON, "a key in ClickHouse")
        columns = [*lookup.key_schema, *lookup.schema]
        parts = [pa.schema(columns).empty_table()]
        asked = _askable(lookup, keys)
        for part in asked.iter_slices(max(_ASKED_VALUES // len(asked.columns), 1)):
            found = _decoded(self._session.ask(lookup.query(part), _SETTINGS))
            if found.num_rows > MAX_FOUND:
                raise InputError(
                    f"{len(part)} keys have more than {MAX_FOUND:,} rows in the table {lookup.table}",
                    hint="look up by a key that fewer rows have",
                )
            try:
                parts.append(found.select([field.name for field in columns]).cast(pa.schema(columns)))
            except (pa.ArrowInvalid, ValueError) as error:
                raise InputError(
                    f"a row of the table {lookup.table} does not fit: {error}",
                    hint="declare other types in schema=",
                ) from None
        rows, count = pa.concat_tables(parts), len(lookup.keys)
        named = rows.rename_columns([str(number) for number in range(rows.num_columns)])
        by = pa.Table.from_arrays(named.columns[:count], schema=lookup.key_schema)
        return LookupRows(by, pa.Table.from_arrays(named.columns[count:], schema=lookup.schema)).find(
            keys
        )

    def close(self) -> None:
        self._session.close()


def _askable(lookup: ClickhouseLookup, keys: Batch) -> pl.DataFrame:
    """Return the values of keys that the table may have."""
    columns = []
    for field, column in zip(lookup.key_schema, keys.columns, strict=True):
        kind = pl.Series(pl.from_arrow(pa.array([], field.type))).dtype
        columns.append(pl.Series(field.name, pl.from_arrow(column)).cast(kind, strict=False))
    return pl.DataFrame(columns).drop_nulls()
