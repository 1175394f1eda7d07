"""Tables of MariaDB, declared with the options of Flink's connector `mysql-cdc`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote

from rheos.connectors.mysql.change_source import MysqlChanges
from rheos.connectors.mysql.change_source import changes as changes_of
from rheos.connectors.schema_changes import OnSchemaChange


def changes(
    table_name: str,
    *,
    hostname: str,
    username: str,
    database_name: str,
    password: str | None = None,
    port: int = 3306,
    schema: Any = None,
    snapshot: bool = True,
    on_schema_change: OnSchemaChange = "fail",
    end: Literal["now"] | None = None,
    options: Mapping[str, object] | None = None,
) -> MysqlChanges:
    """Read the rows of a table, and then its changes, as `rh.mysql.changes`.

    Args:
        table_name: Name of the table.
        hostname: Host of the server.
        username: User, who may read the log.
        database_name: Name of the database.
        password: Password of the user.
        port: Port of the server.
        schema: Columns to read.
        snapshot: Whether a job without a checkpoint first reads the existing rows.
        on_schema_change: Policy for a table that is altered.
        end: "now" ends with the current changes.
        options: Options of TLS.

    Returns:
        The source. Its rows have a column `op`.
    """
    login = quote(username, safe="") + ("" if password is None else f":{quote(password, safe='')}")
    return changes_of(
        table_name,
        url=f"mysql://{login}@{hostname}:{port}/{quote(database_name, safe='')}",
        schema=schema,
        snapshot=snapshot,
        on_schema_change=on_schema_change,
        end=end,
        options=options,
    )
