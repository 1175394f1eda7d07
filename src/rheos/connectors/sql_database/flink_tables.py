"""Tables of SQL databases, declared with the options of Flink's connector `jdbc`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rheos.connectors.postgres.sink import PostgresSink
from rheos.connectors.postgres.sink import sink as postgres_sink
from rheos.connectors.sql_database.address import client
from rheos.connectors.sql_database.lookup import SqlDatabaseLookup
from rheos.connectors.sql_database.lookup import lookup as lookup_of
from rheos.connectors.sql_database.sink import SqlDatabaseSink
from rheos.connectors.sql_database.sink import sink as sink_of
from rheos.connectors.sql_database.source import SqlDatabaseSource
from rheos.connectors.sql_database.source import source as source_of
from rheos.core.errors import ProgramError

_JDBC = re.compile(r"jdbc:((?:postgresql|mysql|mariadb)://[^?]+|sqlite:.+)")


def source(
    table_name: str,
    *,
    url: str,
    username: str | None = None,
    password: str | None = None,
    schema: Any = None,
    partition_column: str | None = None,
    partition_num: int = 1,
    partition_lower_bound: int | None = None,
    partition_upper_bound: int | None = None,
) -> SqlDatabaseSource:
    """Read the rows of a table once, as `rh.sql_database.source`. With a partition column, rows outside
    of the bounds are left out, as in Flink.

    Args:
        table_name: Name of the table, or "schema.name". It needs a primary key.
        url: URL of JDBC, as for the sink.
        username: User of the database.
        password: Password of the user.
        schema: Types of columns.
        partition_column: Column of integers that divides the rows into splits.
        partition_num: Number of splits.
        partition_lower_bound: Least value of the column.
        partition_upper_bound: Greatest value of the column.

    Returns:
        The source.

    Raises:
        ProgramError: An argument is invalid, or the table has no primary key.
    """
    address = _with_login(_named(url), username, password)
    if partition_column is None:
        return source_of(table_name, url=address, schema=schema)
    if partition_lower_bound is None or partition_upper_bound is None:
        raise ProgramError(
            "a partition column needs bounds",
            hint="add 'scan.partition.lower-bound' and 'scan.partition.upper-bound'",
        )
    bounds = (partition_lower_bound, partition_upper_bound)
    made = source_of(
        table_name,
        url=address,
        schema=schema,
        partition_on=partition_column,
        partitions=partition_num,
        bounds=bounds,
    )
    return made.without_others(*bounds)


def sink(
    table_name: str,
    *,
    url: str,
    username: str | None = None,
    password: str | None = None,
    key_columns: Sequence[str] = (),
) -> PostgresSink | SqlDatabaseSink:
    """Write rows to a table, by its key if it has one: of PostgreSQL as `rh.postgres.sink`, of MariaDB
    or SQLite as `rh.sql_database.sink`.

    Args:
        table_name: Name of the table, or "schema.name".
        url: URL of JDBC: "jdbc:postgresql://host:5432/database", "jdbc:mysql://host:3306/database",
            "jdbc:mariadb://host:3306/database" or "jdbc:sqlite:/path/file.db".
        username: User of the database.
        password: Password of the user.
        key_columns: Columns of the primary key.

    Returns:
        The sink.

    Raises:
        ProgramError: The URL is that of another database.
    """
    named, keys = _named(url), tuple(key_columns)
    if named.startswith("postgresql:"):
        given = {"user": username, "password": password}
        login = {name: value for name, value in given.items() if value is not None}
        return postgres_sink(table_name, url=named, key=keys or None, options=login)
    return sink_of(table_name, url=_with_login(named, username, password), key=keys)


def lookup(
    table_name: str,
    *,
    url: str,
    key_columns: Sequence[str],
    columns: Sequence[str] | None = None,
    schema: Any = None,
    username: str | None = None,
    password: str | None = None,
) -> SqlDatabaseLookup:
    """Look rows of a table up by key, as `rh.sql_database.lookup`.

    Args:
        table_name: Name of the table, or "schema.name".
        url: URL of JDBC, as for the sink.
        key_columns: Columns of the key.
        columns: The columns to read.
        schema: Types of columns.
        username: User of the database.
        password: Password of the user.

    Returns:
        The lookup.

    Raises:
        ProgramError: The URL is that of another database.
    """
    login = _with_login(_named(url), username, password)
    return lookup_of(table_name, url=login, key=key_columns, columns=columns, schema=schema)


def _named(url: str) -> str:
    """Return the part of a URL of JDBC that names the database. Raises ProgramError."""
    found = _JDBC.fullmatch(url)
    if found is None:
        raise ProgramError(
            "url= is not the URL of JDBC for a PostgreSQL, a MariaDB or a file of SQLite",
            hint="write 'url' = 'jdbc:mysql://host:3306/database', without parameters after '?'",
        )
    return found[1]


def _with_login(named: str, username: str | None, password: str | None) -> str:
    """Return the URL of SQLAlchemy."""
    if named.startswith("sqlite:"):
        return f"sqlite:///{named.removeprefix('sqlite:')}"
    address = client().make_url(named).set(username=username, password=password)
    return str(address.render_as_string(hide_password=False))
