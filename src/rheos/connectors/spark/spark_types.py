"""Mapping of Spark's types to Arrow's and back, without loss.

| Spark | Arrow |
|---|---|
| boolean, byte, short, int, long | bool, int8, int16, int32, int64 |
| float, double, decimal(p, s) | float32, float64, decimal128(p, s) |
| string (char, varchar), binary | string, binary |
| date, timestamp, timestamp_ntz | date32, timestamp[us, UTC], timestamp[us] |
| time, day-time interval | time64[us], duration[us] |
| array, map, struct, void | list, map, struct, null |

Arrow has more types than Spark. A type maps to a Spark type that can hold all its values, if there is
one (uint32 to long, a dictionary to its values); otherwise Rheos raises an error with a hint.

Columns are matched by index, never by name. In batches of `mapInArrow`, a column may have yet another
Arrow type (a timestamp has the session's zone, a time is in ns). `to_arrow` and `to_spark` cast them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import types as sql

from rheos.connectors.casts import Rows, cast_rows
from rheos.connectors.spark import versions
from rheos.core.errors import SchemaError

_METADATA = b"SPARK::metadata::json"
"""Key under which a field of an Arrow schema stores the metadata of the Spark field; PySpark's own
name."""

_TIMESTAMP = pa.timestamp("us", tz="UTC")

_PLAIN: dict[type, pa.DataType] = {
    sql.BooleanType: pa.bool_(),
    sql.ByteType: pa.int8(),
    sql.ShortType: pa.int16(),
    sql.IntegerType: pa.int32(),
    sql.LongType: pa.int64(),
    sql.FloatType: pa.float32(),
    sql.DoubleType: pa.float64(),
    sql.CharType: pa.string(),
    sql.VarcharType: pa.string(),
    sql.BinaryType: pa.binary(),
    sql.DateType: pa.date32(),
    sql.TimestampType: _TIMESTAMP,
    sql.TimestampNTZType: pa.timestamp("us"),
    sql.DayTimeIntervalType: pa.duration("us"),
    sql.NullType: pa.null(),
}
_TIME = pa.time64("us")
if time_type := versions.type_named("TimeType"):
    _PLAIN[time_type] = _TIME

_REFUSED = {
    "YearMonthIntervalType": 'cast it to a string: .cast("string")',
    "CalendarIntervalType": 'cast it to a string: .cast("string"), or use a day-time interval',
    "VariantType": 'extract values with variant_get(...), or cast it: .cast("string")',
    "GeometryType": "convert it to bytes: st_asbinary(...)",
    "GeographyType": "convert it to bytes: st_asbinary(...)",
}

# --- schemas, from Spark to Arrow -----------------------------------------------------------------


def arrow_schema(schema: sql.StructType) -> pa.Schema:
    """Return the Arrow schema of a DataFrame, with nullability and metadata.

    Raises SchemaError, naming the column, if a type has no mapping or two columns have the same name.
    """
    _check_names(schema.names, "", fold=False)
    return pa.schema([_arrow_field(field, field.name) for field in schema.fields])


def _arrow_field(field: sql.StructField, path: str) -> pa.Field:
    metadata = {_METADATA: json.dumps(field.metadata).encode()} if field.metadata else None
    return _field(field.name, _arrow_type(field.dataType, path), field.nullable, metadata)


def _field(name: str, kind: pa.DataType, nullable: bool, metadata: Any = None) -> pa.Field:
    """Return an Arrow field. Spark declares elements of an empty literal void and not nullable; Arrow's
    null type must be nullable."""
    return pa.field(name, kind, nullable or pa.types.is_null(kind), metadata)


def _arrow_type(kind: sql.DataType, path: str) -> pa.DataType:
    plain = _PLAIN.get(type(kind))
    if plain is not None:
        return plain
    if isinstance(kind, sql.DecimalType):
        if not 0 <= kind.scale <= kind.precision:
            raise _unmapped(path, kind.simpleString(), "cast it to a decimal of a scale from 0 to 38")
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, sql.StringType):
        if versions.collation(kind) != "UTF8_BINARY":
            hint = (
                "Rheos compares strings byte by byte: remove the collation with collate(..., "
                "'UTF8_BINARY')"
            )
            raise _unmapped(path, kind.simpleString(), hint)
        return pa.string()
    if isinstance(kind, sql.ArrayType):
        element = _arrow_type(kind.elementType, f"{path}.element")
        return pa.list_(_field("element", element, kind.containsNull))
    if isinstance(kind, sql.MapType):
        key = _arrow_type(kind.keyType, f"{path}.key")
        if pa.types.is_null(key):
            raise _unmapped(f"{path}.key", "void", "cast the map to one with typed keys")
        value = _arrow_type(kind.valueType, f"{path}.value")
        return pa.map_(pa.field("key", key, False), _field("value", value, kind.valueContainsNull))
    if isinstance(kind, sql.StructType):
        _check_names(kind.names, path, fold=False)
        return pa.struct([_arrow_field(field, f"{path}.{field.name}") for field in kind.fields])
    if isinstance(kind, sql.UserDefinedType):
        hint = "select the parts that you need as plain columns first"
        raise _unmapped(path, f"the user-defined type {type(kind).__name__}", hint)
    raise _unmapped(
        path, kind.simpleString(), _REFUSED.get(type(kind).__name__, 'cast it: .cast("string")')
    )


# --- schemas, from Arrow to Spark -----------------------------------------------------------------


def spark_schema(schema: pa.Schema, *, case_sensitive: bool = False) -> sql.StructType:
    """Return the schema of a DataFrame with these rows; nullability and Spark's metadata are kept.

    Spark ignores the case of column names unless `spark.sql.caseSensitive` is set, so names that differ
    only by case are refused. Raises SchemaError, naming the column.
    """
    _check_names(schema.names, "", fold=not case_sensitive)
    fold = not case_sensitive
    return sql.StructType([_spark_field(field, field.name, fold) for field in schema])


def _spark_field(field: pa.Field, path: str, fold: bool) -> sql.StructField:
    metadata = (field.metadata or {}).get(_METADATA)
    return sql.StructField(
        field.name,
        _spark_type(spark_arrow_type(field.type, path), path, fold),
        field.nullable,
        None if metadata is None else json.loads(metadata),
    )


_PLAIN_SPARK = {
    arrow: spark for spark, arrow in _PLAIN.items() if spark not in (sql.CharType, sql.VarcharType)
}
_PLAIN_SPARK[pa.string()] = sql.StringType


def _spark_type(kind: pa.DataType, path: str, fold: bool) -> sql.DataType:
    """Return the Spark type for a result of `spark_arrow_type`."""
    plain = _PLAIN_SPARK.get(kind)
    if plain is not None:
        return plain()
    if kind == _TIME:
        raise _lacking(path, kind, "TimeType", "cast it to int64 or a string")
    if pa.types.is_decimal128(kind):
        return sql.DecimalType(kind.precision, kind.scale)
    if pa.types.is_map(kind):
        key = _spark_type(kind.key_type, f"{path}.key", fold)
        value = _spark_type(kind.item_type, f"{path}.value", fold)
        return sql.MapType(key, value, kind.item_field.nullable)
    if pa.types.is_list(kind):
        element = _spark_type(kind.value_type, f"{path}.element", fold)
        return sql.ArrayType(element, kind.value_field.nullable)
    assert pa.types.is_struct(kind), kind
    _check_names([field.name for field in kind], path, fold=fold)
    return sql.StructType([_spark_field(field, f"{path}.{field.name}", fold) for field in kind])


def spark_arrow_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the Arrow types in the table above, each of which has one Spark type.

    Raises SchemaError, naming the column.
    """
    return pa.schema(
        [field.with_type(spark_arrow_type(field.type, field.name)) for field in schema],
    )


