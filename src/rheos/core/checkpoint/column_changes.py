"""Widening conversions between column types, given as Arrow's names."""

from __future__ import annotations

import re

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_FLOATS = ("halffloat", "float", "double")
_UNITS = ("s", "ms", "us", "ns")
_TIME = re.compile(r"timestamp\[(s|ms|us)(, tz=.*)?\]")


def wider_number(old: str, new: str) -> bool:
    """Return whether all numbers of the old type can be read as the new one. Integers can be read as
    floats: beyond 2**53 as the nearest float."""
    for numbers in (_SIGNED, _UNSIGNED, _FLOATS):
        if old in numbers and new in numbers:
            return numbers.index(old) <= numbers.index(new)
    if old in _UNSIGNED and new in _SIGNED:
        return _UNSIGNED.index(old) < _SIGNED.index(new)
    return new == "double" and old in (*_SIGNED, *_UNSIGNED)


def wider_column(old: str, new: str) -> bool:
    """Return whether a column of the old type can be cast to the new one with all its values."""
    was, now = _TIME.fullmatch(old), _TIME.fullmatch(new)
    if was and now:
        return was[2] == now[2] and _UNITS.index(was[1]) <= _UNITS.index(now[1])
    return wider_number(old, new)
