"""Types of a Delta table's columns, and whether a stream's columns fit them.

```python
import pyarrow as pa

stream = pa.schema({"n": pa.uint8(), "at": pa.timestamp("ms", "UTC")})
assert table_schema(stream) == pa.schema({"n": pa.int16(), "at": pa.timestamp("us", "UTC")})
```
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rheos.connectors.unfit_columns import missing_column, unfit_nulls, unfit_type
from rheos.core.errors import SchemaError

_SAME = frozenset({"bool", "int8", "int16", "int32", "int64", "float", "double", "string", "binary"})
_STORED_AS = {
    "uint8": pa.int16(),
    "uint16": pa.int32(),
    "uint32": pa.int64(),
    "halffloat": pa.float32(),
    "date32[day]": pa.date32(),
    "date64[ms]": pa.date32(),
    "large_string": pa.string(),
    "string_view": pa.string(),
    "large_binary": pa.binary(),
    "binary_view": pa.binary(),
}
_WIDER = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.float32(): (pa.float64(),),
}
"""Types of a table's column that take the values of a narrower one without loss."""


def stored_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type with which a table stores values of a type; None if no such type exists.

    Timestamps have microseconds. A finer time is an error when a row has one.
    """
    t = pa.types
    if str(kind) in _SAME:
        return kind
    if str(kind) in _STORED_AS:
        return _STORED_AS[str(kind)]
    if t.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if t.is_fixed_size_binary(kind):
        return pa.binary()
    if t.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= 38 else None
    if t.is_dictionary(kind) or t.is_run_end_encoded(kind):
        return stored_type(kind.value_type)
    if t.is_struct(kind):
        fields = [_stored_field(field) for field in kind]
        known = [field for field in fields if field is not None]
        return pa.struct(known) if len(known) == len(fields) and fields else None
    if t.is_map(kind):
        key, item = stored_type(kind.key_type), _stored_field(kind.item_field)
        return None if key is None or item is None else pa.map_(key, item.with_name("value"))
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        element = _stored_field(kind.value_field)
        return None if element is None else pa.list_(element.with_name("element"))
    return None


def _stored_field(field: pa.Field) -> pa.Field | None:
    kind = stored_type(field.type)
    return None if kind is None else pa.field(field.name, kind, field.nullable)


def table_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a table for rows of a schema. Raises SchemaError, naming the column."""
    fields = []
    names: dict[str, str] = {}
    for field in schema:
        stored = _stored_field(field)
        if stored is None:
            raise SchemaError(
                f"column {field.name!r} is {field.type}, which Delta tables cannot store",
                hint=f'cast it: .with_columns(col("{field.name}").cast(...)), or drop it with '
                ".select(...)",
            )
        if (other := names.setdefault(field.name.lower(), field.name)) != field.name:
            raise SchemaError(
                f"the columns {other!r} and {field.name!r} differ only in case, which Delta tables do "
                "not distinguish",
                hint=f'rename one: .select(col("{field.name}").alias(...), ...)',
            )
        fields.append(stored)
    return pa.schema(fields)


def new_columns(schema: pa.Schema, table: pa.Schema) -> list[pa.Field]:
    """Return the columns that the table lacks, as nullable ones."""
    known = {name.lower() for name in table.names}
    stored = table_schema(schema)
    return [field.with_nullable(True) for field in stored if field.name.lower() not in known]


def fitted_schema(
    schema: pa.Schema, table: pa.Schema, partitions: Sequence[str], label: str
) -> pa.Schema:
    """Return the stream's columns with the table's types. Raises SchemaError, naming the column, if
    they do not fit."""
    fields = []
    for field in table_schema(schema):
        if field.name not in table.names:
            to_add = "add it to the table: delta.sink(..., evolve=True)"
            raise missing_column(field.name, field.type, table.names, label, to_add)
        column = table.field(field.name)
        kind = stored_type(column.type)
        if kind is None or not _takes(kind, field.type):
            raise unfit_type(field.name, field.type, column.type, label)
        if field.nullable and not column.nullable:
            raise unfit_nulls(field.name, label)
        fields.append(pa.field(field.name, kind, field.nullable))
    for column in table:
        if column.name not in schema.names and not (column.nullable and column.name not in partitions):
            why = "partitioned by it" if column.name in partitions else "NOT NULL there"
            raise SchemaError(
                f"the table {label} has the column {column.name!r}, but the stream does not, and it is "
                f"{why}",
                hint="add it with .with_columns(...)",
            )
    return pa.schema(fields)


def _takes(table: pa.DataType, stream: pa.DataType) -> bool:
    """Return whether a table's column takes all values of a stream's column."""
    if table == stream or table in _WIDER.get(stream, ()):
        return True
    if pa.types.is_decimal(table) and pa.types.is_decimal(stream):
        whole = table.precision - table.scale, stream.precision - stream.scale
        return bool(whole[0] >= whole[1] and table.scale >= stream.scale)
    return False
