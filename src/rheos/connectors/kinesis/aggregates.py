"""Records that the Kinesis Producer Library has packed into one (aggregation).

    4 bytes that mark it | a Protobuf message | the MD5 of the message

The message has a table of partition keys, a table of hash keys, and records that refer to them. A
record without this form is a single one. Records whose hash is not in the shard's range are left out:
the shard was split while they were sent, and the library has sent them again to the right one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

_MARK = b"\xf3\x89\x9a\xc2"
_MD5_BYTES = 16
_MOST_BYTES = 10
"""Maximum length of a number of 64 bits."""
_NUMBER, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
"""Wire types of Protobuf."""
_PARTITION_KEYS, _HASH_KEYS, _RECORDS = 1, 2, 3
"""Fields of the message."""
_PARTITION_KEY, _HASH_KEY, _DATA = 1, 2, 3
"""Fields of a record: indexes in the tables, and the payload."""


class BadAggregateError(ValueError):
    """Raised for a message whose MD5 is right, but that is not an aggregate."""


@dataclass(frozen=True, slots=True)
class HashRange:
    """Range of hashes of partition keys that belong to a shard."""

    first: int
    last: int

    def has(self, partition_key: str, hash_key: str | None) -> bool:
        """Return whether a record belongs to the shard."""
        if hash_key is None:
            found = int.from_bytes(hashlib.md5(partition_key.encode(), usedforsecurity=False).digest())
        else:
            found = int(hash_key)
        return self.first <= found <= self.last


@dataclass(frozen=True, slots=True)
class PackedRecord:
    """One of the records of an aggregate."""

    partition_key: str
    payload: bytes


def is_aggregate(payload: bytes) -> bool:
    """Return whether a payload is an aggregate."""
    if not payload.startswith(_MARK) or len(payload) < len(_MARK) + _MD5_BYTES:
        return False
    message = payload[len(_MARK) : -_MD5_BYTES]
    return hashlib.md5(message, usedforsecurity=False).digest() == payload[-_MD5_BYTES:]


def packed_records(payload: bytes, own: HashRange) -> list[PackedRecord]:
    """Return the records of an aggregate.

    Args:
        payload: The aggregate.
        own: The hashes of the shard. Records with others are left out.

    Returns:
        The records, in their order.

    Raises:
        BadAggregateError: The message cannot be read.
    """
    tables: dict[int, list[str]] = {_PARTITION_KEYS: [], _HASH_KEYS: []}
    records: list[bytes] = []
    try:
        for field, value in _fields(payload[len(_MARK) : -_MD5_BYTES]):
            if field == _RECORDS and isinstance(value, bytes):
                records.append(value)
            elif field in tables and isinstance(value, bytes):
                tables[field].append(value.decode())
        return [found for each in records if (found := _record(each, tables, own)) is not None]
    except (IndexError, KeyError, ValueError) as error:
        raise BadAggregateError(f"an aggregated record cannot be read: {error}") from None


def _record(message: bytes, tables: dict[int, list[str]], own: HashRange) -> PackedRecord | None:
    found = dict(_fields(message))
    data = found[_DATA]
    if not isinstance(data, bytes):
        raise ValueError("its payload is a number")
    key = _entry(tables[_PARTITION_KEYS], found[_PARTITION_KEY])
    hash_key = _entry(tables[_HASH_KEYS], found[_HASH_KEY]) if _HASH_KEY in found else None
    return PackedRecord(key, data) if own.has(key, hash_key) else None


def _entry(table: list[str], index: int | bytes) -> str:
    if not isinstance(index, int):
        raise ValueError("an index is no number")
    return table[index]


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a Protobuf message: their numbers, and their values as they are encoded."""
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        field, wire = key >> 3, key & 7
        if wire == _NUMBER:
            number, at = _number(message, at)
            yield field, number
            continue
        if wire == _BYTES:
            size, at = _number(message, at)
        elif wire in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if wire == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"a field has the wire type {wire}")
        end = at + size
        if end > len(message):
            raise ValueError("a field is longer than the message")
        yield field, message[at:end]
        at = end


def _number(message: bytes, at: int) -> tuple[int, int]:
    found = 0
    for place, byte in enumerate(message[at : at + _MOST_BYTES]):
        found |= (byte & 127) << 7 * place
        if byte < 128:
            return found, at + place + 1
    raise ValueError("a number has no end")
