"""Casts between Arrow types that a table stores in the same way, at any depth of nesting."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import InputError
from rheos.core.protocol.casts import cast_exactly

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def cast_rows(rows: Rows, schema: pa.Schema) -> Rows:
    """Convert rows to another schema, column by column in their order. Raises InputError, naming the
    column, if a value does not fit."""
    assert rows.num_columns == len(schema), (rows.schema, schema)
    if rows.schema.equals(schema):
        return rows
    columns = [_cast_column(column, field) for column, field in zip(rows.columns, schema, strict=True)]
    if isinstance(rows, pa.Table):
        return pa.Table.from_arrays(columns, schema=schema)
    if not columns:
        return rows.replace_schema_metadata(None)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast_column(column: Any, field: pa.Field) -> Any:
    try:
        if isinstance(column, pa.ChunkedArray):
            return pa.chunked_array([cast_array(a, field.type) for a in column.chunks], field.type)
        return cast_array(column, field.type)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"a value of column {field.name!r} does not fit {field.type}: {error}",
            hint="filter out such rows, or cast the column to a wider type first",
        ) from error


def cast_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array, including its children, to a type that stores the same values. Raises
    ArrowInvalid.

    Arrow's own cast supports neither nested dictionaries nor records with non-nullable fields. A record
    without fields is converted to a bool that is true or null, and back.
    """
    if array.type == kind:
        return array
    if isinstance(array, pa.DictionaryArray) and not pa.types.is_dictionary(kind):
        return cast_array(array.dictionary_decode(), kind)
    if pa.types.is_run_end_encoded(array.type) and not pa.types.is_run_end_encoded(kind):
        return cast_array(pc.run_end_decode(array), kind)
    if pa.types.is_struct(array.type) and pa.types.is_boolean(kind):
        return pc.if_else(array.is_valid(), True, pa.scalar(None, pa.bool_()))
    if pa.types.is_struct(kind) and pa.types.is_boolean(array.type):
        validity = array.buffers()[:1]
        return pa.Array.from_buffers(kind, len(array), validity, offset=array.offset, children=[])
    if pa.types.is_struct(kind):
        children = [cast_array(array.field(i), field.type) for i, field in enumerate(kind)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_map(kind):
        offsets, begin, end = _offsets(array)
        keys = cast_array(array.keys[begin:end], kind.key_type)
        items = cast_array(array.items[begin:end], kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=array.is_null())
    if pa.types.is_list(kind):
        return _cast_list(array, kind)
    return cast_exactly(array, kind)


def _cast_list(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        offsets, begin, end = _offsets(array)
        values = array.values[begin:end]
    else:
        present = array.is_valid().to_numpy(zero_copy_only=False)
        lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        ends = np.cumsum(np.where(present, lengths, 0))
        offsets = pa.array(np.concatenate(([0], ends)).astype(np.int32))
        values = array.flatten()
    values = cast_array(values, kind.value_type)
    return pa.ListArray.from_arrays(offsets, values, type=kind, mask=array.is_null())


def _offsets(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Return the offsets of a list or map array, from 0, and the range of children in use."""
    offsets = array.offsets.to_numpy(zero_copy_only=False)
    begin, end = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    if end - begin > np.iinfo(np.int32).max:
        raise pa.ArrowInvalid("the lists of one batch have more than 2^31 elements")
    from_zero = (offsets - begin).astype(np.int32) if len(offsets) else np.zeros(1, np.int32)
    return pa.array(from_zero), begin, end
