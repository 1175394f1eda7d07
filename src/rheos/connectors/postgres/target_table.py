"""Table of the server: its columns, checks that rows fit it, and its creation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from rheos.connectors.postgres.column_types import new_type, rounds, takes
from rheos.connectors.postgres.connection import ServerSession, listed, quoted
from rheos.core.errors import ConfigurationError, ProgramError, SchemaError

_KINDS = {"r": "a table", "p": "a partitioned table", "f": "a foreign table", "v": "a view"}
_NAME_BYTES = 63


@dataclass(frozen=True)
class TargetColumn:
    name: str
    type: str
    """Type as `format_type` writes it, such as "character varying(20)"."""
    type_id: int
    not_null: bool
    has_default: bool
    generated: bool
    """Whether it is generated, and so cannot be written."""
    is_computed: bool
    """Whether the server computes it from other columns, and so does not publish it."""


@dataclass(frozen=True)
class TargetTable:
    schema: str
    name: str
    columns: tuple[TargetColumn, ...]
    is_partitioned: bool = False
    primary_key: tuple[str, ...] = ()
    checks: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """CHECK constraints: name, condition in SQL, and the columns in the condition."""

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    def column(self, name: str) -> TargetColumn | None:
        return next((column for column in self.columns if column.name == name), None)


def check_table_name(table: object) -> str:
    """Raise ProgramError if this is not a name of a table, with or without its schema."""
    parts = table.split(".") if isinstance(table, str) else []
    if not 1 <= len(parts) <= 2 or not all(0 < len(part.encode()) <= _NAME_BYTES for part in parts):
        raise ProgramError(
            f"{table!r} is not a valid table name", hint='write "orders" or "shop.orders"'
        )
    assert isinstance(table, str)
    return table


def name_in_sql(table: str) -> str:
    return ".".join(map(quoted, table.split(".")))


def find_table(session: ServerSession, table: str) -> TargetTable | None:
    """Find a table by its name; without a schema, in the server's search_path."""
    return find_table_by_sql(session, name_in_sql(table))


def find_table_by_sql(session: ServerSession, name: str) -> TargetTable | None:
    """Find a table by its name in SQL; None if it does not exist."""
    found = session.rows(
        "SELECT c.oid, n.nspname, c.relname, c.relkind::text FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)",
        [name],
    )
    if not found:
        return None
    [(oid, schema, name, kind)] = found
    if kind not in _KINDS:
        raise ConfigurationError(f"{schema}.{name} is not a table", hint="choose one that stores rows")
    columns = session.rows(
        "SELECT attname, format_type(atttypid, atttypmod), atttypid::bigint, attnotnull, "
        "atthasdef OR attidentity <> '', attgenerated <> '' OR attidentity = 'a', attgenerated <> '' "
        "FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [oid],
    )
    keys = session.rows(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
        "AND a.attnum = ANY (i.indkey) WHERE i.indrelid = %s AND i.indisprimary "
        "ORDER BY array_position(i.indkey::smallint[], a.attnum)",
        [oid],
    )
    checks = session.rows(
        "SELECT quote_ident(k.conname), pg_get_expr(k.conbin, k.conrelid), "
        "ARRAY(SELECT attname::text FROM pg_attribute "
        "WHERE attrelid = k.conrelid AND attnum = ANY (k.conkey)) "
        "FROM pg_constraint k WHERE k.conrelid = %s AND k.contype = 'c' ORDER BY k.conname",
        [oid],
    )
    return TargetTable(
        schema,
        name,
        tuple(TargetColumn(*column) for column in columns),
        kind == "p",
        tuple(name for (name,) in keys),
        tuple((name, condition, tuple(names)) for name, condition, names in checks),
    )


def create_table(session: ServerSession, table: str, rows: pa.Schema, key: Sequence[str]) -> None:
    """Create a table for rows of the schema. If two sessions do so at once, one may fail with an error
    of the catalog; its retry (`errors.py`) finds the table."""
    columns = [
        f"{quoted(field.name)} {new_type(field.type)}" + ("" if field.nullable else " NOT NULL")
        for field in rows
    ]
    if key:
        columns.append(f"PRIMARY KEY ({listed(key)})")
    session.run(f"CREATE TABLE IF NOT EXISTS {name_in_sql(table)} ({', '.join(columns)})")


def with_new_columns(session: ServerSession, table: TargetTable, rows: pa.Schema) -> TargetTable:
    """Add the columns that the table lacks, as nullable ones. If two sessions do so at once, both find
    the columns. Returns the table as it then is."""
    added = [
        f"ADD COLUMN IF NOT EXISTS {quoted(field.name)} {new_type(field.type)}"
        for field in rows
        if table.column(field.name) is None
    ]
    if not added:
        return table
    session.run(f"ALTER TABLE {table.sql} {', '.join(added)}")
    return find_table_by_sql(session, table.sql) or table


def check_fit(table: TargetTable, rows: pa.Schema) -> None:
    """Raise SchemaError if the rows cannot be written to the table."""
    for field in rows:
        column = table.column(field.name)
        if column is None:
            raise SchemaError(
                f"the table {table} has no column {field.name!r}",
                hint=f"it has {', '.join(each.name for each in table.columns)}: rename the column, "
                "add it to the table, or drop it with select(...)",
            )
        if column.generated:
            raise SchemaError(
                f"the column {field.name!r} of the table {table} is generated",
                hint="drop it with select(...)",
            )
        if not takes(column.type, field.type) or rounds(column.type, field.type):
            raise SchemaError(
                f"the column {field.name!r} of the table {table} is {column.type}, but the rows "
                f"have {field.type}",
                hint=f"cast it in select(...), or make the column {new_type(field.type)}",
            )
    for column in table.columns:
        if column.not_null and not column.has_default and column.name not in rows.names:
            raise SchemaError(
                f"the table {table} requires a value for {column.name!r}, but the rows have no such "
                f"column",
                hint="add the column to the rows, or set a default in the table",
            )


def check_unique(session: ServerSession, table: TargetTable, key: Sequence[str]) -> None:
    """Raise ConfigurationError if the table may contain several rows with the same key."""
    found = session.rows(
        "SELECT 1 FROM pg_index i WHERE i.indrelid = to_regclass(%s) AND i.indisunique "
        "AND i.indimmediate AND i.indisvalid "
        "AND i.indpred IS NULL AND i.indexprs IS NULL AND (SELECT array_agg(a.attname::text "
        'ORDER BY a.attname::text COLLATE "C") FROM pg_attribute a WHERE a.attrelid = i.indrelid '
        "AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])) = %s",
        [table.sql, sorted(key)],
    )
    if not found:
        raise ConfigurationError(
            f"the table {table} has no primary key or unique index on {', '.join(key)}",
            hint=f"ALTER TABLE {table.sql} ADD PRIMARY KEY ({listed(key)}), or choose another key",
        )
