"""Columns of Python values as bytes, and back.

    integers of 64 bits, floats, booleans    their bits
    strings                                  lengths, then UTF-8
    larger integers, decimals, dates, ...    a string for each value
    anything else                            pickled

A packed column names its own encoding, so no schema is needed. Nulls are stored as a mask.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import msgspec


class _Column(msgspec.Struct, array_like=True):
    kind: str
    """Name of the encoding."""
    rows: int
    nulls: bytes | None
    """Mask of the rows without a value. None if every row has one."""
    data: Any
    """The values that are not null."""


def pack_columns(columns: Sequence[Sequence[Any]]) -> bytes:
    """Return columns, which may differ in length, as bytes."""
    return _ENCODER.encode([_packed(column) for column in columns])


def unpack_columns(data: bytes) -> list[list[Any]]:
    """Return the columns that `pack_columns` was passed."""
    return [_unpacked(column) for column in _DECODER.decode(data)]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[_Column])
_HALF = 1 << 63


def _packed(column: Sequence[Any]) -> _Column:
    nulls, values = None, column
    if any(value is None for value in column):
        nulls = bytes(value is None for value in column)
        values = [value for value in column if value is not None]
    kind = _kind(values)
    return _Column(kind, len(column), nulls, _FORMS[kind][0](values))


def _unpacked(column: _Column) -> list[Any]:
    values: list[Any] = _FORMS[column.kind][1](column.data)
    if column.nulls is None:
        return values
    left = iter(values)
    return [None if null else next(left) for null in column.nulls]


def _kind(values: Sequence[Any]) -> str:
    classes = {*map(type, values)}
    if len(classes) != 1:
        return "any" if classes else "int"
    [cls] = classes
    if cls is int:
        return "int" if min(values) >= -_HALF and max(values) < _HALF else "large int"
    if cls is datetime and any(value.tzinfo not in (None, UTC) for value in values):
        return "any"
    return _KINDS.get(cls, "any")


_KINDS: dict[type[Any], str] = {
    float: "float",
    bool: "bool",
    str: "str",
    Decimal: "decimal",
    datetime: "datetime",
    date: "date",
    time: "time",
}


def _numbers(code: str) -> tuple[Callable[[Sequence[Any]], Any], Callable[[Any], list[Any]]]:
    return lambda values: array(code, values).tobytes(), lambda data: array(code, data).tolist()


def _strings(values: Sequence[str]) -> tuple[bytes, bytes]:
    encoded = [value.encode("utf-8", "surrogatepass") for value in values]
    return array("q", map(len, encoded)).tobytes(), b"".join(encoded)


def _from_strings(data: tuple[bytes, bytes]) -> list[str]:
    lengths, joined = data
    found, at = [], 0
    for length in array("q", lengths):
        found.append(joined[at : at + length].decode("utf-8", "surrogatepass"))
        at += length
    return found


def _map_values(
    to: Callable[[Any], str], back: Callable[[str], Any]
) -> tuple[Callable[[Sequence[Any]], Any], Callable[[Any], list[Any]]]:
    return lambda values: [to(value) for value in values], lambda data: [back(text) for text in data]


_FORMS: dict[str, tuple[Callable[[Sequence[Any]], Any], Callable[[Any], list[Any]]]] = {
    "int": _numbers("q"),
    "float": _numbers("d"),
    "bool": (bytes, lambda data: [bool(byte) for byte in data]),
    "str": (_strings, _from_strings),
    "large int": _map_values(hex, lambda text: int(text, 16)),
    "decimal": _map_values(str, Decimal),
    "datetime": _map_values(datetime.isoformat, datetime.fromisoformat),
    "date": _map_values(date.isoformat, date.fromisoformat),
    "time": _map_values(time.isoformat, time.fromisoformat),
    "any": (lambda values: pickle.dumps([*values]), pickle.loads),
}
"""Functions that pack and unpack values, by encoding."""
