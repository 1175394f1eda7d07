"""Checks that a stream's columns fit those of a table, and the types in which they are staged."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as sql

from rheos.connectors.spark.spark_types import arrow_schema, spark_schema
from rheos.connectors.unfit_columns import missing_column, unfit_nulls, unfit_type
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
            to_add = f"ALTER TABLE {label} ADD COLUMN {field.name} {field.type}"
            raise missing_column(field.name, field.type, by_name, label, to_add)
        if field.type != column.type and column.type not in _WIDER.get(field.type, ()):
            raise unfit_type(field.name, field.type, column.type, label)
        if field.nullable and not column.nullable:
            raise unfit_nulls(field.name, label)
    given = set(schema.names)
    for column in table:
        if column.name not in given and not column.nullable:
            raise SchemaError(
                f"the table {label} has the column {column.name!r} ({column.type}), which is "
                "NOT NULL, but the stream does not have it",
                hint="add it with .with_columns(...)",
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
