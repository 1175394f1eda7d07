"""Column types of streams, and their conversion from Polars types.

Arrow has several types for the same data: `string`, `large_string` and `string_view` are all strings. A
stream uses one of them, the *canonical* one. So streams with the same content have the same type, and
operators know which types they receive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import polars as pl
import pyarrow as pa

from rheos.core.errors import SchemaError


def canonical(kind: pa.DataType) -> pa.DataType:
    """Return the type that streams use for `kind`: no large or view variants, no dictionaries."""
    types = pa.types
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return canonical(kind.value_type)
    if types.is_fixed_size_list(kind):
        return pa.list_(_canonical_field(kind.value_field), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_canonical_field(kind.value_field))
    if types.is_map(kind):
        return pa.map_(_canonical_field(kind.key_field), _canonical_field(kind.item_field))
    if types.is_struct(kind):
        return pa.struct([_canonical_field(kind.field(i)) for i in range(kind.num_fields)])
    return kind


def key_type(kind: pa.DataType) -> str:
    """Return the type in which keys of this type are compared.

    Two columns can be the same key if these types are equal. Keys are compared by value: the width of a
    number does not matter (state/key_groups.py).
    """
    if isinstance(kind, pa.BaseExtensionType):
        return key_type(kind.storage_type)
    kind = canonical(kind)
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return "int64"
    return "double" if pa.types.is_floating(kind) else str(kind)


def common_key(left: pa.Field, right: pa.Field) -> pa.DataType:
    """Return a key type for the values of both fields. Raise SchemaError if there is no such type."""
    if left.type == right.type:
        return left.type
    fields = (pa.schema([field.with_name("key")]) for field in (left, right))
    try:
        return pa.unify_schemas([*fields], promote_options="permissive").field(0).type
    except pa.ArrowException:
        raise SchemaError(
            f"the keys have different types: {left.type} ({left.name!r}) on the left side, but "
            f"{right.type} ({right.name!r}) on the right side",
            hint="cast one of them before key_by()",
        ) from None


def _canonical_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, canonical(field.type), field.nullable)


def canonical_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a stream of such rows. Metadata is dropped."""
    return pa.schema([_canonical_field(field) for field in schema])


def empty_frame(schema: pa.Schema) -> pl.DataFrame:
    """Return a Polars frame without rows, for typing expressions. Raise SchemaError."""
    try:
        frame = pl.from_arrow(schema.empty_table())
    except (pl.exceptions.PolarsError, pa.ArrowException, TypeError, ValueError) as error:
        raise SchemaError(
            f"Polars does not support these columns: {error}",
            hint="declare simpler types for the source's columns",
        ) from None
    assert isinstance(frame, pl.DataFrame)
    return frame


def from_polars(schema: pl.Schema) -> pa.Schema:
    """Return the canonical Arrow schema of a Polars schema, with all columns nullable. Raise
    SchemaError."""
    for name, kind in schema.items():
        if kind in (pl.Null, pl.Object, pl.Unknown):
            raise SchemaError(
                f"the type of column {name!r} is unknown",
                hint="set it, as in pl.lit(None).cast(pl.Int64)",
            )
    return pa.schema([pa.field(name, _from_polars(name, kind)) for name, kind in schema.items()])


def _from_polars(name: str, kind: pl.DataType) -> pa.DataType:
    try:
        return canonical(pl.DataFrame(schema={name: kind}).to_arrow().schema.field(0).type)
    except (pl.exceptions.PolarsError, pa.ArrowException) as error:
        raise SchemaError(
            f"column {name!r} cannot be converted to {kind}: {str(error).strip().splitlines()[0]}",
            hint="cast it to another type",
        ) from None


def describe(schema: pa.Schema) -> str:
    """Return a schema on one line: "user: string, n: int64"."""
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def without(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """Return the schema without some of its columns."""
    return pa.schema([field for field in schema if field.name not in names])


def columns_read(exprs: Iterable[pl.Expr], columns: Collection[str]) -> frozenset[str]:
    """Return the columns that the expressions read; all columns if they select by pattern or type."""
    read: set[str] = set()
    for expr in exprs:
        roots = expr.meta.root_names()
        if expr.meta.has_multiple_outputs() or not set(roots) <= set(columns):
            return frozenset(columns)
        read.update(roots)
    return frozenset(read)
