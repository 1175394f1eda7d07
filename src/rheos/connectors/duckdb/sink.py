"""Sink that writes to a table in a file of DuckDB, exactly once: `duckdb.sink(...)`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rheos.connectors.duckdb.committer import DuckDbCommitter, DuckDbTarget
from rheos.connectors.duckdb.database_file import TRANSACTION, DuckDbFile
from rheos.connectors.duckdb.ledger import make_ledger
from rheos.connectors.duckdb.table_columns import check_storable, found_target
from rheos.connectors.key_argument import key_columns
from rheos.connectors.sql_database.ledger import LEDGER
from rheos.connectors.sql_database.target_table import WrittenTable, table_name
from rheos.connectors.sql_database.writing import LedgerWriter
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.schemas import check_changes_key, check_column
from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.site import located_at_call


@located_at_call
def sink(table: str, *, path: str | os.PathLike[str], key: str | Sequence[str] = ()) -> DuckDbSink:
    """Write rows to a table in a file of DuckDB, each once. A file or a table that does not exist is
    created.

    ```python
    counts.sink_to(rh.duckdb.sink("counts", path="shop.duckdb", key="page"))
    ```

    The driver writes the rows of each checkpoint in one transaction. Between checkpoints, other
    programs can open the file.

    Args:
        table: Its name, or "schema.name".
        path: Path of the file, on the machine of the driver.
        key: The key column or columns of upserts: a row replaces the row with the same key. Of several
            rows of a key in one subtask, the last one remains. An existing table must have them as its
            PRIMARY KEY, or as UNIQUE. By default rows are appended.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid.
        ConfigurationError: DuckDB is not installed.
    """
    schema, name = table_name(table)
    if name == LEDGER:
        raise ProgramError(f"the table {LEDGER} is the sink's own", hint="choose another table")
    return DuckDbSink(schema, name, DuckDbFile.of(path), key_columns(key))


@dataclass(frozen=True)
class DuckDbSink(Sink):
    """Sink that `duckdb.sink` creates."""

    schema: str | None
    table: str
    file: DuckDbFile
    key: tuple[str, ...]
    """Key of upserts; empty to append rows."""
    gone: str | None = None
    """In a changelog: boolean column that marks rows which delete the row with their key."""
    target: DuckDbTarget | None = None
    """Target table; None until the sink is prepared."""

    def of_changes(self, key: Sequence[str], delete: str) -> DuckDbSink:
        if self.key:
            check_changes_key("key", self.key, key, None)
        return replace(self, key=tuple(key), gone=delete)

    def validate(self, schema: pa.Schema) -> None:
        check_storable(schema)
        for name in self.key:
            check_column(schema, "key", name, lambda kind: not pa.types.is_nested(kind), "a plain type")

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> DuckDbSink:
        rows = pa.schema([field for field in schema if field.name != self.gone])

        def found(connection: Any, _: object) -> WrittenTable:
            make_ledger(connection, self.schema)
            return found_target(connection, self.schema, self.table, rows, self.key)

        doing = f"the table {self.table} cannot be inspected"
        table = self.file.do(doing, TRANSACTION, found, writes=True)
        return replace(self, target=DuckDbTarget(self.file, self.key, table, self.gone))

    def staged(self, folder: str) -> DuckDbSink:
        assert self.target is not None, "a sink is prepared before it is staged"
        return replace(self, target=replace(self.target, folder=folder))

    def open(self, ctx: SinkContext) -> SinkWriter:
        if self.target is None:
            raise ConfigurationError(f"the runtime must inspect {self.describe()} before it is written")
        return LedgerWriter(self.target, ctx, None)

    def committer(self) -> Committer | None:
        return None if self.target is None else DuckDbCommitter(self.target)

    def datasets(self) -> Sequence[Dataset]:
        return [self.file.dataset(self.schema, self.table)]

    def describe(self) -> str:
        how = f"upserts by {', '.join(self.key)}" if self.key else "appended"
        named = self.table if self.schema is None else f"{self.schema}.{self.table}"
        return f"table {named} of DuckDB in {self.file.path}, {how}"
