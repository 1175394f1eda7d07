"""Key by which the rows of a source are ordered and numbered: unique, and never NULL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rheos.connectors.sql_database.address import DatabaseSystem, client
from rheos.core.errors import ProgramError, SchemaError


def table_key(
    connection: Any,
    backend: DatabaseSystem,
    schema: str | None,
    name: str,
    asked: Sequence[str],
) -> tuple[str, ...]:
    """Return the key that orders a table's rows: the asked one, or else the primary key.

    Raises:
        ProgramError: No index makes the key unique, or a column of it may be NULL.
        SchemaError: A column has no order that a position can name.
    """
    sqlalchemy = client()
    inspector = sqlalchemy.inspect(connection)
    primary = tuple(inspector.get_pk_constraint(name, schema=schema)["constrained_columns"])
    key = tuple(asked) or primary
    if not key:
        raise ProgramError(
            f"the table {name} has no primary key, so that its rows have no positions",
            hint='name the columns of a unique index: key="id"',
        )
    columns: Mapping[str, Any] = {
        each["name"]: each for each in inspector.get_columns(name, schema=schema)
    }
    unique = [{*primary}]
    unique += [
        {*each["column_names"]} for each in inspector.get_unique_constraints(name, schema=schema)
    ]
    unique += [
        {*index["column_names"]}
        for index in inspector.get_indexes(name, schema=schema)
        if index["unique"] and not _is_partial(index)
    ]
    nullable = [each for each in key if each not in primary and columns[each]["nullable"]]
    if {*key} not in unique or nullable:
        raise ProgramError(
            f"the columns {', '.join(key)} of the table {name} are no unique key without NULL",
            hint="name the columns of a unique index that are NOT NULL, or add one",
        )
    for each in key:
        stored = columns[each]["type"]
        is_text = isinstance(stored, sqlalchemy.types.String | sqlalchemy.types.Uuid)
        is_enum = isinstance(stored, sqlalchemy.types.Enum) or type(stored).__name__ == "SET"
        if not isinstance(stored, sqlalchemy.types.Integer | sqlalchemy.types.Date) and (
            not is_text or (is_enum and backend is DatabaseSystem.MYSQL)
        ):
            raise SchemaError(
                f"the column {each!r} of the table {name} is {stored}, by which rows cannot be ordered",
                hint="name a unique key of integers, strings or dates",
            )
    return key


def _is_partial(index: Mapping[str, Any]) -> bool:
    options = index.get("dialect_options") or {}
    return any(name.endswith("_where") and value is not None for name, value in options.items())


def check_key_of_query(columns: pa.Schema, key: Sequence[str]) -> None:
    """Raise ProgramError or SchemaError unless the columns of a query can order its rows."""
    if not key:
        raise ProgramError(
            "a query needs key=, the columns by which its rows are ordered and unique",
            hint='write key="id"',
        )
    for name in key:
        if name not in columns.names:
            raise SchemaError(
                f"key= names the column {name!r}, which schema= does not have",
                hint=f"it has {', '.join(columns.names)}",
            )
        kind = columns.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_date(kind)):
            # Strings would be compared by a collation, which the query may change.
            raise SchemaError(
                f"the column {name!r} is {kind}, by which the rows of a query cannot be ordered",
                hint="name a key of integers or dates, or read a table",
            )
