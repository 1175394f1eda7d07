"""Conversion between schemas of Avro and Arrow, and checks of schemas from outside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import pyarrow as pa

from rheos.core.errors import SchemaError
from rheos.core.safe_strings import named_error
from rheos.formats.avro_bounds import AvroBounds, UnfitSchemaError
from rheos.formats.registration import FormatRegistration

_PLAIN: tuple[tuple[pa.DataType, Any], ...] = (
    (pa.bool_(), "boolean"),
    (pa.int32(), "int"),
    (pa.int64(), "long"),
    (pa.float32(), "float"),
    (pa.float64(), "double"),
    (pa.string(), "string"),
    (pa.binary(), "bytes"),
    (pa.date32(), {"type": "int", "logicalType": "date"}),
    (pa.time32("ms"), {"type": "int", "logicalType": "time-millis"}),
    (pa.time64("us"), {"type": "long", "logicalType": "time-micros"}),
    (pa.timestamp("ms", "UTC"), {"type": "long", "logicalType": "timestamp-millis"}),
    (pa.timestamp("us", "UTC"), {"type": "long", "logicalType": "timestamp-micros"}),
    (pa.timestamp("ms"), {"type": "long", "logicalType": "local-timestamp-millis"}),
    (pa.timestamp("us"), {"type": "long", "logicalType": "local-timestamp-micros"}),
)
"""Equivalent types, for both directions."""
_WIDER = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}
"""Types that are written as another type, and converted back when they are read."""


FORMAT = FormatRegistration(
    name="avro",
    title="Avro",
    function="rheos.formats.avro_format:avro",
    requires=("fastavro",),
    install="rheos[avro]",
    docs="formats.md",
)


def fastavro() -> ModuleType:
    """Return the library. Raises ConfigurationError if it is not installed."""
    return FORMAT.client()


class ParsedSchema(NamedTuple):
    """Schema with which payloads can be read."""

    schema: Any
    """Schema in fastavro's form."""
    bounds: AvroBounds


def parsed(schema: str, refers_to: Sequence[str] = ()) -> ParsedSchema:
    """Parse a schema, if the values of its payloads are bounded. It may use types of the schemas in
    `refers_to`, and each of these may use types of those before it.

    Raises UnfitSchemaError.
    """
    named: dict[str, Any] = {}
    for text in (*refers_to, schema):
        before = dict(named)
        try:
            found = fastavro().parse_schema(json.loads(text), named)
        except Exception as error:  # fastavro raises various exceptions: KeyError, AttributeError, ...
            raise UnfitSchemaError(f"it is not an Avro schema: {named_error(error)}") from None
        # Costs of a type are invalid for another type of the same name.
        if any(named[name] is not known for name, known in before.items()):
            raise UnfitSchemaError("it defines a type again that a schema it refers to defines")
        bounds = AvroBounds(found, named)
    return ParsedSchema(found, bounds)


# --- from Arrow -----------------------------------------------------------------------------------


def avro_of(schema: pa.Schema) -> str:
    """Return an Avro schema for rows of the schema, as JSON. Raises SchemaError."""
    fields = [_field_of(field, field.name, field) for field in schema]
    return json.dumps({"type": "record", "name": "Row", "fields": fields})


def _field_of(field: pa.Field, place: str, column: pa.Field) -> dict[str, Any]:
    found = _type_of(field.type, place, column)
    if field.nullable:
        return {"name": field.name, "type": ["null", found], "default": None}
    return {"name": field.name, "type": found}


def _type_of(kind: pa.DataType, place: str, column: pa.Field) -> Any:
    kind = _WIDER.get(kind, kind)
    named = "".join(each if each.isalnum() else "_" for each in place)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        kind = pa.timestamp(kind.unit, "UTC")
    for arrow, avro in _PLAIN:
        if arrow == kind:
            return avro
    if pa.types.is_dictionary(kind):
        return _type_of(kind.value_type, place, column)
    if pa.types.is_decimal128(kind):
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width:
        return {"type": "fixed", "name": f"Fixed_{named}", "size": kind.byte_width}
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = [_field_of(field, f"{place}_{field.name}", column) for field in kind]
        return {"type": "record", "name": f"Record_{named}", "fields": fields}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _field_of(kind.value_field, f"{place}_item", column)["type"]}
    if pa.types.is_map(kind) and kind.key_type == pa.string():
        return {"type": "map", "values": _field_of(kind.item_field, f"{place}_value", column)["type"]}
    raise SchemaError(
        f"column {column.name!r} of type {column.type} has no equivalent in Avro",
        hint="cast it to a number, a string, a time in ms or us, or to a list or struct of these",
    )


# --- to Arrow -------------------------------------------------------------------------------------


def check_record(schema: Any) -> None:
    """Raise SchemaError if a parsed schema is not that of a record."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise SchemaError(
            "the Avro schema is not that of a record",
            hint="a row needs a record, with a field for each column",
        )


def arrow_of(schema: Any) -> pa.Schema:
    """Return the schema of rows for a parsed record schema. Raises SchemaError if there is none."""
    check_record(schema)
    return pa.schema([arrow_of_field(field, schema) for field in schema["fields"]])


def arrow_of_field(field: Mapping[str, Any], record: Mapping[str, Any]) -> pa.Field:
    """Return the column for a field of a parsed record schema. Raises SchemaError if it has no column
    type."""
    return _arrow_field(field["name"], field["type"], record.get("__named_schemas", {}))


def _arrow_field(name: str, schema: Any, named: Mapping[str, Any]) -> pa.Field:
    if isinstance(schema, list) and "null" in schema and len(schema) == 2:
        [other] = [each for each in schema if each != "null"]
        return pa.field(name, _arrow_type(name, other, named))
    return pa.field(name, _arrow_type(name, schema, named), nullable=False)


def _arrow_type(name: str, schema: Any, named: Mapping[str, Any]) -> pa.DataType:
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    for arrow, avro in _PLAIN:
        if schema == avro:
            return arrow
    match schema:
        case {"type": "array", "items": items}:
            return pa.list_(_arrow_field("item", items, named))
        case {"type": "map", "values": values}:
            value = _arrow_field("value", values, named)
            return pa.map_(pa.string(), value)
        case {"type": "record", "fields": fields}:
            return pa.struct([_arrow_field(each["name"], each["type"], named) for each in fields])
        case {"type": "enum"}:
            return pa.string()
        case {"type": "bytes" | "fixed", "logicalType": "decimal", "precision": precision}:
            return pa.decimal128(precision, schema.get("scale", 0))
        case {"type": "fixed", "size": size}:
            return pa.binary(size)
        case {"type": str(plain)} if plain in ("boolean", "int", "long", "float", "double", "bytes"):
            return _arrow_type(name, plain, named)
        case {"type": "string"}:
            return pa.string()
    raise SchemaError(
        f"field {name!r} of the Avro schema, {json.dumps(schema)}, cannot be converted to a "
        "single column",
        hint="pass schema=, a dataclass, a pyarrow.Schema or a dict of the columns that you need",
    )
