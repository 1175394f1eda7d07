"""Message types of a schema registry: checks that they can be read as the user's type, and registration
of that type.

Payloads are always read as the user's type. The registry tells with which type each payload was
written. A payload is bad if that is another type, or has a field that would be misread. The bytes alone
may not show this.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rheos.formats.avro_bounds import UnfitSchemaError
from rheos.formats.bad_rows import RowsError
from rheos.formats.confluent import Prefix, message_before, schema_prefix
from rheos.formats.protobuf_schemas import protobuf_module

if TYPE_CHECKING:
    from rheos.formats.schema_registry import KnownSchema, Reference, SchemaRegistry

_MOST_KEPT = 10_000
_WELL_KNOWN = "google/protobuf/"
"""Folder of files that the library includes, so that a registry need not have them."""
_TYPES = ("any", "api", "duration", "empty", "field_mask", "source_context", "struct", "timestamp")
_FILES = {f"{_WELL_KNOWN}{name}.proto": f"{name}_pb2" for name in (*_TYPES, "type", "wrappers")}
_FILES[f"{_WELL_KNOWN}descriptor.proto"] = "descriptor_pb2"

_NAMES = (
    *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group"),
    *("message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"),
)
"""Names of types by FieldDescriptor.type, from 1 on."""
_READ_FROM: Mapping[str, frozenset[str]] = {
    "int64": frozenset({"int32", "uint32", "bool", "enum"}),
    "uint64": frozenset({"uint32", "bool"}),
    "int32": frozenset({"bool", "enum"}),
    "uint32": frozenset({"bool"}),
    "enum": frozenset({"int32"}),
    "sint64": frozenset({"sint32"}),
    "bytes": frozenset({"string"}),
}
"""Other types from which a type can be read without loss."""


class WrittenTypes:
    """Cache of a decoder: finds the start of the message in a payload, and checks its type."""

    def __init__(self, registry: SchemaRegistry, read_as: Any) -> None:
        """Create a cache. `read_as` is the descriptor of the user's message type."""
        self._registry = registry
        self._read_as = read_as
        self._fit: dict[tuple[int, tuple[int, ...]], str | None] = {}
        """Error by schema id and path of the prefix; None if the type fits."""

    def ask_again(self) -> None:
        """Forget types that did not fit: they may be registered by now."""
        self._fit = {of: why for of, why in self._fit.items() if why is None}

    def message_in(self, payload: bytes) -> bytes:
        """Return the message after the prefix. Raises RowsError if it does not have the type."""
        prefix = message_before(payload)
        of = prefix.id, prefix.path
        if of not in self._fit:
            if len(self._fit) >= _MOST_KEPT:
                self._fit.clear()
            self._fit[of] = self._unfit(prefix)
        if (why := self._fit[of]) is not None:
            raise RowsError(why)
        return payload[prefix.end :]

    def _unfit(self, prefix: Prefix) -> str | None:
        try:
            written = _type_at(self._registry.schema(prefix.id, "PROTOBUF"), prefix)
            _check(written, self._read_as)
        except UnfitSchemaError as error:
            return str(error)
        return None


def _type_at(schema: KnownSchema, prefix: Prefix) -> Any:
    """Return the descriptor of the message type. Raises UnfitSchemaError."""
    what = f"schema {prefix.id} of the registry"
    files = {name: _file(text, repr(name)) for name, text in schema.refers_to.items()}
    for name, file in files.items():
        file.name = name  # name by which other files import it
    main = _file(schema.text, what)
    main.name = main.name or "main.proto"
    pool = protobuf_module("descriptor_pool").DescriptorPool()
    try:
        for file in [*files.values(), main]:
            for name in file.dependency:
                if name in _FILES and name not in files:
                    files[name] = protobuf_module("descriptor_pb2").FileDescriptorProto()
                    protobuf_module(_FILES[name]).DESCRIPTOR.CopyToProto(files[name])
                    pool.Add(files[name])
            pool.Add(file)
        types, names = main.message_type, [main.package] if main.package else []
        for index in prefix.path:
            names.append(types[index].name)
            types = types[index].nested_type
        return pool.FindMessageTypeByName(".".join(names))
    except IndexError:
        path = ", ".join(map(str, prefix.path))
        raise UnfitSchemaError(f"{what} has no message type at [{path}]") from None
    except Exception as error:  # the library raises TypeError, KeyError and others
        raise UnfitSchemaError(f"{what} is not valid: {error}") from None


def _file(text: str, what: str) -> Any:
    file = protobuf_module("descriptor_pb2").FileDescriptorProto()
    try:
        file.ParseFromString(base64.b64decode(text, validate=True))
    except Exception:  # binascii.Error or DecodeError
        raise UnfitSchemaError(
            f"{what}: the registry does not return it as a file descriptor when asked with "
            "?format=serialized"
        ) from None
    return file


def _check(written: Any, read: Any) -> None:
    if written.full_name != read.full_name:
        raise UnfitSchemaError(f"it is a {written.full_name}, not a {read.full_name}")
    _check_fields(written, read, set())


def _check_fields(written: Any, read: Any, seen: set[tuple[str, str]]) -> None:
    """Raise UnfitSchemaError if a field would be misread."""
    if (written.full_name, read.full_name) in seen:
        return
    seen.add((written.full_name, read.full_name))
    for field in read.fields:
        before = written.fields_by_number.get(field.number)
        if before is None:
            continue
        was, now = _NAMES[before.type - 1], _NAMES[field.type - 1]
        if (before.is_repeated and not field.is_repeated) or was not in _READ_FROM.get(
            now, frozenset()
        ) | {now}:
            raise UnfitSchemaError(
                f"field {field.number} of {read.full_name} was written as "
                f"{_field_text(before, was)}, which cannot be read as {_field_text(field, now)}"
            )
        if field.message_type is not None and before.message_type is not None:
            _check_fields(before.message_type, field.message_type, seen)


def _field_text(field: Any, kind: str) -> str:
    named = field.message_type or field.enum_type
    many = "repeated " if field.is_repeated else ""
    return f"{many}{kind if named is None else named.full_name} {field.name}"


# --- registration for writing
# ---------------------------------------------------------------------------


def registered_prefix(registry: SchemaRegistry, subject: str, message: Any) -> bytes:
    """Register the type's file, after the files that it imports, and return the prefix of its
    messages."""
    references: dict[str, Reference] = {}

    def imports(file: Any) -> list[Reference]:
        names = []
        for each in file.dependencies:
            if each.name.startswith(_WELL_KNOWN):
                continue
            names.append(each.name)
            if each.name not in references:
                references[each.name] = registry.reference(
                    each.name, _text(each), "PROTOBUF", imports(each)
                )
        return [references[name] for name in names]

    id = registry.registered(subject, _text(message.file), "PROTOBUF", imports(message.file))
    return schema_prefix(id, _path_of(message))


def _text(file: Any) -> str:
    return base64.b64encode(file.serialized_pb).decode()


def _path_of(message: Any) -> list[int]:
    """Return the path of the message's type within its file."""
    around = message.containing_type
    if around is None:
        proto = protobuf_module("descriptor_pb2").FileDescriptorProto()
        message.file.CopyToProto(proto)
        return [[each.name for each in proto.message_type].index(message.name)]
    return [*_path_of(around), [each.name for each in around.nested_types].index(message.name)]
