"""Bounds for the number of values that a Protobuf message expands to.

Each value uses at least one byte of the message. But an empty element of a repeated field uses two
bytes, and becomes a value in each column of its type. So a long message is scanned before it is parsed,
and is bad if it contains more than `MAX_VALUES` (`contract`). The scan builds no values, and stops at
the bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rheos.core.formats.contract import MAX_VALUES
from rheos.formats.bad_rows import RowsError

_MAX_DEPTH = 100
"""Maximum levels of nested messages, as in the library."""
_MAX_VARINT_BYTES = 10
_MESSAGE, _TEXTS = 11, (9, 12)
"""Values of FieldDescriptor.type: message; string and bytes."""
_PACKED_BYTES = {1: 8, 6: 8, 16: 8, 2: 4, 7: 4, 15: 4}
"""Bytes of one value of the types of fixed size, by FieldDescriptor.type."""


class MessageBounds:
    """Limit for the values in messages of one type."""

    def __init__(self, type_: Any) -> None:
        """Create a limit. `type_` is the descriptor of the message type."""
        self._type = type_
        self._weights: dict[str, int] = {}
        self._unwalked_bytes = 2 * MAX_VALUES // max(self._heaviest(type_, set()), 2)
        """Length up to which a message cannot exceed the limit."""

    def values_in(self, message: bytes) -> int:
        """Return a bound of the number of values. Raises RowsError if it exceeds the maximum."""
        if len(message) <= self._unwalked_bytes:
            return len(message)
        try:
            return MAX_VALUES - self._walk(message, 0, len(message), self._type, MAX_VALUES, 0)[0]
        except IndexError:
            raise RowsError(f"it is not a {self._type.full_name}: it ends too early") from None

    def _heaviest(self, type_: Any, seen: set[str]) -> int:
        """Return the maximum number of values per element of a repeated field, at any depth."""
        if type_.full_name in seen:
            return 1
        seen.add(type_.full_name)
        found = 1
        for field in type_.fields:
            if field.message_type is not None:
                found = max(found, self._heaviest(field.message_type, seen))
                if field.is_repeated:
                    found = max(found, self._weight(field.message_type, ()))
        return found

    def _weight(self, type_: Any, around: tuple[str, ...]) -> int:
        """Return the number of values that a message without any field becomes."""
        name = type_.full_name
        if name in around:
            return 1
        if name not in self._weights:
            inner = [
                self._weight(field.message_type, (*around, name))
                for field in type_.fields
                if field.message_type is not None and not field.is_repeated
            ]
            self._weights[name] = 1 + len(type_.fields) + sum(inner)
        return self._weights[name]

    def _walk(
        self, data: bytes, at: int, end: int, type_: Any, left: int, depth: int
    ) -> tuple[int, int]:
        """Return the number of values that are left, and the end of the message or group."""
        if depth > _MAX_DEPTH:
            raise RowsError(f"it is nested deeper than {_MAX_DEPTH}")
        while at < end:
            key, at = _varint(data, at)
            number, wire = key >> 3, key & 7
            field: Any = None if type_ is None else type_.fields_by_number.get(number)
            inner: Any = None if field is None else field.message_type
            count = 1
            match wire:
                case 0:  # a varint
                    _, at = _varint(data, at)
                case 1:  # eight bytes
                    at += 8
                case 5:  # four bytes
                    at += 4
                case 2:  # a length, and that number of bytes
                    size, at = _varint(data, at)
                    stop = at + size
                    if stop > end:
                        raise IndexError
                    if inner is not None and field.type == _MESSAGE:
                        left -= self._weight(inner, ()) if field.is_repeated else 1
                        left, at = self._walk(data, at, stop, inner, left, depth + 1)
                        count = 0
                    elif field is not None and field.is_repeated and field.type not in _TEXTS:
                        count = _packed(data, at, stop, field.type)
                    at = stop
                case 3:  # the start of a group
                    left -= 1 if inner is None else self._weight(inner, ())
                    left, at = self._walk(data, at, end, inner, left, depth + 1)
                    count = 0
                case 4:  # the end of the group
                    return left, at
                case _:
                    raise RowsError(
                        f"it is not a {self._type.full_name}: a field has an unknown wire type"
                    )
            left -= count
            if left < 0:
                raise RowsError(
                    f"it expands to more than {MAX_VALUES} values: split it into several messages"
                )
        if at != end:
            raise IndexError
        return left, at


def _packed(data: bytes, at: int, stop: int, kind: int) -> int:
    size = _PACKED_BYTES.get(kind)
    if size is not None:
        return (stop - at) // size
    return int(np.count_nonzero(np.frombuffer(data, np.uint8, stop - at, at) < 128))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = 0
    for place in range(_MAX_VARINT_BYTES):
        byte = data[at + place]
        found |= (byte & 127) << 7 * place
        if byte < 128:
            return found, at + place + 1
    raise IndexError
