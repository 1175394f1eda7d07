"""List of the tables of a database of MariaDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rheos.connectors.database_tables import (
    DatabaseTable,
    TableSelection,
    check_patterns,
    selected_tables,
)
from rheos.connectors.mysql.server_login import ServerLogin, WatchedClient, client, rows_of
from rheos.core.site import located_at_call

_TABLES = (
    "SELECT TABLE_NAME FROM information_schema.TABLES "
    "WHERE TABLE_SCHEMA = %s AND TABLE_TYPE = 'BASE TABLE'"
)
_KEYS = (
    "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE "
    "WHERE TABLE_SCHEMA = %s AND CONSTRAINT_NAME = 'PRIMARY' ORDER BY TABLE_NAME, ORDINAL_POSITION"
)


@located_at_call
def tables(
    url: str,
    *,
    include: Sequence[str] = ("*",),
    exclude: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
) -> tuple[DatabaseTable, ...]:
    """List the tables of a database of MariaDB, for a job that reads the changes of all of them.

    ```python
    for table in rh.mysql.tables("mysql://ada:secret@localhost/shop", exclude=["tmp_*"]):
        print(table.name, table.key)
    ```

    Args:
        url: address of the server and its database, as for `changes`.
        include: patterns such as `order*`; a table must match one of them.
        exclude: patterns of tables to leave out.
        options: options of TLS, as for `changes`.

    Returns:
        The tables with their primary keys, in the order of their names. Views, and tables without a
        primary key, are left out; a warning names the latter.

    Raises:
        ProgramError: An argument is invalid.
        ConfigurationError: No table with a primary key matches.
        UnavailableError: The server cannot be reached.
    """
    client()
    check_patterns(include=include, exclude=exclude)
    login = ServerLogin.of(url, options)
    session = WatchedClient(login, f"the tables of {login.database} cannot be listed")
    try:
        keys = session.do(lambda connection: _keys(connection, login.database))
    finally:
        session.close()
    return selected_tables(login.database, keys, TableSelection(tuple(include), tuple(exclude)))


def _keys(connection: Any, database: str) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {
        str(name): [] for (name,) in rows_of(connection, _TABLES, (database,))
    }
    for table, column in rows_of(connection, _KEYS, (database,)):
        keys.setdefault(str(table), []).append(str(column))
    return keys
