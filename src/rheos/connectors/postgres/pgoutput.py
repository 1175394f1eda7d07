"""Decoding of messages of PostgreSQL's plug-in `pgoutput` (protocol version 1). Pure.

The decoder trusts nothing: a message that is too short or too long, contains a wrong length, or has an
unknown type is an error.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias


class MalformedMessageError(ValueError):
    """Raised for a message that violates the protocol."""


class UnchangedValue(Enum):
    """Placeholder for a large value that an update did not change: the message does not contain it."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = UnchangedValue.UNCHANGED
Value: TypeAlias = str | UnchangedValue | None
"""Value as a string, null, or not sent."""
Values: TypeAlias = list[Value]

_EPOCH_US = 946_684_800_000_000
"""Epoch of PostgreSQL, 2000-01-01, in microseconds since the Unix epoch."""
_MAX_COLUMNS = 1664
_MAX_RELATIONS = 1 << 20


@dataclass(frozen=True, slots=True)
class BeginMessage:
    commit_lsn: int
    commit_us: int
    """Commit time, in microseconds since the epoch."""
    xid: int


@dataclass(frozen=True, slots=True)
class CommitMessage:
    commit_lsn: int
    end_lsn: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    name: str
    type_id: int
    modifier: int
    """Parameters of the type, such as the digits of `numeric`; -1 for none."""
    in_key: bool


@dataclass(frozen=True, slots=True)
class RelationMessage:
    """Columns of a table, as they are in the changes that follow."""

    id: int
    schema: str
    name: str
    identity: str
    """REPLICA IDENTITY: d(efault), n(othing), f(ull) or i(ndex)."""
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class InsertMessage:
    relation: int
    new: Values


@dataclass(frozen=True, slots=True)
class UpdateMessage:
    relation: int
    old: Values | None
    """Previous key or row; None unless the key changed or REPLICA IDENTITY is FULL."""
    old_is_key: bool
    new: Values


@dataclass(frozen=True, slots=True)
class DeleteMessage:
    relation: int
    old: Values
    old_is_key: bool


@dataclass(frozen=True, slots=True)
class TruncateMessage:
    relations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IgnoredMessage:
    """Message that concerns no row: an origin, a type, a logical message."""

    kind: str


Message: TypeAlias = (
    BeginMessage
    | CommitMessage
    | RelationMessage
    | InsertMessage
    | UpdateMessage
    | DeleteMessage
    | TruncateMessage
    | IgnoredMessage
)


def decode(data: bytes) -> Message:
    """Decode a message. Raises MalformedMessageError."""
    reader = _Reader(data)
    kind = reader.letter()
    try:
        message = _decoded(kind, reader)
    except struct.error:
        raise MalformedMessageError(f"a message {kind!r} of {len(data)} bytes ends early") from None
    except UnicodeDecodeError:
        raise MalformedMessageError(f"a message {kind!r} contains invalid UTF-8") from None
    if not isinstance(message, IgnoredMessage) and reader.at != len(data):
        raise MalformedMessageError(f"a message {kind!r} has {len(data) - reader.at} extra bytes")
    return message


def _decoded(kind: str, reader: _Reader) -> Message:
    match kind:
        case "B":
            commit_lsn, commit_us, xid = reader.take(_BEGIN)
            return BeginMessage(commit_lsn, commit_us + _EPOCH_US, xid)
        case "C":
            _flags, commit_lsn, end_lsn, _commit_us = reader.take(_COMMIT)
            return CommitMessage(commit_lsn, end_lsn)
        case "R":
            return _relation(reader)
        case "I":
            [relation] = reader.take(_INT4)
            reader.expect("N")
            return InsertMessage(relation, reader.values())
        case "U":
            [relation] = reader.take(_INT4)
            old, old_is_key, part = None, False, reader.letter()
            if part in "KO":
                old, old_is_key = reader.values(), part == "K"
                part = reader.letter()
            if part != "N":
                raise MalformedMessageError(f"an update has the unknown part {part!r}")
            return UpdateMessage(relation, old, old_is_key, reader.values())
        case "D":
            [relation] = reader.take(_INT4)
            part = reader.letter()
            if part not in "KO":
                raise MalformedMessageError(f"a deletion has the unknown part {part!r}")
            return DeleteMessage(relation, reader.values(), part == "K")
        case "T":
            count, _options = reader.take(_TRUNCATE)
            if count > _MAX_RELATIONS:
                raise MalformedMessageError(f"a truncation of {count} tables at once")
            return TruncateMessage(tuple(reader.take(_INT4)[0] for _ in range(count)))
        case "O" | "Y" | "M":
            return IgnoredMessage(kind)
        case _:
            raise MalformedMessageError(f"unknown message kind {kind!r}")


_INT2 = struct.Struct(">H")
_INT4 = struct.Struct(">I")
_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")
_TRUNCATE = struct.Struct(">IB")
_COLUMN_TYPE = struct.Struct(">Ii")


def _relation(reader: _Reader) -> RelationMessage:
    [relation] = reader.take(_INT4)
    schema, name, identity = reader.text(), reader.text(), reader.letter()
    columns = []
    for _ in range(reader.count()):
        flags = ord(reader.letter())
        column = reader.text()
        type_id, modifier = reader.take(_COLUMN_TYPE)
        columns.append(RelationColumn(column, type_id, modifier, bool(flags & 1)))
    return RelationMessage(relation, schema or "pg_catalog", name, identity, tuple(columns))


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, of: struct.Struct) -> tuple[int, ...]:
        found = of.unpack_from(self._data, self.at)
        self.at += of.size
        return found

    def letter(self) -> str:
        if self.at >= len(self._data):
            raise MalformedMessageError("a message ends early")
        self.at += 1
        return chr(self._data[self.at - 1])

    def expect(self, letter: str) -> None:
        found = self.letter()
        if found != letter:
            raise MalformedMessageError(f"expected the part {letter!r}, found {found!r}")

    def text(self) -> str:
        end = self._data.find(b"\0", self.at)
        if end < 0:
            raise MalformedMessageError("a name without an end")
        found = self._data[self.at : end].decode()
        self.at = end + 1
        return found

    def count(self) -> int:
        [count] = self.take(_INT2)
        if count > _MAX_COLUMNS:
            raise MalformedMessageError(f"a row has {count} columns")
        return count

    def values(self) -> Values:
        found: Values = []
        data = self._data
        for _ in range(self.count()):
            kind = self.letter()
            if kind == "t":
                [length] = self.take(_INT4)
                end = self.at + length
                if end > len(data):
                    raise MalformedMessageError(f"a value of {length} bytes ends early")
                found.append(data[self.at : end].decode())
                self.at = end
            elif kind == "n":
                found.append(None)
            elif kind == "u":
                found.append(UNCHANGED)
            else:
                raise MalformedMessageError(f"unknown value kind {kind!r}")
        return found
