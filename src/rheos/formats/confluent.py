"""Prefix that Confluent's serializers write before a payload: a zero byte and the id of its schema in a
registry. For Protobuf, whose schema is a file of message types, the path of the type follows.

    0 | id, 4 bytes | Avro: the record
                    | Protobuf: the number of indexes, and these, as zigzag varints | the message

The indexes are a path from the file's message types to a nested one: `[1, 0]` is the first type within
the second. The first type of a file, which is most common, is written as a single 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rheos.core.errors import ProgramError
from rheos.formats.bad_rows import RowsError

if TYPE_CHECKING:
    from rheos.formats.schema_registry import SchemaRegistry

_ID = struct.Struct(">bI")
_FIRST = (0,)
_MOST_INDEXES = 16
"""Maximum levels of nested message types."""
_MOST_BYTES = 2
"""Maximum bytes of an index: a file has up to 8,192 types."""

WITH_A_REGISTRY = (
    "it begins with a zero byte, like payloads written with a schema registry: pass registry="
)


def registry_at(url: str) -> SchemaRegistry:
    """Return a client of the registry. Raises ProgramError if the URL is invalid."""
    from rheos.formats.schema_registry import SchemaRegistry  # slow to import, and seldom needed

    return SchemaRegistry(url)


def check_subject(registry: str | None, subject: str | None) -> None:
    """Raise ProgramError for a subject without a registry, or an invalid URL of a registry."""
    if registry is not None:
        registry_at(registry)
    elif subject is not None:
        raise ProgramError("subject= needs a schema registry", hint="pass its URL: registry=")


def check_has_subject(registry: str | None, subject: str | None) -> None:
    """Raise ProgramError if rows are to be written with a registry, but without a subject."""
    if registry is not None and subject is None:
        raise ProgramError(
            "writing with a schema registry needs a subject",
            hint='pass subject="orders-value", which is the name of the topic and "-value"',
        )


class Prefix(NamedTuple):
    """Prefix of a payload."""

    id: int
    path: tuple[int, ...]
    """Path of the message type; empty for Avro."""
    end: int
    """Index at which the record or message begins."""


def schema_prefix(id: int, path: Sequence[int] = ()) -> bytes:
    """Return the prefix of a record."""
    numbers = [0] if tuple(path) == _FIRST else [len(path), *path]
    return _ID.pack(0, id) + (b"".join(map(_varint, numbers)) if path else b"")


def id_before(payload: bytes) -> Prefix:
    """Parse the prefix of an Avro payload. Raises RowsError if it is invalid."""
    if len(payload) < _ID.size or payload[0]:
        raise RowsError("it does not begin with a zero byte and a schema id")
    return Prefix(_ID.unpack_from(payload)[1], (), _ID.size)


def message_before(payload: bytes) -> Prefix:
    """Parse the prefix of a Protobuf payload, with its type's path. Raises RowsError if invalid."""
    id, _, at = id_before(payload)
    count, at = _number(payload, at)
    if count == 0:
        return Prefix(id, _FIRST, at)
    if not 0 < count <= _MOST_INDEXES:
        raise RowsError(f"its message type is nested {count} levels deep; the limit is {_MOST_INDEXES}")
    path = []
    for _ in range(count):
        index, at = _number(payload, at)
        path.append(index)
    return Prefix(id, tuple(path), at)


def _varint(number: int) -> bytes:
    """Encode a number as a zigzag varint: zigzag doubles numbers that are not negative."""
    out, rest = bytearray(), number << 1
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*out, rest])


def _number(payload: bytes, at: int) -> tuple[int, int]:
    found = 0
    for place, byte in enumerate(payload[at : at + _MOST_BYTES]):
        found |= (byte & 127) << 7 * place
        if byte < 128:
            return (found >> 1) ^ -(found & 1), at + place + 1
    raise RowsError("the indexes of its message type cannot be read")