def spark_arrow_type(kind: pa.DataType, path: str) -> pa.DataType:
    """Return the type in the table above that can hold all values of `kind`. Raises SchemaError."""
    if isinstance(kind, pa.BaseExtensionType):
        raise _unmapped(path, str(kind), f"cast it to its storage type, {kind.storage_type}")
    if kind in _PLAIN_SPARK or kind == _TIME:
        return kind
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return spark_arrow_type(kind.value_type, path)
    if pa.types.is_nested(kind):
        return _nested_arrow_type(kind, path)
    if pa.types.is_unsigned_integer(kind):
        wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
        return wider[kind.bit_width]
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if (
        pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    ):
        return pa.binary()
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        if kind.unit == "ns":
            raise _unmapped(path, str(kind), 'Spark has microseconds: cast it to unit "us"')
        if pa.types.is_timestamp(kind):
            return pa.timestamp("us") if kind.tz is None else _TIMESTAMP
        return pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")
    if pa.types.is_decimal(kind):
        if kind.precision > 38 or not 0 <= kind.scale <= kind.precision:
            hint = "cast it to a decimal of at most 38 digits, with a scale from 0 to that"
            raise _unmapped(path, str(kind), hint)
        return pa.decimal128(kind.precision, kind.scale)
    raise _unmapped(path, str(kind), "cast it to a type that Spark has, such as a string or a struct")


