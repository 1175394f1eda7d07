"""Tables that are read: their columns in the database, and those that a program reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.connectors.sql_database.address import DatabaseSystem, client
from rheos.connectors.sql_database.column_types import arrow_values, is_readable, read_as, selected
from rheos.core.errors import ConfigurationError, SchemaError
from rheos.core.protocol.elements import Batch


@dataclass(frozen=True)
class SourceTable:
    """Table that is read, as it was when the program was built."""

    backend: DatabaseSystem
    schema: str | None
    name: str
    types: Mapping[str, pa.DataType | None]
    """Default types of all columns; None for a column whose values have none."""

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    def fields(self, names: Sequence[str], declared: pa.Schema | None = None) -> pa.Schema:
        """Return columns with the declared types, or else the default ones.

        Args:
            names: The columns.
            declared: The columns that the user declares; None for the default types.

        Returns:
            The columns.

        Raises:
            SchemaError: A column does not exist, or cannot be read.
        """
        given = pa.schema([]) if declared is None else declared
        found = []
        for name in names:
            if name not in self.types:
                raise SchemaError(
                    f"the table {self} has no column {name!r}", hint=f"it has {', '.join(self.types)}"
                )
            field = (
                given.field(name)
                if name in given.names
                else pa.field(name, self.types[name] or pa.null())
            )
            check_readable(field, str(self))
            found.append(field)
        return pa.schema(found)


def check_readable(field: pa.Field, of: str) -> None:
    """Raise SchemaError if a column cannot be read as its type, or has none (Arrow's null)."""
    if pa.types.is_null(field.type):
        raise SchemaError(
            f"the column {field.name!r} of {of} has a type that cannot be read",
            hint="name the other columns, or declare its type in schema=",
        )
    if not is_readable(field.type):
        raise SchemaError(
            f"the column {field.name!r} of {of} cannot be read as {field.type}",
            hint="declare it as a number, a string, bytes, a decimal, a date or a time",
        )


def found_table(connection: Any, backend: DatabaseSystem, schema: str | None, name: str) -> SourceTable:
    """Inspect a table, or a view. Raises ConfigurationError if it does not exist."""
    sqlalchemy = client()
    try:
        columns = sqlalchemy.inspect(connection).get_columns(name, schema=schema)
    except sqlalchemy.exc.NoSuchTableError:
        columns = []
    types = {str(each["name"]): read_as(backend, each["type"]) for each in columns}
    table = SourceTable(backend, schema, name, types)
    if not types:
        raise ConfigurationError(
            f"the table {table} does not exist", hint="create it, or correct its name and schema"
        )
    return table


def quoted(connection: Any, *names: str | None) -> str:
    """Quote a name of up to several parts, for a statement with parameters."""
    preparer = connection.dialect.identifier_preparer
    return ".".join(preparer.quote_identifier(name) for name in names if name is not None)


def select_list(connection: Any, backend: DatabaseSystem, columns: Sequence[pa.Field]) -> str:
    """Return the SQL that selects columns."""
    return ", ".join(selected(backend, quoted(connection, each.name), each.type) for each in columns)


def batch_of(
    backend: DatabaseSystem, rows: Sequence[Any], columns: Sequence[pa.Field], table: str
) -> Batch:
    """Convert rows that `select_list` has selected. Raises InputError if a value does not fit."""
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [
        arrow_values(backend, of_column, field, table)
        for of_column, field in zip(values, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(columns))
