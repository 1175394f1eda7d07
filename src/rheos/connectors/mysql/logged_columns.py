"""Columns of a table as the binlog describes them, and how their values are read from a row. Pure.

The server describes a table before its rows (`binlog_row_metadata=FULL`): names, types, signs,
character sets, and the members of enums. So a row is read as the table was when the row was written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from rheos.connectors.mysql.column_families import ZERO_TIME, ColumnKind, column_kind

ReadValue: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Function that reads the value at an offset, and returns it with the offset after it."""

CODECS: Mapping[str, str] = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "ascii",
    "latin1": "cp1252",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "cp932": "cp932",
    "sjis": "shift_jis",
    "ujis": "euc_jp",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "big5": "big5",
    "euckr": "euc_kr",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}
"""Codecs of Python by the server's character sets."""

TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24 = 1, 2, 3, 4, 5, 8, 9
DATE, YEAR, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 10, 13, 15, 16, 17, 18, 19
JSON, NEWDECIMAL, ENUM, SET, BLOB, STRING, GEOMETRY = 245, 246, 247, 248, 252, 254, 255

META_BYTES: Mapping[int, int] = {
    VARCHAR: 2,
    NEWDECIMAL: 2,
    STRING: 2,
    BIT: 2,
    **dict.fromkeys((FLOAT, DOUBLE, BLOB, GEOMETRY, JSON, TIME2, DATETIME2, TIMESTAMP2), 1),
    **dict.fromkeys((TINY, SHORT, LONG, LONGLONG, INT24, DATE, YEAR), 0),
}
"""Number of bytes that describe a column of a type. Other types cannot be read."""
NUMERIC = frozenset((TINY, SHORT, INT24, LONG, LONGLONG, NEWDECIMAL, FLOAT, DOUBLE, YEAR))
"""Types for which the server logs whether they are unsigned."""
_WIDTHS: Mapping[int, int] = {TINY: 1, SHORT: 2, INT24: 3, LONG: 4, LONGLONG: 8}
_INTEGER_NAMES: Mapping[int, str] = {
    TINY: "tinyint",
    SHORT: "smallint",
    INT24: "mediumint",
    LONG: "int",
    LONGLONG: "bigint",
}
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Number of bytes of a group of up to nine decimal digits."""
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class ColumnDescription:
    """Description of a column in the log."""

    name: str
    type: int
    """Type, where STRING is resolved to ENUM or SET."""
    meta: bytes
    is_unsigned: bool
    charset: str
    """Character set of the server; "binary" for bytes."""
    members: tuple[bytes, ...]
    """Members of an enum or a set."""


@dataclass(frozen=True)
class LoggedColumn:
    """Column whose values can be read. Columns are equal if the source reads them as the same column,
    though the members of an enum may differ."""

    name: str
    kind: ColumnKind
    read: ReadValue = field(compare=False)


def real_type(type: int, meta: bytes) -> int:
    """Return the type, where a STRING is resolved to ENUM or SET."""
    return meta[0] if type == STRING and meta[0] in (ENUM, SET) else type


def logged_column(of: ColumnDescription) -> LoggedColumn:
    """Return the column that a description describes. Raises LookupError for an unknown character
    set."""
    data_type, read = _reading(of)
    precision, scale = 0, 0
    if of.type == NEWDECIMAL:
        precision, scale = of.meta[0], of.meta[1]
    elif of.type == BIT:
        precision = _bit_count(of.meta)
    kind = column_kind(data_type, is_unsigned=of.is_unsigned, precision=precision, scale=scale)
    return LoggedColumn(of.name, kind, read)


def _reading(of: ColumnDescription) -> tuple[str, ReadValue]:
    """Return the bare type, and the function that reads its values."""
    meta = of.meta
    match of.type:
        case 1 | 2 | 3 | 8 | 9:
            return _INTEGER_NAMES[of.type], _integer(_WIDTHS[of.type], signed=not of.is_unsigned)
        case 13:
            return "year", _year
        case 16:
            return "bit", _bits((_bit_count(meta) + 7) // 8)
        case 4:
            return "float", _real(struct.Struct("<f"))
        case 5:
            return "double", _real(struct.Struct("<d"))
        case 246:
            return "decimal", _decimal(meta[0], meta[1])
        case 10:
            return "date", _date
        case 18:
            return "datetime", _datetime(meta[0])
        case 17:
            return "timestamp", _timestamp(meta[0])
        case 19:
            return "time", _time(meta[0])
        case 247:
            return "enum", _enum(meta[1], _texts(of))
        case 248:
            return "set", _set(meta[1], _texts(of))
        case 245:
            return "json", _bytes(meta[0], None, 0)
        case 255:
            return "geometry", _bytes(meta[0], None, 0)
        case 252:
            return _string(of, meta[0], 0)
        case 15:
            return _string(of, 2 if int.from_bytes(meta, "little") > 255 else 1, 0)
        case 254:
            length = meta[1] | (((meta[0] & 0x30) ^ 0x30) << 4)
            return _string(of, 2 if length > 255 else 1, length)
        case _:
            raise AssertionError("only types of META_BYTES are described")


def _bit_count(meta: bytes) -> int:
    return meta[1] * 8 + meta[0]


def _string(of: ColumnDescription, prefix: int, length: int) -> tuple[str, ReadValue]:
    if of.charset == "binary":
        # The log leaves out zeros at the end of BINARY(n).
        return "binary", _bytes(prefix, None, length)
    return "char", _bytes(prefix, CODECS[of.charset], 0)


def _texts(of: ColumnDescription) -> Sequence[str]:
    codec = CODECS["utf8mb4" if of.charset == "binary" else of.charset]
    return [member.decode(codec) for member in of.members]


def _integer(width: int, *, signed: bool) -> ReadValue:
    def read(row: bytes, at: int) -> tuple[int, int]:
        return int.from_bytes(row[at : at + width], "little", signed=signed), at + width

    return read


def _bits(width: int) -> ReadValue:
    def read(row: bytes, at: int) -> tuple[int, int]:
        return int.from_bytes(row[at : at + width], "big"), at + width

    return read


def _year(row: bytes, at: int) -> tuple[int, int]:
    return row[at] and 1900 + row[at], at + 1


def _real(layout: struct.Struct) -> ReadValue:
    def read(row: bytes, at: int) -> tuple[float, int]:
        return layout.unpack_from(row, at)[0], at + layout.size

    return read


def _bytes(prefix: int, codec: str | None, padded: int) -> ReadValue:
    def read(row: bytes, at: int) -> tuple[Any, int]:
        begin = at + prefix
        end = begin + int.from_bytes(row[at:begin], "little")
        if end > len(row):
            raise IndexError
        value = row[begin:end]
        return (value.ljust(padded, b"\0") if codec is None else value.decode(codec)), end

    return read


def _enum(width: int, members: Sequence[str]) -> ReadValue:
    def read(row: bytes, at: int) -> tuple[str, int]:
        index = int.from_bytes(row[at : at + width], "little")
        # Index 0 is the value that the server stores for an invalid one, outside of strict mode.
        return members[index - 1] if index else "", at + width

    return read


def _set(width: int, members: Sequence[str]) -> ReadValue:
    def read(row: bytes, at: int) -> tuple[str, int]:
        bits = int.from_bytes(row[at : at + width], "little")
        return ",".join(each for place, each in enumerate(members) if bits >> place & 1), at + width

    return read


def _decimal(precision: int, scale: int) -> ReadValue:
    whole = precision - scale
    head, tail = whole % 9, scale % 9
    # Number of digits of each group, with its number of bytes.
    left = [head] * bool(head) + [9] * (whole // 9)
    right = [9] * (scale // 9) + [tail] * bool(tail)
    groups = [(digits, _DIGIT_BYTES[digits]) for digits in (*left, *right)]
    width = sum(size for _, size in groups)

    def read(row: bytes, at: int) -> tuple[str, int]:
        packed = bytearray(row[at : at + width])
        is_negative = not packed[0] & 0x80
        packed[0] ^= 0x80
        if is_negative:
            packed = bytearray(each ^ 0xFF for each in packed)
        digits, place = "", 0
        for count, size in groups:
            digits += f"{int.from_bytes(packed[place : place + size], 'big'):0{count}d}"
            place += size
        text = digits[:whole].lstrip("0") or "0"
        if scale:
            text += "." + digits[whole:]
        return ("-" if is_negative else "") + text, at + width

    return read


def _date(row: bytes, at: int) -> tuple[str, int]:
    packed = int.from_bytes(row[at : at + 3], "little")
    return f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}", at + 3


def _fraction(value: int, precision: int) -> str:
    """Return the fraction of a second, which is stored in pairs of digits."""
    if not precision:
        return ""
    return f".{value:0{(precision + 1) // 2 * 2}d}"[: precision + 1]


def _datetime(precision: int) -> ReadValue:
    more = (precision + 1) // 2

    def read(row: bytes, at: int) -> tuple[str, int]:
        packed = int.from_bytes(row[at : at + 5], "big") - 0x8000000000
        year, month = divmod(packed >> 22, 13)
        text = (
            f"{year:04d}-{month:02d}-{packed >> 17 & 31:02d} "
            f"{packed >> 12 & 31:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"
        )
        end = at + 5 + more
        return text + _fraction(int.from_bytes(row[at + 5 : end], "big"), precision), end

    return read


def _timestamp(precision: int) -> ReadValue:
    more = (precision + 1) // 2

    def read(row: bytes, at: int) -> tuple[str, int]:
        middle, end = at + 4, at + 4 + more
        seconds = int.from_bytes(row[at:middle], "big")
        fraction = int.from_bytes(row[middle:end], "big")
        whole = _EPOCH + timedelta(seconds=seconds) if seconds or fraction else ZERO_TIME
        return f"{whole}{_fraction(fraction, precision)}", end

    return read


def _time(precision: int) -> ReadValue:
    more = (precision + 1) // 2

    def read(row: bytes, at: int) -> tuple[str, int]:
        end = at + 3 + more
        packed = int.from_bytes(row[at:end], "big") - (0x800000 << 8 * more)
        whole, fraction = abs(packed) >> 8 * more, abs(packed) & (1 << 8 * more) - 1
        text = f"{whole >> 12 & 1023:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}"
        return ("-" if packed < 0 else "") + text + _fraction(fraction, precision), end

    return read
