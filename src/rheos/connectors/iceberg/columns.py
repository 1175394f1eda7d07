"""Types of an Iceberg table's columns, and the field ids by which readers find them in data files.

```python
import pyarrow as pa

stream = pa.schema({"n": pa.uint8(), "at": pa.timestamp("ms", "UTC")})
assert TYPES.table_schema(stream) == pa.schema({"n": pa.int32(), "at": pa.timestamp("us", "UTC")})
```
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyarrow import types

from rheos.connectors.iceberg.library import library
from rheos.connectors.table_columns import TableTypes

_SAME = frozenset({"bool", "int32", "int64", "float", "double", "string", "binary", "date32[day]"})
_STORED_AS = {
    "int8": pa.int32(),
    "int16": pa.int32(),
    "uint8": pa.int32(),
    "uint16": pa.int32(),
    "uint32": pa.int64(),
    "halffloat": pa.float32(),
    "date64[ms]": pa.date32(),
    "large_string": pa.string(),
    "string_view": pa.string(),
    "large_binary": pa.binary(),
    "binary_view": pa.binary(),
}
_WIDER = {pa.int32(): (pa.int64(),), pa.float32(): (pa.float64(),)}


def _plain_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type with which a table stores values of a type that has no children.

    Times have microseconds. A finer time is an error when a row has one.
    """
    if str(kind) in _SAME or types.is_fixed_size_binary(kind):
        return kind
    if str(kind) in _STORED_AS:
        return _STORED_AS[str(kind)]
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_time(kind):
        return pa.time64("us")
    if types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= 38 else None
    return None


FIELD_ID = b"PARQUET:field_id"
"""Key of a column's field id in its metadata."""
TYPES = TableTypes("Iceberg", "iceberg.sink", _plain_type, _WIDER)


def field_id(field: pa.Field) -> int | None:
    """Return the field id of a column or of a part of it in a data file, or None."""
    written = (field.metadata or {}).get(FIELD_ID)
    return None if written is None else int(written)


def field_ids(schema: pa.Schema) -> dict[str, int]:
    """Return the field ids of a table's columns, by their names."""
    return {field.name: int(field.metadata[FIELD_ID]) for field in schema}


def names_by_id(in_file: pa.Schema, ids: Mapping[str, int]) -> dict[str, str]:
    """Return the names that columns have in a data file, without the columns that it lacks.

    Args:
        in_file: columns of the file.
        ids: field ids of the table's columns, by their names.
    """
    by_id = {number: each.name for each in in_file if (number := field_id(each)) is not None}
    # A file without ids was added to the table by another program, and has the table's names.
    by_name = {} if by_id else {name: name for name in in_file.names}
    found = {name: by_id.get(number) or by_name.get(name) for name, number in ids.items()}
    return {name: there for name, there in found.items() if there is not None}


def arrow_schema(schema: Any) -> pa.Schema:
    """Return the columns of an Iceberg schema in Arrow, with their field ids at every depth."""
    return pa.schema([_small(field) for field in library("io.pyarrow").schema_to_pyarrow(schema)])


def read_schema(columns: pa.Schema) -> pa.Schema:
    """Return the columns of a table as a source reads them. Types that streams cannot write, such as
    UUIDs, stay as they are."""
    plain = [each.remove_metadata() for each in columns]
    return pa.schema([each.with_type(TYPES.stored_type(each.type) or each.type) for each in plain])


def _small(field: pa.Field) -> pa.Field:
    """Replace types with large offsets, which are the same in a data file, by those of streams."""
    return field.with_type(_small_type(field.type))


def _small_type(kind: pa.DataType) -> pa.DataType:
    if types.is_large_string(kind):
        return pa.string()
    if types.is_large_binary(kind):
        return pa.binary()
    if types.is_struct(kind):
        return pa.struct([_small(field) for field in kind])
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_small(kind.value_field))
    if types.is_map(kind):
        return pa.map_(_small(kind.key_field), _small(kind.item_field))
    return kind
