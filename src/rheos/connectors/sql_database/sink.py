"""Sink that writes to a table of a SQL database, exactly once: `sql_database.sink(...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rheos.connectors.key_argument import key_columns
from rheos.connectors.sql_database.address import DatabaseAddress, DatabaseSystem
from rheos.connectors.sql_database.column_limits import new_type
from rheos.connectors.sql_database.ledger import LEDGER, make_ledger
from rheos.connectors.sql_database.session import DatabaseSession
from rheos.connectors.sql_database.target_table import found_target, table_name
from rheos.connectors.sql_database.writing import (
    DatabaseTarget,
    LedgerCommitter,
    LedgerWriter,
    OwnEpochsCommitter,
)
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.schemas import check_changes_key, check_column
from rheos.core.errors import ConfigurationError, ProgramError, SchemaError
from rheos.core.site import located_at_call


@located_at_call
def sink(
    table: str,
    *,
    url: str,
    key: str | Sequence[str] = (),
    options: Mapping[str, object] | None = None,
) -> SqlDatabaseSink:
    """Write rows to a table of a SQL database, each once: MariaDB, PostgreSQL or SQLite. A table that
    does not exist is created.

    ```python
    shop = "postgresql://ada@localhost/shop"
    counts.sink_to(rh.sql_database.sink("counts", url=shop, key="page"))
    ```

    Args:
        table: Its name, or "schema.name".
        url: Address of the database, as SQLAlchemy's URLs: "mysql://...", "postgresql://..." or
            "sqlite:////path/shop.db". The password is never shown.
        key: The key column or columns of upserts: a row replaces the row with the same key. Of several
            rows of a key in one subtask, the last one remains. An existing table must have them as its
            primary key or as a unique index. By default rows are appended.
        options: Further arguments of the driver's `connect`, such as `ssl_ca` of PyMySQL. Their values
            are shown nowhere.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid.
        ConfigurationError: SQLAlchemy, or the driver of the database, is not installed.
    """
    schema, name = table_name(table)
    if name == LEDGER:
        raise ProgramError(f"the table {LEDGER} is the sink's own", hint="choose another table")
    keys = key_columns(key)
    address = DatabaseAddress.of(url, options)
    address.engine()
    return SqlDatabaseSink(schema, name, address, keys)


@dataclass(frozen=True)
class SqlDatabaseSink(Sink):
    """Sink that `sql_database.sink` creates."""

    schema: str | None
    table: str
    address: DatabaseAddress
    key: tuple[str, ...]
    """Key of upserts; empty to append rows."""
    gone: str | None = None
    """In a changelog: boolean column that marks rows which delete the row with their key."""
    target: DatabaseTarget | None = None
    """Target table; None until the sink is prepared."""

    def of_changes(self, key: Sequence[str], delete: str) -> SqlDatabaseSink:
        if self.key:
            check_changes_key("key", self.key, key, None)
        return replace(self, key=tuple(key), gone=delete)

    def validate(self, schema: pa.Schema) -> None:
        for field in schema:
            if new_type(self.address.backend, field.type, False) is None:
                raise SchemaError(
                    f"column {field.name!r} is {field.type}, which a table of {self.address.backend} "
                    "cannot store unchanged",
                    hint="convert it to a string, or a time with a zone to UTC without one",
                )
            if "%" in field.name and self.address.backend is DatabaseSystem.MYSQL:
                raise SchemaError(
                    f"PyMySQL cannot write a column named {field.name!r}", hint="rename it"
                )
        for name in self.key:
            check_column(schema, "key", name, lambda kind: not pa.types.is_nested(kind), "a plain type")

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> SqlDatabaseSink:
        rows = pa.schema([field for field in schema if field.name != self.gone])

        def found(connection: Any, _: object) -> DatabaseTarget:
            backend = self.address.backend
            table = found_target(connection, backend, self.schema, self.table, rows, self.key)
            make_ledger(connection, self.schema)
            return DatabaseTarget(self.address, self.key, table, self.gone)

        doing = f"the table {self.table} cannot be inspected"
        session = DatabaseSession(self.address, doing, creates=True)
        try:
            return replace(self, target=session.do(found))
        finally:
            session.close()

    def staged(self, folder: str) -> SqlDatabaseSink:
        assert self.target is not None, "a sink is prepared before it is staged"
        return replace(self, target=self.target.in_folder(folder))

    def open(self, ctx: SinkContext) -> SinkWriter:
        if self.target is None:
            raise ConfigurationError(f"the runtime must inspect {self.describe()} before it is written")
        return LedgerWriter(self.target, ctx, OwnEpochsCommitter(self.target))

    def committer(self) -> Committer | None:
        return None if self.target is None else LedgerCommitter(self.target)

    def datasets(self) -> Sequence[Dataset]:
        return [self.address.dataset(self.schema, self.table)]

    def describe(self) -> str:
        how = f"upserts by {', '.join(self.key)}" if self.key else "appended"
        named = self.table if self.schema is None else f"{self.schema}.{self.table}"
        return f"table {named} of {self.address.backend} at {self.address}, {how}"
