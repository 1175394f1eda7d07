"""Target of the sink: its columns as the database has them, checks that rows fit it, and its
creation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.connectors.sql_database.address import DatabaseSystem, client
from rheos.connectors.sql_database.column_limits import ColumnLimits, limits_of, new_type
from rheos.connectors.unfit_columns import missing_column, unfit_type
from rheos.core.errors import ConfigurationError, ProgramError, SchemaError


@dataclass(frozen=True)
class WrittenTable:
    """Table that the sink writes, as it was when the job was submitted."""

    schema: str | None
    name: str
    limits: tuple[ColumnLimits, ...]
    """Limits of the columns that the stream has, in the stream's order."""

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


def table_name(table: object) -> tuple[str | None, str]:
    """Return schema and name. Raise ProgramError if this is not a name of a table."""
    parts = table.split(".") if isinstance(table, str) else []
    if not 1 <= len(parts) <= 2 or not all(0 < len(part.encode()) <= 63 for part in parts):
        raise ProgramError(
            f"{table!r} is not a valid table name", hint='write "orders" or "shop.orders"'
        )
    return (None if len(parts) == 1 else parts[0]), parts[-1]


def found_target(
    connection: Any,
    backend: DatabaseSystem,
    schema: str | None,
    name: str,
    rows: pa.Schema,
    key: Sequence[str],
) -> WrittenTable:
    """Return the table; create it if it does not exist.

    Args:
        connection: A connection of SQLAlchemy.
        backend: The system.
        schema: Schema of the table; None for the default one.
        name: Name of the table.
        rows: Columns of the stream.
        key: Key of upserts; empty to append.

    Returns:
        The table.

    Raises:
        SchemaError: A column does not fit.
        ConfigurationError: The table has no unique key for upserts, or no transactions.
    """
    inspector = client().inspect(connection)
    if not inspector.has_table(name, schema=schema):
        _create(connection, backend, schema, name, rows, key)
        inspector = client().inspect(connection)
    label = name if schema is None else f"{schema}.{name}"
    columns = {each["name"]: each for each in inspector.get_columns(name, schema=schema)}
    limits = []
    for field in rows:
        column = columns.get(field.name)
        if column is None:
            raise missing_column(
                field.name, field.type, list(columns), label, "add it to the table: ALTER TABLE"
            )
        if "computed" in column or (column.get("identity") or {}).get("always"):
            raise SchemaError(
                f"the column {field.name!r} of the table {label} is generated",
                hint="drop it with .select(...)",
            )
        fit = limits_of(backend, column, field.type)
        if fit is None:
            raise unfit_type(field.name, field.type, column["type"], label)
        limits.append(fit)
    primary = inspector.get_pk_constraint(name, schema=schema)["constrained_columns"]
    for column in columns.values():
        # SQLite numbers the rows of a key of one integer column.
        numbered = column.get("autoincrement") is True or list(primary) == [column["name"]]
        filled = column["default"] is not None or "computed" in column or column.get("identity")
        if column["name"] not in rows.names and not (column["nullable"] or filled or numbered):
            raise SchemaError(
                f"the table {label} requires a value for {column['name']!r}, but the rows have no such "
                "column",
                hint="add the column to the rows, or set a default in the table",
            )
    _check_unique(inspector, backend, schema, name, key, primary)
    if backend is DatabaseSystem.MYSQL:
        _check_transactions(connection, schema, name)
    return WrittenTable(schema, name, tuple(limits))


def _create(
    connection: Any,
    backend: DatabaseSystem,
    schema: str | None,
    name: str,
    rows: pa.Schema,
    key: Sequence[str],
) -> None:
    sqlalchemy = client()
    columns = []
    for field in rows:
        kind = new_type(backend, field.type, field.name in key)
        if kind is None:
            raise SchemaError(
                f"column {field.name!r} is {field.type}, which a table of {backend} cannot store "
                "unchanged",
                hint=f'convert it to a string: .with_columns(col("{field.name}").cast(str))',
            )
        in_key = field.name in key
        columns.append(
            sqlalchemy.Column(
                field.name,
                kind,
                primary_key=in_key,
                autoincrement=False,
                nullable=field.nullable and not in_key,
            )
        )
    metadata = sqlalchemy.MetaData()
    table = sqlalchemy.Table(name, metadata, *columns, schema=schema, **table_options(connection))
    table.create(connection, checkfirst=True)
    connection.commit()


def table_options(connection: Any) -> Mapping[str, str]:
    """Return the options of new tables: transactions, and strings that are compared exactly. Strings
    that differ in case, or in blanks at the end, are then different keys."""
    is_mariadb = getattr(connection.dialect, "is_mariadb", False)
    return {
        "mysql_engine": "InnoDB",
        "mysql_charset": "utf8mb4",
        "mysql_collate": "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin",
    }


def _check_unique(
    inspector: Any,
    backend: DatabaseSystem,
    schema: str | None,
    name: str,
    key: Sequence[str],
    primary: Sequence[str],
) -> None:
    if not key:
        return
    unique = [set(primary)] if primary else []
    unique += [
        set(index["column_names"])
        for index in inspector.get_indexes(name, schema=schema)
        if index["unique"] and not any(option.endswith("_where") for option in _options(index))
    ]
    unique += [
        set(each["column_names"]) for each in inspector.get_unique_constraints(name, schema=schema)
    ]
    label = name if schema is None else f"{schema}.{name}"
    if set(key) not in unique:
        raise ConfigurationError(
            f"the table {label} has no primary key or unique index on {', '.join(key)}",
            hint="add one: ALTER TABLE ... ADD PRIMARY KEY (...), or choose another key",
        )
    other = next((each for each in unique if each != set(key)), None)
    if backend is DatabaseSystem.MYSQL and other is not None:
        # ON DUPLICATE KEY UPDATE would change the row that any unique index finds.
        columns = ", ".join(sorted(map(str, other)))
        raise ConfigurationError(
            f"the table {label} has another unique index, on {columns}, by which an upsert might "
            "replace a row of another key",
            hint="drop that index, or write to a table without it",
        )


def _options(index: Any) -> list[str]:
    """Return the names of an index's options that have values."""
    return [name for name, value in (index.get("dialect_options") or {}).items() if value is not None]


def _check_transactions(connection: Any, schema: str | None, name: str) -> None:
    sqlalchemy = client()
    found = connection.execute(
        sqlalchemy.text(
            "SELECT t.engine, e.transactions FROM information_schema.tables t "
            "LEFT JOIN information_schema.engines e ON e.engine = t.engine "
            "WHERE t.table_schema = COALESCE(:schema, DATABASE()) AND t.table_name = :name"
        ),
        {"schema": schema, "name": name},
    ).fetchall()
    for engine, transactions in found:
        if transactions != "YES":
            raise ConfigurationError(
                f"the table {name} has the engine {engine}, which has no transactions",
                hint=f"ALTER TABLE {name} ENGINE = InnoDB",
            )
