"""Check whether columns fit the fields of an Avro schema, before the first record: samples of each
field and column are converted, as records will be."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from rheos.core.errors import SchemaError
from rheos.core.protocol.columns import TypeMismatch, column_of
from rheos.formats.avro_schemas import arrow_of_field, fastavro


def check_read(record: Mapping[str, Any], schema: pa.Schema) -> None:
    """Raise SchemaError if a field of the parsed record schema can never be stored in its column."""
    for field, column in _shared(record, schema):
        if (held := _type_of(field, record)) is None:
            continue
        try:
            column_of([_sample(held)], column.with_nullable(True))
        except TypeMismatch:
            raise _no_fit(column, field) from None


def check_written(record: Mapping[str, Any], schema: pa.Schema) -> None:
    """Raise SchemaError if a column can never be written to its field of the parsed record schema."""
    for field, column in _shared(record, schema):
        held = _type_of(field, record)
        if held is None or pa.types.is_string(held):
            continue  # If the field is an enum, a string may be one of its symbols.
        if pa.types.is_list(held) != pa.types.is_list(column.type):
            raise _no_fit(column, field)  # fastavro would write a string as a list of its characters
        alone = {**record, "fields": [field]}
        try:
            fastavro().schemaless_writer(io.BytesIO(), alone, {field["name"]: _sample(column.type)})
        except Exception:  # fastavro raises various exceptions
            raise _no_fit(column, field) from None


def _shared(record: Mapping[str, Any], schema: pa.Schema) -> list[tuple[Any, pa.Field]]:
    fields = {field["name"]: field for field in record["fields"]}
    return [(fields[column.name], column) for column in schema if column.name in fields]


def _type_of(field: Any, record: Mapping[str, Any]) -> pa.DataType | None:
    """Return the type of a field; None if it may contain values of several types."""
    try:
        return arrow_of_field(field, record).type
    except SchemaError:
        return None


def _sample(kind: pa.DataType) -> Any:
    """Return a sample value of the type, as Avro's records contain it."""
    t = pa.types
    if t.is_dictionary(kind):
        return _sample(kind.value_type)
    if t.is_struct(kind):
        return {field.name: _sample(field.type) for field in kind}
    if t.is_list(kind):
        return [_sample(kind.value_type)]
    if t.is_map(kind):
        return {_sample(kind.key_type): _sample(kind.item_type)}
    if t.is_fixed_size_binary(kind):
        return bytes(kind.byte_width)
    if t.is_timestamp(kind):
        return datetime(2000, 1, 1, tzinfo=UTC if kind.tz else None)
    samples = (
        (t.is_boolean, True),
        (t.is_integer, 1),
        (t.is_floating, 1.0),
        (t.is_decimal, Decimal((0, (1,), -getattr(kind, "scale", 0)))),
        (t.is_date, date(2000, 1, 1)),
        (t.is_time, time(1)),
        (t.is_duration, timedelta(seconds=1)),
        (lambda kind: t.is_binary(kind) or t.is_large_binary(kind), b"1"),
    )
    return next((sample for is_a, sample in samples if is_a(kind)), "1")


def _no_fit(column: pa.Field, field: Any) -> SchemaError:
    return SchemaError(
        f"a column of type {column.type} cannot be stored in the field {column.name} of the "
        f"Avro schema, which is {_schema_text(field['type'])}",
        hint="correct the column's type, or cast it",
    )


def _schema_text(schema: Any) -> str:
    match schema:
        case str():
            return schema
        case list():
            return " or ".join(map(_schema_text, schema))
        case {"logicalType": str(name)}:
            return name
        case _:
            return str(schema.get("name", schema["type"]))
