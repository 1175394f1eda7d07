"""Tables of PostgreSQL, declared with the options of Flink's connectors `postgres-cdc` and `jdbc`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from rheos.connectors.postgres.change_source import PostgresChanges
from rheos.connectors.postgres.change_source import changes as changes_of
from rheos.connectors.postgres.sink import PostgresSink
from rheos.connectors.postgres.sink import sink as sink_of
from rheos.core.errors import ProgramError

_JDBC = re.compile(r"jdbc:(postgresql://.+)")


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
        end=end,
        options=options,
    )


def sink(
    table_name: str,
    *,
    url: str,
    username: str | None = None,
    password: str | None = None,
    key_columns: Sequence[str] = (),
) -> PostgresSink:
    """Write rows to a table, by its key if it has one, as `rh.postgres.sink`.

    Args:
        table_name: Name of the table, or "schema.name".
        url: URL of JDBC: "jdbc:postgresql://host:5432/database".
        username: User of the database.
        password: Password of the user.
        key_columns: Columns of the primary key.

    Returns:
        The sink.

    Raises:
        ProgramError: The URL is that of another database.
    """
    login = _login(username, password)
    return sink_of(table_name, url=_url(url), key=tuple(key_columns) or None, options=login)


def _url(url: str) -> str:
    found = _JDBC.fullmatch(url)
    if found is None:
        raise ProgramError(
            "url= is not the URL of a PostgreSQL server for JDBC",
            hint="write 'url' = 'jdbc:postgresql://host:5432/database'; Rheos has no other JDBC",
        )
    return found[1]


def _login(username: str | None, password: str | None) -> Mapping[str, object]:
    given = {"user": username, "password": password}
    return {name: value for name, value in given.items() if value is not None}
