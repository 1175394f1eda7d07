"""The stored form of entries that expire: their stamp, followed by the entry.

    a value, an entry of a map    stamp (8 bytes) · value
    a segment of a list           count (4 bytes) · a stamp for each element · the list

All numbers are big-endian. So a search for old entries decodes no value. In memory an entry is a pair
(stamp, value).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from rheos.core.errors import UnrestorableError
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.state.codec import ValueCodec
from rheos.core.state.keys import Key

_STAMP = struct.Struct(">q")
_COUNT = struct.Struct(">I")


def stamped(stamp_ms: int, value: bytes) -> bytes:
    return _STAMP.pack(stamp_ms) + value


def stamp_of(data: bytes) -> int:
    return int.from_bytes(data[:8], "big", signed=True)


def value_of(data: bytes) -> bytes:
    return data[8:]


def stamped_list(stamps_ms: Sequence[int], elements: bytes) -> bytes:
    return _COUNT.pack(len(stamps_ms)) + struct.pack(f">{len(stamps_ms)}q", *stamps_ms) + elements


def stamps_of(data: bytes) -> tuple[int, ...]:
    """Return the stamps of a segment. Raise struct.error if it is truncated."""
    return struct.unpack_from(f">{_COUNT.unpack_from(data)[0]}q", data, _COUNT.size)


def latest_stamp_of(data: bytes) -> int:
    """Return the latest stamp of a segment. When it expires, the whole segment has expired."""
    return max(stamps_of(data), default=MIN_TIMESTAMP_MS)


def elements_of(data: bytes) -> bytes:
    return data[_COUNT.size + 8 * int.from_bytes(data[: _COUNT.size], "big") :]


class StampedCodec(ValueCodec):
    """Codec of pairs (stamp, value). Its types are those of the values."""

    def encode(self, values: Sequence[tuple[int, Any]], keys: Sequence[Key]) -> list[bytes]:
        encoded = super().encode([value for _, value in values], keys)
        return [stamped(stamp, data) for (stamp, _), data in zip(values, encoded, strict=True)]

    def decode_all(self, data: Sequence[bytes]) -> list[Any]:
        values = super().decode_all([*map(value_of, data)])
        return list(zip(map(stamp_of, data), values, strict=True))

    def decode(self, data: bytes) -> tuple[int, Any]:
        return stamp_of(data), super().decode(value_of(data))


class StampedListCodec(ValueCodec):
    """Codec of lists of pairs (stamp, element)."""

    def encode(self, values: Sequence[list[tuple[int, Any]]], keys: Sequence[Key]) -> list[bytes]:
        encoded = super().encode([[element for _, element in pairs] for pairs in values], keys)
        return [
            stamped_list([stamp for stamp, _ in pairs], data)
            for pairs, data in zip(values, encoded, strict=True)
        ]

    def decode_all(self, data: Sequence[bytes]) -> list[Any]:
        return [*map(self.decode, data)]

    def decode(self, data: bytes) -> list[tuple[int, Any]]:
        # A truncated segment raises here, before its elements are decoded.
        elements = super().decode(elements_of(data))
        stamps = stamps_of(data)
        if len(stamps) != len(elements):
            raise UnrestorableError(
                f"a stored list of state {self._name!r} has {len(elements)} elements, but "
                f"{len(stamps)} update times"
            )
        return list(zip(stamps, elements, strict=True))


def value_codec(name: str, declared: Any, *, expires: bool) -> ValueCodec:
    """Return the codec of single values, or of pairs. Raise SchemaError for an invalid type."""
    return (StampedCodec if expires else ValueCodec)(name, declared)


def list_codec(name: str, declared: Any, *, expires: bool) -> ValueCodec:
    """Return the codec of lists of values of a declared type, or of pairs."""
    return (StampedListCodec if expires else ValueCodec)(name, list[declared])
