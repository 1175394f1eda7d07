"""Events of the binlog, decoded from the packets that a MariaDB sends to a replica. Pure.

A transaction is a `Begin`, for each table a `TableDescription` followed by its `RowChanges`, and a
`LoggedCommit`. Events that carry nothing of this are an `IgnoredEvent`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rheos.connectors.mysql.logged_columns import (
    BLOB,
    CODECS,
    ENUM,
    GEOMETRY,
    META_BYTES,
    NUMERIC,
    SET,
    STRING,
    VARCHAR,
    ColumnDescription,
    LoggedColumn,
    logged_column,
    real_type,
)

Change: TypeAlias = Literal["insert", "update", "delete"]
Values: TypeAlias = list[Any]

_HEADER = struct.Struct("<IB4xIIxx")
_FORMAT, _QUERY_COMPRESSED = 15, 165
_ROWS: Mapping[int, tuple[Change, bool]] = {
    23: ("insert", False),
    24: ("update", False),
    25: ("delete", False),
    166: ("insert", True),
    167: ("update", True),
    168: ("delete", True),
}
"""Events with rows: what they do, and whether the rows are compressed."""
_STANDALONE, _PREPARED = 1, 64
_CHECKSUM_BYTES = 4
_MAX_EVENT_BYTES = 1 << 30
_MAX_COLUMNS = 4096
_CHARACTERS = frozenset((VARCHAR, BLOB, STRING, GEOMETRY))
"""Types for which the server logs a character set."""
_SIGNS, _DEFAULT_CHARSET, _CHARSETS, _NAMES, _SET_MEMBERS, _ENUM_MEMBERS = 1, 2, 3, 4, 5, 6
_MEMBER_DEFAULT_CHARSET, _MEMBER_CHARSETS = 10, 11


class MalformedEventError(Exception):
    """Error for an event that cannot be decoded."""


class UnnamedColumnsError(Exception):
    """Error for a table description without names: `binlog_row_metadata` was not FULL."""


@dataclass(frozen=True)
class Rotation:
    """The next events are in another file."""

    file: str
    offset: int


@dataclass(frozen=True)
class Begin:
    """Begin of a transaction, or of a statement that is its own transaction."""

    gtid: str
    is_standalone: bool
    is_prepared: bool
    """Whether it is the first phase of an XA transaction, which may still be rolled back."""


@dataclass(frozen=True)
class Statement:
    """A statement in the log, instead of the rows that it changed."""

    database: str
    sql: str


@dataclass(frozen=True)
class TableDescription:
    """Description of the table of the next rows."""

    id: int
    database: str
    table: str
    columns: tuple[LoggedColumn, ...] | None
    """None for tables that are not read."""


@dataclass(frozen=True)
class RowChanges:
    """Changes of one table. The rows are not decoded yet."""

    change: Change
    table_id: int
    is_compressed: bool
    payload: bytes


@dataclass(frozen=True)
class LoggedCommit:
    """End of a transaction."""


@dataclass(frozen=True)
class LogHeartbeat:
    """Sign of life of an idle server."""


@dataclass(frozen=True)
class IgnoredEvent:
    """Event without effect on rows."""


Event: TypeAlias = (
    Rotation
    | Begin
    | Statement
    | TableDescription
    | RowChanges
    | LoggedCommit
    | LogHeartbeat
    | IgnoredEvent
)


@dataclass(frozen=True)
class LoggedEvent:
    """An event with its place."""

    event: Event
    time_s: int
    end_offset: int
    """Offset in the file after the event; 0 if the event is not in the file."""


class EventDecoder:
    """Decoder of the events of one stream.

    Args:
        has_checksums: whether the server sends events with checksums; known from each file's first
            event later on.
        database: database of the table to read. table: its name.
        charsets: character sets by the ids of collations.
    """

    def __init__(
        self, *, has_checksums: bool, database: str, table: str, charsets: Mapping[int, str]
    ) -> None:
        self._has_checksums = has_checksums
        self._named = database, table
        self._charsets = charsets

    def decode(self, packet: bytes) -> LoggedEvent:
        """Decode an event. Raises MalformedEventError and UnnamedColumnsError."""
        if len(packet) < _HEADER.size:
            raise MalformedEventError(f"an event of {len(packet)} bytes")
        time_s, kind, size, end_offset = _HEADER.unpack_from(packet)
        if size != len(packet):
            raise MalformedEventError(f"an event of {len(packet)} bytes announces {size}")
        if kind == _FORMAT:
            self._has_checksums = packet[-_CHECKSUM_BYTES - 1] == 1
        end = len(packet)
        if self._has_checksums:
            end -= _CHECKSUM_BYTES
            if zlib.crc32(packet[:end]) != int.from_bytes(packet[end:], "little"):
                raise MalformedEventError(f"an event of type {kind} has a wrong checksum")
        try:
            event = self._event(kind, packet[_HEADER.size : end])
        except (struct.error, zlib.error, LookupError, ValueError) as error:
            raise MalformedEventError(f"an event of type {kind}: {error}") from None
        return LoggedEvent(event, time_s, end_offset)

    def _event(self, kind: int, body: bytes) -> Event:
        if kind in _ROWS:
            change, is_compressed = _ROWS[kind]
            return RowChanges(change, int.from_bytes(body[:6], "little"), is_compressed, body[8:])
        match kind:
            case 19:  # a table map
                return self._table(body)
            case 16:  # the transaction's id
                return LoggedCommit()
            case 162:  # a GTID
                sequence, domain, flags = struct.unpack_from("<QIB", body)
                return Begin(f"{domain}-{sequence}", bool(flags & _STANDALONE), bool(flags & _PREPARED))
            case 2 | 165:  # a query, and a compressed one
                _, _, length, _, status = struct.unpack_from("<IIBHH", body)
                begin = 13 + status
                sql = body[begin + length + 1 :]
                text = _inflated(sql) if kind == _QUERY_COMPRESSED else sql
                return Statement(
                    body[begin : begin + length].decode("utf-8", "replace"),
                    text.decode("utf-8", "replace"),
                )
            case 4:  # a rotation
                return Rotation(body[8:].decode("ascii"), int.from_bytes(body[:8], "little"))
            case 27:  # a heartbeat
                return LogHeartbeat()
            case 38:  # XA PREPARE
                return LoggedCommit()
            case 26:  # an incident
                raise MalformedEventError("the server has lost a part of its log")
            case _:
                return IgnoredEvent()

    def _table(self, body: bytes) -> TableDescription:
        id, at = int.from_bytes(body[:6], "little"), 8
        database = body[at + 1 : at + 1 + body[at]].decode()
        at += body[at] + 2
        table = body[at + 1 : at + 1 + body[at]].decode()
        at += body[at] + 2
        if (database, table) != self._named:
            return TableDescription(id, database, table, None)
        count, at = _length(body, at)
        if count > _MAX_COLUMNS:
            raise MalformedEventError(f"a table of {count} columns")
        types = body[at : at + count]
        size, at = _length(body, at + count)
        metas = list(_metas(types, body[at : at + size]))
        at += size + (count + 7) // 8
        columns = tuple(map(logged_column, self._described(types, metas, _fields(body, at))))
        return TableDescription(id, database, table, columns)

    def _described(
        self, types: bytes, metas: Sequence[bytes], fields: Mapping[int, bytes]
    ) -> Iterator[ColumnDescription]:
        if _NAMES not in fields:
            raise UnnamedColumnsError
        real = [real_type(type, meta) for type, meta in zip(types, metas, strict=True)]
        names = [name.decode() for name in _strings(fields[_NAMES])]
        if len(names) != len(types):
            raise MalformedEventError(f"{len(names)} names for {len(types)} columns")
        characters = [place for place, type in enumerate(real) if type in _CHARACTERS]
        with_members = [place for place, type in enumerate(real) if type in (ENUM, SET)]
        charsets = {
            **self._sets(characters, fields, _DEFAULT_CHARSET, _CHARSETS),
            **self._sets(with_members, fields, _MEMBER_DEFAULT_CHARSET, _MEMBER_CHARSETS),
        }
        members = {
            ENUM: _groups(fields.get(_ENUM_MEMBERS, b"")),
            SET: _groups(fields.get(_SET_MEMBERS, b"")),
        }
        signs, number = fields.get(_SIGNS, b""), 0
        for place, type in enumerate(real):
            is_unsigned = False
            if type in NUMERIC:
                is_unsigned = bool(signs[number // 8] << number % 8 & 0x80)
                number += 1
            yield ColumnDescription(
                names[place],
                type,
                metas[place],
                is_unsigned,
                charsets.get(place, "utf8mb4" if type in (ENUM, SET) else "binary"),
                next(members[type]) if type in members else (),
            )

    def _sets(
        self, places: Sequence[int], fields: Mapping[int, bytes], default: int, each: int
    ) -> Mapping[int, str]:
        """Return the character sets of the columns at these places."""
        if each in fields:
            ids = list(_numbers(fields[each]))
            return {place: self._charset(id) for place, id in zip(places, ids, strict=True)}
        if default not in fields:
            return {}
        first, *others = _numbers(fields[default])
        differing = dict(zip(others[::2], others[1::2], strict=True))
        return {
            place: self._charset(differing.get(number, first)) for number, place in enumerate(places)
        }

    def _charset(self, id: int) -> str:
        name = self._charsets.get(id, "")
        if name != "binary" and name not in CODECS:
            raise MalformedEventError(f"the character set {name or id} is not known")
        return name


def decoded_rows(
    changes: RowChanges, columns: Sequence[LoggedColumn]
) -> Iterator[tuple[Values | None, Values | None]]:
    """Yield each row before and after its change; None for a row that does not exist then.

    Raises MalformedEventError, also if the server has left out columns.
    """
    try:
        yield from _rows(changes, columns)
    except (struct.error, zlib.error, LookupError, ValueError) as error:
        raise MalformedEventError(f"a row: {error}") from None


def _rows(
    changes: RowChanges, columns: Sequence[LoggedColumn]
) -> Iterator[tuple[Values | None, Values | None]]:
    payload = changes.payload
    count, at = _length(payload, 0)
    if count != len(columns):
        raise MalformedEventError(f"a row has {count} columns, but the table has {len(columns)}")
    width = (count + 7) // 8
    for _ in range(2 if changes.change == "update" else 1):
        if int.from_bytes(payload[at : at + width], "little") & (1 << count) - 1 != (1 << count) - 1:
            raise MalformedEventError(
                "a row lacks columns: binlog_row_image was not FULL when it was written"
            )
        at += width
    rows = _inflated(payload[at:]) if changes.is_compressed else payload[at:]
    readers, at = [column.read for column in columns], 0
    while at < len(rows):
        first, at = _row(rows, at, readers, width)
        match changes.change:
            case "insert":
                yield None, first
            case "delete":
                yield first, None
            case "update":
                second, at = _row(rows, at, readers, width)
                yield first, second


def _row(rows: bytes, at: int, readers: Sequence[Any], width: int) -> tuple[Values, int]:
    nulls = int.from_bytes(rows[at : at + width], "little")
    at += width
    values: Values = []
    for place, read in enumerate(readers):
        if nulls >> place & 1:
            values.append(None)
        else:
            value, at = read(rows, at)
            values.append(value)
    if at > len(rows):
        raise IndexError("it ends within a value")
    return values, at


def _inflated(data: bytes) -> bytes:
    """Return the contents of a compressed part of an event."""
    width = data[0] & 7
    size = int.from_bytes(data[1 : 1 + width], "big")
    if not data[0] & 0x80 or data[0] >> 4 & 7 or size > _MAX_EVENT_BYTES:
        raise MalformedEventError("an unknown compression")
    content = zlib.decompressobj().decompress(data[1 + width :], size + 1)
    if len(content) != size:
        raise MalformedEventError("a compressed part has another size than it announces")
    return content


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Return the length-encoded number at an offset, and the offset after it."""
    first = data[at]
    if first < 251:
        return first, at + 1
    if first == 251 or first == 255:
        raise MalformedEventError("an invalid length")
    width = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width


def _metas(types: bytes, data: bytes) -> Iterator[bytes]:
    at = 0
    for type in types:
        if type not in META_BYTES:
            raise MalformedEventError(f"a column of the type {type}, which Rheos cannot read")
        width = META_BYTES[type]
        yield data[at : at + width]
        at += width
    if at != len(data):
        raise MalformedEventError("the types and their parameters differ in number")


def _fields(body: bytes, at: int) -> Mapping[int, bytes]:
    """Return the optional fields of a table description by their kinds."""
    found: dict[int, bytes] = {}
    while at < len(body):
        size, begin = _length(body, at + 1)
        found[body[at]] = body[begin : begin + size]
        at = begin + size
    if at != len(body):
        raise MalformedEventError("a field of a table ends outside of its event")
    return found


def _numbers(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        number, at = _length(data, at)
        yield number


def _strings(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size, at = _length(data, at)
        yield data[at : at + size]
        at += size


def _groups(data: bytes) -> Iterator[tuple[bytes, ...]]:
    at = 0
    while at < len(data):
        count, at = _length(data, at)
        members: list[bytes] = []
        for _ in range(count):
            size, at = _length(data, at)
            members.append(data[at : at + size])
            at += size
        yield tuple(members)
