"""Widening conversions between column types, by Arrow's names of the types."""

from __future__ import annotations

import re

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_FLOATS = ("halffloat", "float", "double")
_UNITS = ("s", "ms", "us", "ns")
_TIME = re.compile(r"timestamp\[(s|ms|us)(, tz=.*)?\]")


def wider_number(old: str, new: str) -> bool:
    """Whether numbers of the one type are numbers of the other. Integers are floats, too: beyond 2**53
    the nearest."""
    for numbers in (_SIGNED, _UNSIGNED, _FLOATS):
        if old in numbers and new in numbers:
            return numbers.index(old) <= numbers.index(new)
    if old in _UNSIGNED and new in _SIGNED:
        return _UNSIGNED.index(old) < _SIGNED.index(new)
    return new == "double" and old in (*_SIGNED, *_UNSIGNED)


def wider_column(old: str, new: str) -> bool:
    """Whether a column of the one type can be cast to the other with all its values."""
    was, now = _TIME.fullmatch(old), _TIME.fullmatch(new)
    if was and now:
        return was[2] == now[2] and _UNITS.index(was[1]) <= _UNITS.index(now[1])
    return wider_number(old, new)
