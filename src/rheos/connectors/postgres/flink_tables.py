"""Tables of PostgreSQL, declared with the options of Flink's connector `postgres-cdc`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote

from rheos.connectors.postgres.change_source import PostgresChanges
from rheos.connectors.postgres.change_source import changes as changes_of
from rheos.connectors.schema_changes import OnSchemaChange


def changes(
    table_name: str,
    *,
    hostname: str,
    username: str,
    database_name: str,
    password: str | None = None,
    port: int = 5432,
    schema_name: str = "public",
    slot: str | None = None,
    schema: Any = None,
    snapshot: bool = True,
    on_schema_change: OnSchemaChange = "fail",
    end: Literal["now"] | None = None,
    options: Mapping[str, object] | None = None,
) -> PostgresChanges:
    """Read the rows of a table, and then its changes, as `rh.postgres.changes`.

    Args:
        table_name: Name of the table, without its schema.
        hostname: Host of the server.
        username: User, who may replicate.
        database_name: Name of the database.
        password: Password of the user.
        port: Port of the server.
        schema_name: Schema of the table.
        slot: Name of the replication slot and of the publication.
        schema: Columns to read.
        snapshot: Whether a job without a checkpoint first reads the existing rows.
        on_schema_change: Policy for a table that is altered.
        end: "now" ends with the current changes.
        options: Further parameters of libpq.

    Returns:
        The source. Its rows have a column `op`.
    """
    login = quote(username, safe="") + ("" if password is None else f":{quote(password, safe='')}")
    return changes_of(
        f"{schema_name}.{table_name}",
        url=f"postgresql://{login}@{hostname}:{port}/{quote(database_name, safe='')}",
        slot=slot,
        schema=schema,
        snapshot=snapshot,
        on_schema_change=on_schema_change,
        end=end,
        options=options,
    )
