"""List of the tables of a schema of PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rheos.connectors.database_tables import (
    DatabaseTable,
    TableSelection,
    check_patterns,
    selected_tables,
)
from rheos.connectors.postgres.connection import ServerOptions, ServerSession, client
from rheos.connectors.postgres.retrying import RetryingSession
from rheos.core.errors import ProgramError
from rheos.core.site import located_at_call

_KEYS = (
    "SELECT c.relname, ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a "
    "ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
    "WHERE i.indrelid = c.oid AND i.indisprimary "
    "ORDER BY array_position(i.indkey::smallint[], a.attnum)) "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
)


@located_at_call
def tables(
    url: str,
    *,
    schema: str = "public",
    include: Sequence[str] = ("*",),
    exclude: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
) -> tuple[DatabaseTable, ...]:
    """List the tables of a schema of PostgreSQL, for a job that reads the changes of all of them.

    ```python
    for table in rh.postgres.tables("postgresql://ada@localhost/shop", exclude=["tmp_*"]):
        print(table.name, table.key)
    ```

    Args:
        url: address of the server, as for `changes`.
        schema: the schema of the tables.
        include: patterns such as `order*`; a table must match one of them.
        exclude: patterns of tables to leave out.
        options: further parameters of libpq, as for `changes`.

    Returns:
        The tables with their primary keys, in the order of their names. Views, partitions, the tables
        that a sink of Rheos creates, and tables without a primary key are left out. A warning names the
        latter.

    Raises:
        ProgramError: An argument is invalid.
        ConfigurationError: No table with a primary key matches.
        UnavailableError: The server cannot be reached.
    """
    client()
    check_patterns(include=include, exclude=exclude)
    if not isinstance(schema, str) or not schema:
        raise ProgramError(f"schema={schema!r} is not the name of a schema", hint='write "public"')
    options_of = ServerOptions.of(url, options)
    session = RetryingSession(options_of, f"the tables of the schema {schema} cannot be listed")
    try:
        keys = session.do(lambda s: _keys(s, schema))
    finally:
        session.close()
    selection = TableSelection(tuple(include), (*exclude, "rheos_*"))
    return selected_tables(f"the schema {schema}", keys, selection, schema)


def _keys(session: ServerSession, schema: str) -> dict[str, Sequence[str]]:
    return {str(name): list(key) for name, key in session.rows(_KEYS, [schema])}
