"""Protobuf message types, as protoc would describe them: it is not needed to run the tests."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2, wrappers_pb2

_Field = descriptor_pb2.FieldDescriptorProto
_NAMES = (
    *("double", "float", "bool", "string", "bytes"),
    *("int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64"),
)
_SCALARS = {name: getattr(_Field, f"TYPE_{name.upper()}") for name in _NAMES}


def _add(message: Any, name: str, kind: str, *, repeated: bool = False, optional: bool = False) -> None:
    field = message.field.add(name=name, number=len(message.field) + 1)
    field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _Field.TYPE_ENUM if kind == ".shop.Kind" else _Field.TYPE_MESSAGE
        field.type_name = kind
    if optional:
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def _map(message: Any, name: str, key: str, value: str) -> None:
    entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
    entry.options.map_entry = True
    _add(entry, "key", key)
    _add(entry, "value", value)
    _add(message, name, f".shop.{message.name}.{entry.name}", repeated=True)


def ordering(*, cents: str = "int64", moved: bool = False) -> bytes:
    """Two files, of which one imports the other: orders of goods, with a type within a type."""
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    goods = files.file.add(name="shop/goods.proto", package="goods", syntax="proto3")
    item = goods.message_type.add(name="Item")
    _add(item, "sku", "string")
    _add(item, "cents", cents)
    orders = files.file.add(name="shop/orders.proto", package="orders", syntax="proto3")
    orders.dependency.extend(["shop/goods.proto", "google/protobuf/timestamp.proto"])
    if not moved:
        _add(orders.message_type.add(name="Before"), "n", "int32")
    order = orders.message_type.add(name="Order")
    _add(order, "id", "int32")
    _add(order, "items", ".goods.Item", repeated=True)
    _add(order, "at", ".google.protobuf.Timestamp")
    line = order.nested_type.add(name="Line")
    _add(line, "text", "string")
    data: bytes = files.SerializeToString()
    return data


def descriptors() -> bytes:
    files = descriptor_pb2.FileDescriptorSet()
    for imported in (timestamp_pb2, duration_pb2, wrappers_pb2):
        imported.DESCRIPTOR.CopyToProto(files.file.add())
    names = [file.name for file in files.file]
    shop = files.file.add(name="shop.proto", package="shop", syntax="proto3", dependency=names)
    kind = shop.enum_type.add(name="Kind")
    for number, name in enumerate(("UNKNOWN", "FOOD", "TOY")):
        kind.value.add(name=name, number=number)
    item = shop.message_type.add(name="Item")
    _add(item, "sku", "string")
    _add(item, "cents", "int64", optional=True)
    _add(item, "seen", ".google.protobuf.Timestamp")
    order = shop.message_type.add(name="Order")
    for scalar in _SCALARS:
        _add(order, f"a_{scalar}", scalar)
        _add(order, f"maybe_{scalar}", scalar, optional=True)
    _add(order, "at", ".google.protobuf.Timestamp")
    _add(order, "took", ".google.protobuf.Duration")
    _add(order, "wrapped", ".google.protobuf.Int64Value")
    _add(order, "first", ".shop.Item")
    _add(order, "items", ".shop.Item", repeated=True)
    _add(order, "numbers", "int32", repeated=True)
    _add(order, "times", ".google.protobuf.Timestamp", repeated=True)
    _map(order, "counts", "string", "int64")
    _map(order, "stock", "int32", ".shop.Item")
    tagged = shop.message_type.add(name="Tagged")
    _add(tagged, "kind", ".shop.Kind")
    _add(tagged, "kinds", ".shop.Kind", repeated=True)
    _add(tagged, "small", "int32", optional=True)
    _add(tagged, "parent", ".shop.Tagged")
    data: bytes = files.SerializeToString()
    return data
