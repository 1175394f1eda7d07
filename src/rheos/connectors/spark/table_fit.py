"""Checks that a stream's columns fit those of a table, and the types in which they are staged."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as sql

from rheos.connectors.spark.spark_types import arrow_schema, spark_schema
from rheos.core.errors import SchemaError

_WIDER = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
}
"""Types to which a column may be widened without loss."""

_IN_NAMES = ("string", "tinyint", "smallint", "int", "bigint", "boolean", "date")
"""Types whose values can be part of a folder's name."""


@dataclass(frozen=True)
class TableColumn:
    name: str
    type: str
    """Type as Spark writes it, without nested nullability."""
    nullable: bool


def columns_of(schema: sql.StructType) -> tuple[TableColumn, ...]:
    return tuple(
        TableColumn(field.name, field.dataType.simpleString(), field.nullable)
        for field in schema.fields
    )


def check_fits(schema: pa.Schema, table: tuple[TableColumn, ...], label: str) -> None:
    """Raise SchemaError, naming the column, if rows of the schema cannot be appended."""
    by_name = {column.name: column for column in table}
    for field in columns_of(spark_schema(schema)):
        column = by_name.get(field.name)
        if column is None:
            raise _missing(field, by_name, label)
        if field.type != column.type and column.type not in _WIDER.get(field.type, ()):
            raise SchemaError(
                f"column {field.name!r} is {field.type} in the stream, but {column.type} in the "
                f"table {label}",
                hint=f'cast it: .with_columns(col("{field.name}").cast(...)); or alter the table',
            )
        if field.nullable and not column.nullable:
            raise SchemaError(
                f"column {field.name!r} is nullable in the stream, but not in the table {label}",
                hint="declare it as not nullable in the stream's type, or drop NOT NULL from the "
                "table's column",
            )
    given = set(schema.names)
    for column in table:
        if column.name not in given and not column.nullable:
            raise SchemaError(
                f"the table {label} has the column {column.name!r} ({column.type}), which is "
                "NOT NULL, but the stream does not have it",
                hint="add it with .with_columns(...)",
            )


def _missing(field: TableColumn, table: dict[str, TableColumn], label: str) -> SchemaError:
    for name in table:
        if name.lower() == field.name.lower():
            return SchemaError(
                f"column {field.name!r} of the stream is called {name!r} in the table {label}",
                hint=f'rename it: .select(col("{field.name}").alias("{name}"), ...)',
            )
    return SchemaError(
        f"the table {label} has no column {field.name!r} ({field.type}); it has {', '.join(table)}",
        hint=f"drop it with .select(...), or ALTER TABLE {label} ADD COLUMN {field.name} {field.type}",
    )


def fitted_schema(
    schema: pa.Schema, table: sql.StructType, label: str, partitions: tuple[str, ...]
) -> pa.Schema:
    """Return the stream's columns with the table's types. Raises SchemaError if they do not fit."""
    columns = columns_of(table)
    check_fits(schema, columns, label)
    types = {column.name: column.type for column in columns}
    for name in partitions:
        if name not in schema.names:
            raise SchemaError(
                f"the table {label} is partitioned by {name!r}, but the stream has no such column",
                hint="add it with .with_columns(...)",
            )
        if types[name] not in _IN_NAMES:
            raise SchemaError(
                f"the table {label} is partitioned by {name!r}, but a {types[name]} cannot be "
                "part of a folder name",
                hint=f"partition by a column of type {', '.join(_IN_NAMES)}",
            )
    if partitions and set(schema.names) <= set(partitions):
        raise SchemaError(
            f"the table {label} is partitioned by every column of the stream",
            hint="a file needs at least one other column",
        )
    used = sql.StructType([table[name] for name in schema.names])
    of_table = {field.name: field for field in arrow_schema(used)}
    return pa.schema([field.with_type(of_table[field.name].type) for field in schema])
