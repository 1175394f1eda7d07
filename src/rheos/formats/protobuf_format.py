"""Protobuf: a payload is one message of a user's type, bare or preceded by the id of its schema in a
registry.

Absent optional fields are null; other absent fields have Protobuf's default. Timestamps and durations
that are more precise than the column's unit are truncated.

    >>> import pyarrow as pa
    >>> from google.protobuf.wrappers_pb2 import Int64Value
    >>> from rheos import formats
    >>> protobuf = formats.protobuf(Int64Value)
    >>> decoded = protobuf.decoder(protobuf.own_schema()).decode(pa.array([b"\\x08\\x07", b"\\x08"]))
    >>> decoded.rows.to_pylist(), decoded.bad[0].error
    ([{'value': 7}], 'it is not a google.protobuf.Int64Value: Error parsing message')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from rheos.core.errors import InputError, ProgramError
from rheos.core.formats.contract import Decoded, Decoder, Encoder, Format, check_any_column
from rheos.core.protocol.columns import list_offsets
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call
from rheos.formats.bad_rows import RowsError
from rheos.formats.confluent import WITH_A_REGISTRY, check_has_subject, check_subject, registry_at
from rheos.formats.conforming import conform
from rheos.formats.protobuf_bounds import MessageBounds
from rheos.formats.protobuf_registry import WrittenTypes, registered_prefix
from rheos.formats.protobuf_schemas import (
    DURATION,
    TIMESTAMP,
    arrow_field,
    check_columns,
    descriptors_of,
    is_map,
    is_wrapper,
    message_class,
    scalar_type,
)
from rheos.formats.protobuf_schemas import FORMAT as FORMAT
from rheos.formats.records import decoded_records, records_of

_PER_S = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@located_at_call
def protobuf(
    message: Any,
    *,
    descriptors: bytes | None = None,
    registry: str | None = None,
    subject: str | None = None,
) -> ProtobufFormat:
    """Create the format for Protobuf: a payload is one message.

    ```python
    with open("shop.descriptors", "rb") as file:
        form = rh.formats.protobuf("shop.Order", descriptors=file.read())
    orders = rh.kafka.source("orders", brokers="localhost:9092", format=form)
    ```

    Args:
        message: The class that protoc has generated. With `descriptors`, the name of a message type
            with its package, such as "shop.Order".
        descriptors: The content of the file that `protoc --include_imports --descriptor_set_out=FILE`
            has written.
        registry: The URL of a schema registry, with a login if it needs one
            ("https://user:password@host"). Payloads then begin with the id of their schema and the
            position of their type in it, as Confluent's serializers write them. A payload of another
            type, or of one whose fields this type cannot read, is malformed.
        subject: The subject under which a writer registers the type's file, such as "orders-value". The
            files that it imports are registered under their own names.

    Returns:
        The format, for the `format=` of a connector.

    Raises:
        ProgramError: `message` is neither a message class nor the name of a type in `descriptors`.
    """
    check_subject(registry, subject)
    if descriptors is None:
        if not isinstance(message, type) or not hasattr(message, "DESCRIPTOR"):
            raise ProgramError(
                f"{message!r} is not a Protobuf message class",
                hint="pass the class that protoc has generated, or its name and descriptors=",
            )
        return ProtobufFormat(message.DESCRIPTOR.full_name, descriptors_of(message), registry, subject)
    if not isinstance(message, str):
        raise ProgramError(
            f"{message!r} is not the name of a message type", hint='pass a name such as "shop.Order"'
        )
    message_class(descriptors, message)
    return ProtobufFormat(message, descriptors, registry, subject)


@dataclass(frozen=True)
class ProtobufFormat(Format):
    """Format that `protobuf` creates."""

    message: str
    """Name of the message type, with its package."""
    descriptors: bytes = field(repr=False)
    registry: str | None = field(default=None, repr=False)
    """URL of the registry, which may contain a login."""
    subject: str | None = None

    name: ClassVar[str] = "protobuf"

    def own_schema(self) -> pa.Schema:
        return pa.schema([arrow_field(each) for each in self._type().DESCRIPTOR.fields])

    def check_decodes(self, schema: pa.Schema) -> None:
        check_any_column(schema, self.name)
        check_columns(self._type().DESCRIPTOR, list(schema), "", writes=False)

    def check_encodes(self, schema: pa.Schema) -> None:
        check_has_subject(self.registry, self.subject)
        check_columns(self._type().DESCRIPTOR, list(schema), "", writes=True)

    def decoder(self, schema: pa.Schema, header: bytes | None = None) -> Decoder:
        return _ProtobufDecoder(schema, self._type(), self.registry)

    def encoder(self, schema: pa.Schema) -> Encoder:
        return _ProtobufEncoder(self._type(), self)

    def describe(self) -> str:
        return f"protobuf {self.message}"

    def _type(self) -> Any:
        return message_class(self.descriptors, self.message)


# --- conversion of messages to columns
# ------------------------------------------------------------------


class _ProtobufDecoder(Decoder):
    def __init__(self, schema: pa.Schema, type_: Any, registry: str | None) -> None:
        super().__init__(schema)
        self._written: WrittenTypes | None = None
        if registry is not None:
            self._written = WrittenTypes(registry_at(registry), type_.DESCRIPTOR)
        self._parse = type_.FromString
        self._name = type_.DESCRIPTOR.full_name
        self._bounds = MessageBounds(type_.DESCRIPTOR)
        self._fields = [type_.DESCRIPTOR.fields_by_name[each.name] for each in schema]

    def _decode(self, payloads: pa.Array) -> Decoded:
        if self._written is not None:
            self._written.ask_again()
        return decoded_records(payloads, self.schema, self._message, self._columns)

    def _message(self, payload: bytes) -> tuple[Any, int]:
        message = payload if self._written is None else self._written.message_in(payload)
        values = self._bounds.values_in(message)
        try:
            return self._parse(message), values
        except Exception as error:  # the library raises DecodeError and others
            reason = str(error).partition(" with type")[0]
            # No field has the number 0, so a message without a prefix never begins like this.
            hint = f"; {WITH_A_REGISTRY}" if message is payload and payload[:1] == b"\0" else ""
            raise RowsError(f"it is not a {self._name}: {reason}{hint}") from None

    def _columns(self, messages: Sequence[Any]) -> Sequence[pa.Array]:
        try:
            return [
                conform(_column(messages, field, column.type), column.type)
                for field, column in zip(self._fields, self.schema, strict=True)
            ]
        except (pa.ArrowException, OverflowError) as error:
            raise RowsError(str(error)) from None


def _column(messages: Sequence[Any], field: Any, kind: pa.DataType) -> pa.Array:
    """Return a field of all messages as a column, whose type conforms to `kind`."""
    held = [getattr(message, field.name) for message in messages]
    if is_map(field):
        entry = field.message_type.fields_by_name
        keys = pa.array(list(chain.from_iterable(held)), scalar_type(entry["key"]))
        found = [each[key] for each in held for key in each]
        items = _values(found, entry["value"], kind.item_type, None)
        items = conform(items, kind.item_type)
        return pa.MapArray.from_arrays(list_offsets(held), keys, items, type=kind)
    if field.is_repeated:
        values = _values(list(chain.from_iterable(held)), field, kind.value_type, None)
        return pa.ListArray.from_arrays(list_offsets(held), values)
    absent = None
    if field.has_presence:
        absent = np.array([not message.HasField(field.name) for message in messages], np.bool_)
    return _values(held, field, kind, absent)


def _values(held: Sequence[Any], field: Any, kind: pa.DataType, absent: Any) -> pa.Array:
    """Return the values of the field; null where it is absent."""
    message = field.message_type
    if message is None:
        if field.enum_type is not None:
            names = {value.number: value.name for value in field.enum_type.values}
            held = [names.get(number, str(number)) for number in held]
        return pa.array(held, scalar_type(field), mask=absent)
    if message.full_name in (TIMESTAMP, DURATION):
        per_s = _PER_S[kind.unit]
        units = [each.seconds * per_s + each.nanos * per_s // 10**9 for each in held]
        return pa.array(units, pa.int64(), mask=absent).cast(kind)
    if is_wrapper(field):
        inner = message.fields_by_name["value"]
        return pa.array([each.value for each in held], scalar_type(inner), mask=absent)
    columns = [_column(held, message.fields_by_name[each.name], each.type) for each in kind]
    mask = None if absent is None else pa.array(absent)
    return pa.StructArray.from_arrays(columns, names=[each.name for each in kind], mask=mask)


# --- conversion of rows to messages
# ---------------------------------------------------------------------


class _ProtobufEncoder(Encoder):
    def __init__(self, type_: Any, format: ProtobufFormat) -> None:
        self._type = type_
        self._format = format
        self._prefix: bytes | None = None if format.registry is not None else b""
        """Prefix of payloads; None until the type is registered."""

    def encode(self, rows: Batch) -> pa.Array:
        if self._prefix is None:
            assert self._format.registry is not None
            assert self._format.subject is not None
            self._prefix = registered_prefix(
                registry_at(self._format.registry), self._format.subject, self._type.DESCRIPTOR
            )
        prefix = self._prefix
        return pa.array([prefix + self._payload(record) for record in records_of(rows)], pa.binary())

    def _payload(self, record: Mapping[str, Any]) -> bytes:
        message = self._type()
        try:
            _fill(message, record)
            data: bytes = message.SerializeToString(deterministic=True)
        except Exception as error:  # the library raises ValueError, TypeError and EncodeError
            raise InputError(
                f"a row cannot be encoded as {self._type.DESCRIPTOR.full_name}: {error}",
                record=str(record),
                hint="change the row or the message type",
            ) from error
        return data


def _fill(message: Any, record: Mapping[str, Any]) -> None:
    for name, value in record.items():
        if value is None:
            continue
        field = message.DESCRIPTOR.fields_by_name[name]
        into = getattr(message, name)
        if is_map(field):
            inner = field.message_type.fields_by_name["value"]
            for key, each in value.items():
                if inner.message_type is None:
                    into[key] = _scalar(inner, each)
                else:
                    _set(into[key], inner, each)
        elif field.is_repeated:
            for each in value:
                if field.message_type is None:
                    into.append(_scalar(field, each))
                else:
                    _set(into.add(), field, each)
        elif field.message_type is None:
            setattr(message, name, _scalar(field, value))
        else:
            into.SetInParent()
            _set(into, field, value)


def _set(message: Any, field: Any, value: Any) -> None:
    """Set the fields of a message from the value of a column."""
    if value is None:
        raise ValueError(f"an element of {field.name} is null")
    if field.message_type.full_name == TIMESTAMP:
        message.FromDatetime(value)
    elif field.message_type.full_name == DURATION:
        message.FromTimedelta(value)
    elif is_wrapper(field):
        message.value = value
    else:
        _fill(message, value)


def _scalar(field: Any, value: Any) -> Any:
    return value if field.enum_type is None else field.enum_type.values_by_name[value].number
