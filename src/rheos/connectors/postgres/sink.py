"""Sink that writes to a table of PostgreSQL, exactly once. Rows are staged in the database; each
checkpoint moves its rows to the table in one transaction that also records the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import pyarrow as pa

from rheos.connectors.postgres.column_types import column_types
from rheos.connectors.postgres.connection import ServerOptions, ServerSession, client
from rheos.connectors.postgres.retrying import RetryingSession
from rheos.connectors.postgres.staged_rows import ROW, make_epochs
from rheos.connectors.postgres.target_table import (
    check_fit,
    check_table_name,
    check_unique,
    create_table,
    find_table,
    with_new_columns,
)
from rheos.connectors.postgres.writing import PostgresTarget, StagedRowsCommitter, TableStagingWriter
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.schemas import check_changes_key
from rheos.core.errors import InternalError, ProgramError, SchemaError
from rheos.core.site import located_at_call

Mode = Literal["append", "upsert"]


@located_at_call
def sink(
    table: str,
    *,
    url: str,
    mode: Mode | None = None,
    key: str | Sequence[str] | None = None,
    evolve: bool = False,
    staging_schema: str | None = None,
    options: Mapping[str, object] | None = None,
) -> PostgresSink:
    """Create a sink that writes each row to a table exactly once. A table that does not exist is
    created.

    ```python
    counts.sink_to(
        rh.postgres.sink("counts", url="postgresql://ada@localhost/shop", mode="upsert", key="page"))
    ```

    Args:
        table: Its name, or "schema.name".
        url: Address of the server, in a form that libpq accepts. The password is never shown.
        mode: "append" adds each row. "upsert" replaces the row with the same key; of several rows of a
            key in one subtask, the last one remains. By default "upsert" if there is a key.
        key: The key column or columns of an upsert. An existing table must have them as its primary key
            or as a unique index.
        evolve: Whether columns that the table lacks are added to it when the job is submitted. By
            default such a column is an error.
        staging_schema: Schema of the tables `rheos_...` that store rows until their checkpoint is
            complete; by default the table's own schema.
        options: Further parameters of libpq, such as sslmode and sslrootcert. Their values are shown
            nowhere.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, or `mode` and `key` do not belong together.
    """
    client()
    check_table_name(table)
    if mode not in (None, *get_args(Mode)):
        raise ProgramError(f"mode={mode!r} is not known", hint='write "append" or "upsert"')
    keys = (key,) if isinstance(key, str) else tuple(key or ())
    mode = mode or ("upsert" if keys else "append")
    if not all(isinstance(each, str) for each in keys) or len(set(keys)) < len(keys):
        raise ProgramError(
            f"key={key!r} does not name columns", hint='write key="id" or key=["a", "b"]'
        )
    if mode == "upsert" and not keys:
        raise ProgramError('mode="upsert" needs a key', hint='write key="id", or key=["a", "b"]')
    if mode == "append" and keys:
        raise ProgramError(
            f'key={key!r} needs mode="upsert"', hint='write mode="upsert", or leave out key='
        )
    if staging_schema is not None:
        check_table_name(staging_schema)
    if not isinstance(evolve, bool):
        raise ProgramError(f"evolve={evolve!r} is neither True nor False", hint="write evolve=True")
    return PostgresSink(table, ServerOptions.of(url, options), keys, staging_schema, evolve)


@dataclass(frozen=True)
class PostgresSink(Sink):
    """Sink that `postgres.sink` creates."""

    table: str
    options: ServerOptions
    key: tuple[str, ...]
    """Key of upserts; empty to append rows."""
    staging_schema: str | None
    evolve: bool = False
    gone: str | None = None
    """In a changelog: boolean column that marks rows which delete the row with their key."""
    target: PostgresTarget | None = None
    """Target table; None until the sink is prepared."""

    def of_changes(self, key: Sequence[str], delete: str) -> PostgresSink:
        check_changes_key("key", self.key, key, None)
        return replace(self, gone=delete)

    def validate(self, schema: pa.Schema) -> None:
        for field in schema:
            if column_types(field.type) is None:
                raise SchemaError(
                    f"the column {field.name!r} is {field.type}, which PostgreSQL cannot store",
                    hint="convert it to a string, such as JSON for jsonb, or drop it with select(...)",
                )
            if field.name == ROW or not 0 < len(field.name.encode()) <= 63:
                raise SchemaError(
                    f"PostgreSQL does not allow a column named {field.name!r}", hint="rename it"
                )
        for name in self.key:
            if name not in schema.names:
                raise SchemaError(
                    f"the key column {name!r} does not exist",
                    hint=f"the columns are {', '.join(schema.names)}",
                )

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> PostgresSink:
        session = RetryingSession(self.options, f"the table {self.table} cannot be written")
        try:
            return replace(self, target=session.do(lambda found: self._make_target(found, schema)))
        finally:
            session.close()

    def _make_target(self, session: ServerSession, rows: pa.Schema) -> PostgresTarget:
        schema = pa.schema([field for field in rows if field.name != self.gone])
        found = find_table(session, self.table)
        if found is None:
            create_table(session, self.table, schema, self.key)
            found = find_table(session, self.table)
            if found is None:
                raise InternalError(f"the table {self.table} was created, but does not exist")
        elif self.evolve:
            found = with_new_columns(session, found, schema)
        check_fit(found, schema)
        if self.key:
            check_unique(session, found, self.key)
        staging = self.staging_schema or found.schema
        make_epochs(session, staging)
        return PostgresTarget(self.options, self.key, found, staging, self.gone)

    def staged(self, folder: str) -> PostgresSink:
        assert self.target is not None, "a sink is prepared before it is staged"
        return replace(self, target=self.target.in_folder(folder))

    def open(self, ctx: SinkContext) -> SinkWriter:
        assert self.target is not None, "a sink is prepared before it is opened"
        return TableStagingWriter(self.target, ctx)

    def committer(self) -> Committer | None:
        return None if self.target is None else StagedRowsCommitter(self.target)

    def datasets(self) -> Sequence[Dataset]:
        return self.options.datasets(self.table)

    def describe(self) -> str:
        how = f"upserts by {', '.join(self.key)}" if self.key else "appended"
        return f"PostgreSQL table {self.table} at {self.options}, {how}"