def _nested_arrow_type(kind: pa.DataType, path: str) -> pa.DataType:
    if pa.types.is_map(kind):
        key = spark_arrow_type(kind.key_type, f"{path}.key")
        value = spark_arrow_type(kind.item_type, f"{path}.value")
        item = pa.field("value", value, kind.item_field.nullable)
        return pa.map_(pa.field("key", key, False), item)
    if pa.types.is_struct(kind):
        return pa.struct(
            [field.with_type(spark_arrow_type(field.type, f"{path}.{field.name}")) for field in kind]
        )
    if pa.types.is_union(kind):
        raise _unmapped(path, str(kind), "cast it to a struct with a field for each of its types")
    element = spark_arrow_type(kind.value_type, f"{path}.element")
    return pa.list_(pa.field("element", element, kind.value_field.nullable))


# --- names, and types without a mapping
# -----------------------------------------------------------------


def _check_names(names: Iterable[str], path: str, *, fold: bool) -> None:
    seen: dict[str, str] = {}
    place = f" in {path!r}" if path else ""
    for name in names:
        folded = name.lower() if fold else name
        other = seen.get(folded)
        seen[folded] = name
        if other is None:
            continue
        if other == name:
            raise SchemaError(
                f"two columns are named {name!r}{place}",
                hint="give each its own name, as with select(...) and alias(...)",
            )
        raise SchemaError(
            f"the columns {other!r} and {name!r}{place} differ only by case, which Spark ignores",
            hint="rename one of them with select(...)",
        )


def _unmapped(path: str, kind: str, hint: str) -> SchemaError:
    return SchemaError(
        f"column {path!r} cannot be converted between Spark and Rheos: it is {kind}", hint=hint
    )


def _lacking(path: str, kind: pa.DataType, name: str, hint: str) -> SchemaError:
    """Return the error for a type that later versions of Spark have."""
    first = versions.FIRST_WITH[name]
    what = f"{kind}, whose Spark type {name} is new in Spark {first}; this is {versions.installed()}"
    return _unmapped(path, what, f"{hint}, or use Spark {first} or newer")


# --- rows -----------------------------------------------------------------------------------------


def to_arrow(rows: Rows, schema: pa.Schema) -> Rows:
    """Convert rows received from Spark to a schema with types of the table above."""
    return cast_rows(rows, schema)


def to_spark(rows: Rows, schema: pa.Schema | None = None) -> Rows:
    """Convert rows for a DataFrame with the schema `spark_schema(schema)`; `schema` is by default that
    of the rows. Raises InputError if a value exceeds Spark's range."""
    return cast_rows(rows, wire_schema(rows.schema if schema is None else schema))


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the result of `to_spark`."""
    canonical = spark_arrow_schema(schema)
    return pa.schema([field.with_type(_wire_type(field.type)) for field in canonical])


def _wire_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_time(kind):
        return pa.time64("ns")
    if pa.types.is_map(kind):
        item = kind.item_field.with_type(_wire_type(kind.item_type))
        return pa.map_(kind.key_field.with_type(_wire_type(kind.key_type)), item)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_wire_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_wire_type(field.type)) for field in kind])
    return kind
