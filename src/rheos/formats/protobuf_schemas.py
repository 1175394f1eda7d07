"""Message types of Protobuf: from a class or descriptors, and conversion to Arrow types."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import pyarrow as pa

from rheos.core.errors import ProgramError, SchemaError
from rheos.formats.registration import FormatRegistration

_DEEP = 16
"""Levels of nested messages after which a type counts as recursive."""


FORMAT = FormatRegistration(
    name="protobuf",
    title="Protobuf",
    function="rheos.formats.protobuf_format:protobuf",
    requires=("google.protobuf",),
    install="rheos[protobuf]",
    docs="formats.md",
)


def protobuf_module(name: str) -> ModuleType:
    """Return a module of the library. Raises ConfigurationError if it is not installed."""
    FORMAT.client()
    return import_module(f"google.protobuf.{name}")


def descriptors_of(message: Any) -> bytes:
    """Return the descriptor set of a generated class: its file, after the files that it imports."""
    found = protobuf_module("descriptor_pb2").FileDescriptorSet()
    known: set[str] = set()

    def add(file: Any) -> None:
        if file.name not in known:
            known.add(file.name)
            for imported in file.dependencies:
                add(imported)
            file.CopyToProto(found.file.add())

    add(message.DESCRIPTOR.file)
    data: bytes = found.SerializeToString(deterministic=True)
    return data


def message_class(descriptors: bytes, name: str) -> Any:
    """Return the class of a message type. Raises ProgramError if the descriptors do not contain it."""
    files = protobuf_module("descriptor_pb2").FileDescriptorSet()
    try:
        files.ParseFromString(descriptors)
        pool = protobuf_module("descriptor_pool").DescriptorPool()
        for file in files.file:
            pool.Add(file)
        found = pool.FindMessageTypeByName(name)
    except Exception as error:  # The library raises DecodeError, TypeError and KeyError.
        raise ProgramError(
            f"the descriptors have no message type {name!r}: {error}",
            hint="create them with protoc --include_imports --descriptor_set_out=FILE, and include "
            'the package in the name, such as "shop.Order"',
        ) from None
    return protobuf_module("message_factory").GetMessageClass(found)


# --- fields ---------------------------------------------------------------------------------------

TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_UNFIT = ("google.protobuf.Any", "google.protobuf.Struct", "google.protobuf.Value")
_WRAPPERS = {
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_TYPE_BYTES = 12
_SCALARS = {
    1: pa.int32(),
    2: pa.int64(),
    3: pa.uint32(),
    4: pa.uint64(),
    5: pa.float64(),
    6: pa.float32(),
    7: pa.bool_(),
    8: pa.string(),  # an enum, by the names of its values
    9: pa.string(),
}
"""Arrow types by FieldDescriptor.cpp_type."""


def is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def is_wrapper(field: Any) -> bool:
    """Return whether the field is a wrapper of an optional value, such as
    google.protobuf.Int64Value."""
    return field.message_type is not None and field.message_type.full_name in _WRAPPERS


def scalar_type(field: Any) -> pa.DataType:
    """Return the type of a field that is neither repeated nor a message."""
    return pa.binary() if field.type == _TYPE_BYTES else _SCALARS[field.cpp_type]


def arrow_field(field: Any, depth: int = 0) -> pa.Field:
    """Return the column for the field. Raises SchemaError if it has no column type."""
    if is_map(field):
        entry = field.message_type.fields_by_name
        value = pa.field("value", value_type(entry["value"], depth), nullable=False)
        return pa.field(field.name, pa.map_(scalar_type(entry["key"]), value), nullable=False)
    if field.is_repeated:
        item = pa.field("item", value_type(field, depth), nullable=False)
        return pa.field(field.name, pa.list_(item), nullable=False)
    return pa.field(field.name, value_type(field, depth), nullable=field.has_presence)


def value_type(field: Any, depth: int = 0) -> pa.DataType:
    """Return the type of a single value of a repeated field. Raises SchemaError."""
    message = field.message_type
    if message is None:
        return scalar_type(field)
    if message.full_name == TIMESTAMP:
        return pa.timestamp("us", "UTC")
    if message.full_name == DURATION:
        return pa.duration("us")
    if is_wrapper(field):
        return scalar_type(message.fields_by_name["value"])
    if message.full_name in _UNFIT or not message.fields or depth > _DEEP:
        raise SchemaError(
            f"field {field.name!r}, a {message.full_name}, cannot be converted to a column",
            hint="pass schema=, a dataclass, a pyarrow.Schema or a dict of the columns that you need",
        )
    return pa.struct([arrow_field(each, depth + 1) for each in message.fields])


def check_columns(message: Any, columns: Any, place: str, *, writes: bool) -> None:
    """Raise SchemaError if the columns (Arrow fields) cannot be fields of the message type."""
    for column in columns:
        field = message.fields_by_name.get(column.name)
        if field is None:
            raise SchemaError(
                f"{message.full_name} has no field {place}{column.name}",
                hint=f"its fields are {', '.join(message.fields_by_name)}",
            )
        if writes and column.nullable and not field.has_presence:
            raise SchemaError(
                f"column {column.name!r} is nullable, but the field cannot be absent",
                hint="declare the field as optional, or the column as not nullable",
            )
        _check_type(field, column.type, f"{place}{column.name}", writes=writes)


def _check_type(field: Any, kind: pa.DataType, place: str, *, writes: bool) -> None:
    fits = False
    if is_map(field):
        entry = field.message_type.fields_by_name
        if fits := pa.types.is_map(kind) and kind.key_type == scalar_type(entry["key"]):
            _check_value(entry["value"], kind.item_type, place, writes=writes)
    elif field.is_repeated:
        if fits := pa.types.is_list(kind):
            _check_value(field, kind.value_type, place, writes=writes)
    else:
        _check_value(field, kind, place, writes=writes)
        return
    if not fits:
        raise _no_fit(field, kind, place)


def _check_value(field: Any, kind: pa.DataType, place: str, *, writes: bool) -> None:
    message = field.message_type
    time = None if message is None else message.full_name
    if message is None or is_wrapper(field):
        scalar = scalar_type(field if message is None else message.fields_by_name["value"])
        fits = _related(scalar, kind)
    elif time in (TIMESTAMP, DURATION):
        is_a = pa.types.is_timestamp if time == TIMESTAMP else pa.types.is_duration
        fits = is_a(kind) and not (writes and kind.unit == "ns")
    elif fits := pa.types.is_struct(kind) and bool(kind.num_fields):
        check_columns(message, list(kind), f"{place}.", writes=writes)
    if not fits:
        raise _no_fit(field, kind, place)


def _related(scalar: pa.DataType, kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    groups = (
        (pa.types.is_integer,),
        (pa.types.is_float32, pa.types.is_float64),
        (pa.types.is_boolean,),
        (pa.types.is_string, pa.types.is_large_string),
        (pa.types.is_binary, pa.types.is_large_binary),
    )
    return any(
        any(is_a(scalar) for is_a in group) and any(is_a(kind) for is_a in group) for group in groups
    )


def _no_fit(field: Any, kind: pa.DataType, place: str) -> SchemaError:
    try:
        wanted = f", which is {arrow_field(field).type}"
    except SchemaError:
        wanted = ""
    return SchemaError(
        f"a column of type {kind} cannot be stored in the field {place}{wanted}",
        hint="correct the column's type, or cast it",
    )
