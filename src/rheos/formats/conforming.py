"""Lossless conversion of columns, also nested ones, to another type of the same kind."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import SchemaError
from rheos.core.protocol.casts import cast_exactly


def no_form(column: pa.Field, format: str, hint: str) -> SchemaError:
    """Return the error for a column whose values a text format cannot represent."""
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        hint = (
            "encode the bytes as a string: "
            f'.with_columns({column.name}=col("{column.name}").bin.encode("base64")); or '
            "drop the column; or use Parquet or, in messages, rh.formats.arrow()"
        )
    return SchemaError(
        f"column {column.name!r} of type {column.type} cannot be written as {format}", hint=hint
    )


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return the column as one array, without a copy if it has a single chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def conform(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast an array to another type. Raises ArrowInvalid if a value does not fit.

    Arrow's own cast of structs reports the null fields of a null struct as missing.
    """
    if array.type == type_:
        return array
    if pa.types.is_struct(type_) and pa.types.is_struct(array.type):
        return _conform_struct(array, type_)
    if pa.types.is_list(type_) and pa.types.is_list(array.type):
        return _conform_list(array, type_)
    if pa.types.is_map(type_) and pa.types.is_list(array.type):
        return _map_of_entries(array, type_)
    return cast_exactly(array, type_)


def _conform_struct(array: pa.Array, type_: pa.DataType) -> pa.Array:
    absent = array.is_null()
    children = []
    for field in type_:
        if array.type.get_field_index(field.name) < 0:
            raise pa.ArrowInvalid(f"field {field.name!r} is missing")
        child = conform(pc.struct_field(array, field.name), field.type)
        if not field.nullable and child.null_count > absent.true_count:
            raise pa.ArrowInvalid(f"field {field.name!r} is missing or null")
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=absent)


def _conform_list(array: pa.Array, type_: pa.DataType) -> pa.Array:
    values = conform(array.flatten(), type_.value_type)
    if not type_.value_field.nullable and values.null_count:
        raise pa.ArrowInvalid("an element of a list is null")
    return pa.ListArray.from_arrays(_offsets(array), values, type=type_, mask=array.is_null())


def _map_of_entries(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return lists of structs of a key and a value as maps."""
    entries = array.flatten()
    keys = conform(pc.struct_field(entries, 0), type_.key_type)
    values = conform(pc.struct_field(entries, 1), type_.item_type)
    if not type_.item_field.nullable and values.null_count:
        raise pa.ArrowInvalid("a value of a map is null")
    return pa.MapArray.from_arrays(_offsets(array), keys, values, type=type_, mask=array.is_null())


def _offsets(array: pa.Array) -> pa.Array:
    """Return where the elements of each list begin among all elements."""
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
