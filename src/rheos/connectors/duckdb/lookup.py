"""Lookup of a table's rows by the values of some columns: one query per batch of keys."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.connectors.duckdb.database_file import LOOKUP, DuckDbFile, fetched, quoted
from rheos.connectors.duckdb.table_columns import (
    KEY,
    relation_columns,
    typed_rows,
    wanted_columns,
)
from rheos.connectors.key_argument import key_columns
from rheos.connectors.keyed_rows import LookupRows, check_comparable_keys
from rheos.connectors.sql_database.target_table import table_name
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.lookup import Found, Lookup, LookupClient, LookupContext
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call

MAX_FOUND = 1_000_000
"""Maximum number of rows that one query may find."""
_ASKED = "rheos_keys"


@located_at_call
def lookup(
    table: str,
    *,
    path: str | os.PathLike[str],
    key: str | Sequence[str],
    columns: Sequence[str] | None = None,
    schema: Any = None,
) -> DuckDbLookup:
    """Create a lookup of a table's rows by key, for `stream.lookup`.

    ```python
    users = rh.duckdb.lookup("users", path="shop.duckdb", key="id")
    visits.lookup(users, on="user_id", columns=["country"], cache_for="10m")
    ```

    Each request opens the file to read, and closes it again: in between, another program may write.

    Args:
        table: Its name, or "schema.name"; also a view. It is inspected by this call.
        path: Path of the file, which must exist on each worker.
        key: The key column or columns. `on=` of the lookup names a column of the stream for each, in
            this order. If several rows have a key, all are found.
        columns: The columns to read; by default all but the key's, of the table or of `schema`.
        schema: Types of columns, a dataclass, a pyarrow.Schema or a dict, if they are not to be the
            default ones. A value that does not fit is an error.

    Returns:
        The lookup.

    Raises:
        ProgramError: An argument is invalid, or no column is left to look up.
        ConfigurationError: The file or the table does not exist, or DuckDB is not installed.
        SchemaError: The table has no such column, or its type cannot be a key.
        UnavailableError: Another process holds the file's lock.
    """
    of, name = table_name(table)
    keys, label = key_columns(key), f"the table {table}"
    if not keys:
        raise ProgramError("key= names no column", hint='write key="id"')
    declared = None if schema is None else resolve(schema)[0]
    file, relation = DuckDbFile.of(path), quoted(of, name)
    found = file.do(
        f"{label} cannot be inspected", LOOKUP, lambda each, _: relation_columns(each, relation)
    )
    by = wanted_columns(found, keys, None, label)
    for field in by:
        if pa.types.is_nested(field.type) or pa.types.is_floating(field.type):
            raise SchemaError(
                f"the column {field.name!r} of {label} is {field.type}, which is no key",
                hint="look up by a column of numbers, strings or dates",
            )
    known = found if declared is None else declared
    names = [each for each in known.names if each not in keys] if columns is None else columns
    wanted = wanted_columns(found, [names] if isinstance(names, str) else names, declared, label)
    if not wanted.names:
        raise ProgramError(
            "no column to look up is named", hint='name the columns: columns=["country"]'
        )
    return DuckDbLookup(file, (of, name), relation, label, keys, by, wanted)


@dataclass(frozen=True)
class DuckDbLookup(Lookup):
    """Lookup that `duckdb.lookup` creates."""

    file: DuckDbFile
    table: tuple[str | None, str]
    """Schema and name."""
    relation: str
    """Quoted name of the table."""
    label: str
    keys: tuple[str, ...]
    key_schema: pa.Schema
    schema: pa.Schema

    def validate(self, keys: pa.Schema) -> None:
        check_comparable_keys(keys, self.key_schema, self.label)

    def open(self, ctx: LookupContext) -> LookupClient:
        return _DuckDbLookupClient(self)

    @property
    def query(self) -> str:
        """Return the query for the keys in memory."""
        of_key = [f"{quoted(name)} AS {quoted(KEY + name)}" for name in self.keys]
        columns = ", ".join([*of_key, *map(quoted, self.schema.names)])
        names = ", ".join(map(quoted, self.keys))
        return (
            f"SELECT {columns} FROM {self.relation} WHERE ({names}) IN "
            f"(SELECT ({names}) FROM {_ASKED}) LIMIT {MAX_FOUND + 1}"
        )

    def datasets(self) -> Sequence[Dataset]:
        return [self.file.dataset(*self.table)]

    def describe(self) -> str:
        label = self.label.removeprefix("the ")
        return f"{label} of DuckDB in {self.file.path}, by {', '.join(self.keys)}"


class _DuckDbLookupClient(LookupClient):
    def __init__(self, lookup: DuckDbLookup) -> None:
        self._lookup = lookup

    def fetch(self, keys: Batch) -> Found:
        lookup = self._lookup
        asked = pa.Table.from_batches([keys]).rename_columns(list(lookup.keys))

        def work(connection: Any, _: object) -> pa.Table:
            connection.register(_ASKED, asked)
            return fetched(connection, lookup.query)

        found = lookup.file.do(f"{lookup.label} cannot be read", LOOKUP, work)
        if found.num_rows > MAX_FOUND:
            raise InputError(
                f"{keys.num_rows} keys have more than {MAX_FOUND:,} rows in {lookup.label}",
                hint="look up by a key that fewer rows have",
            )
        of_key = found.select([KEY + name for name in lookup.keys]).rename_columns(list(lookup.keys))
        by = typed_rows(of_key, lookup.key_schema, lookup.label)
        rows = typed_rows(found, lookup.schema, lookup.label)
        return LookupRows(pa.Table.from_batches([by]), pa.Table.from_batches([rows])).find(keys)
