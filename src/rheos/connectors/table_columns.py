"""Types of a table's columns, and whether a stream's columns fit them, for a format of tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from rheos.connectors.unfit_columns import missing_column, unfit_nulls, unfit_type
from rheos.core.errors import SchemaError


@dataclass(frozen=True)
class TableTypes:
    """The types that tables of one format have."""

    format: str
    """Name of the format in errors, such as "Delta"."""
    sink: str
    """Name of the sink in hints, such as "delta.sink"."""
    plain: Callable[[pa.DataType], pa.DataType | None]
    """Returns the type with which a table stores values of a type that has no children; None if no such
    type exists."""
    wider: Mapping[pa.DataType, Collection[pa.DataType]]
    """Types of a table's column that take the values of a narrower one without loss."""

    def stored_type(self, kind: pa.DataType) -> pa.DataType | None:
        """Return the type with which a table stores values of a type; None if no such type exists."""
        t = pa.types
        if t.is_dictionary(kind) or t.is_run_end_encoded(kind):
            return self.stored_type(kind.value_type)
        if t.is_struct(kind):
            fields = [self._stored_field(field) for field in kind]
            known = [field for field in fields if field is not None]
            return pa.struct(known) if len(known) == len(fields) and fields else None
        if t.is_map(kind):
            key, item = self.stored_type(kind.key_type), self._stored_field(kind.item_field)
            return None if key is None or item is None else pa.map_(key, item.with_name("value"))
        if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
            element = self._stored_field(kind.value_field)
            return None if element is None else pa.list_(element.with_name("element"))
        return self.plain(kind)

    def _stored_field(self, field: pa.Field) -> pa.Field | None:
        kind = self.stored_type(field.type)
        return None if kind is None else pa.field(field.name, kind, field.nullable)

    def table_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a table for rows of a schema. Raises SchemaError, naming the column."""
        fields = []
        names: dict[str, str] = {}
        for field in schema:
            stored = self._stored_field(field)
            if stored is None:
                raise SchemaError(
                    f"column {field.name!r} is {field.type}, which {self.format} tables cannot store",
                    hint=f'cast it: .with_columns(col("{field.name}").cast(...)), or drop it with '
                    ".select(...)",
                )
            if (other := names.setdefault(field.name.lower(), field.name)) != field.name:
                raise SchemaError(
                    f"the columns {other!r} and {field.name!r} differ only in case, which "
                    f"{self.format} tables do not distinguish",
                    hint=f'rename one: .select(col("{field.name}").alias(...), ...)',
                )
            fields.append(stored)
        return pa.schema(fields)

    def new_columns(self, schema: pa.Schema, table: pa.Schema) -> list[pa.Field]:
        """Return the columns that the table lacks, as nullable ones."""
        known = {name.lower() for name in table.names}
        stored = self.table_schema(schema)
        return [field.with_nullable(True) for field in stored if field.name.lower() not in known]

    def widened_columns(self, schema: pa.Schema, table: pa.Schema) -> list[pa.Field]:
        """Return the columns of the table that are narrower than the stream's, with the wider types. A
        decimal keeps its digits after the point, so that data files keep their meaning."""
        fields = []
        for field in self.table_schema(schema):
            if field.name in table.names:
                column = table.field(field.name)
                kind = self.stored_type(column.type)
                is_scaled = pa.types.is_decimal(column.type) and pa.types.is_decimal(field.type)
                same_scale = not is_scaled or column.type.scale == field.type.scale
                if kind not in (None, field.type) and same_scale and self._takes(field.type, kind):
                    fields.append(field.with_nullable(column.nullable))
        return fields

    def fitted_schema(
        self, schema: pa.Schema, table: pa.Schema, partitions: Collection[str], label: str
    ) -> pa.Schema:
        """Return the stream's columns with the table's types.

        Args:
            schema: the stream's columns.
            table: the table's columns.
            partitions: columns that the stream must have because the table is partitioned by them.
            label: name of the table in errors.

        Raises:
            SchemaError: a column does not fit. The error names it.
        """
        fields = []
        for field in self.table_schema(schema):
            if field.name not in table.names:
                to_add = f"add it to the table: {self.sink}(..., evolve=True)"
                raise missing_column(field.name, field.type, table.names, label, to_add)
            column = table.field(field.name)
            kind = self.stored_type(column.type)
            if kind is None or not self._takes(kind, field.type):
                raise unfit_type(field.name, field.type, column.type, label)
            if field.nullable and not column.nullable:
                raise unfit_nulls(field.name, label)
            fields.append(pa.field(field.name, kind, field.nullable))
        for column in table:
            by_it = column.name in partitions
            if column.name not in schema.names and not (column.nullable and not by_it):
                raise SchemaError(
                    f"the table {label} has the column {column.name!r}, but the stream does not, and "
                    f"it is {'partitioned by it' if by_it else 'NOT NULL there'}",
                    hint="add it with .with_columns(...)",
                )
        return pa.schema(fields)

    def _takes(self, table: pa.DataType, stream: pa.DataType) -> bool:
        """Return whether a table's column takes all values of a stream's column."""
        if table == stream or table in self.wider.get(stream, ()):
            return True
        if pa.types.is_decimal(table) and pa.types.is_decimal(stream):
            whole = table.precision - table.scale, stream.precision - stream.scale
            return bool(whole[0] >= whole[1] and table.scale >= stream.scale)
        return False
