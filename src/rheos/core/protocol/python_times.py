"""Converts columns of times, dates and durations to Python's objects, exactly or with an error.

Python's `datetime` and `date` support the years 1 to 9999, and microseconds. Any other value raises
Unreadable. It is never truncated, and never becomes an integer as in NumPy.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.protocol.time_bounds import PYTHON, has_times_outside

_MICROSECONDS_HINT = "drop the nanoseconds first, or cast the column to a string: .cast(pl.String)"
_YEARS_HINT = (
    "filter out such rows first with an expression, or read the column in map_batches(..., "
    'form="arrow"), which accepts every value'
)


class Unreadable(ValueError):  # noqa: N818 - a value is unreadable
    """A value in a column that no Python object can represent."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.hint = hint


def datetimes(array: pa.Array) -> list[Any]:
    """Return the timestamps as datetimes in the column's zone, or naive if it has no zone. A timestamp
    with nanoseconds becomes a pandas.Timestamp, a subclass of datetime that can represent them."""
    kind = array.type
    if kind.unit == "ns":
        return _with_nanoseconds(array, pa.timestamp("us", kind.tz), datetimes)
    if kind.tz is None:
        return _within_python(_in_microseconds(array, pa.timestamp("us")))
    if kind.tz != "UTC":
        return _in_zone(array)
    us = _in_microseconds(array, pa.timestamp("us", "UTC")).view(pa.int64()).fill_null(0).to_numpy()
    # Decoding MessagePack is by far the fastest way to create datetimes with a zone.
    times = np.empty(len(us), _MSGPACK_TIME)
    times["mark"] = b"\xc7\x0c\xff"
    times["s"] = us // 1_000_000
    times["ns"] = us % 1_000_000 * 1000
    try:
        found: list[Any] = _decode_times(b"\xdd" + len(us).to_bytes(4, "big") + times.tobytes())
    except (msgspec.DecodeError, ValueError, OverflowError):
        raise _out_of_range("datetime") from None
    if array.null_count:
        for index in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            found[index] = None
    return found


def dates(array: pa.Array) -> list[Any]:
    """Return the dates as Python's."""
    if pa.types.is_date64(array.type):
        try:
            array = array.cast(pa.date32())
        except pa.ArrowInvalid:
            raise Unreadable(
                "it is a date with a time of day", "cast the column to a timestamp"
            ) from None
    return _within_python(array)


def durations(array: pa.Array) -> list[Any]:
    """Return the durations as timedeltas. A duration with nanoseconds becomes a pandas.Timedelta, a
    subclass."""
    if array.type.unit == "ns":
        return _with_nanoseconds(array, pa.duration("us"), durations)
    array = _in_microseconds(array, pa.duration("us"))
    if pc.min(array.view(pa.int64())).as_py() == np.iinfo(np.int64).min:
        raise _out_of_range("timedelta")  # NumPy treats this value as missing, not as a duration.
    return _listed(array)


def times_of_day(array: pa.Array) -> list[Any]:
    """Return the times of day as Python's."""
    return typing.cast("list[Any]", _in_microseconds(array, pa.time64("us")).to_pylist())


_MSGPACK_TIME = np.dtype([("mark", "V3"), ("ns", ">u4"), ("s", ">i8")])
_decode_times = msgspec.msgpack.Decoder(list[datetime]).decode


def _with_nanoseconds(
    array: pa.Array, kind: pa.DataType, read: Callable[[pa.Array], list[Any]]
) -> list[Any]:
    """Read a column in nanoseconds as microseconds, and separately the values that do not fit."""
    try:
        return read(array.cast(kind))
    except pa.ArrowInvalid:
        pass
    if pc.min(array.view(pa.int64())).as_py() == np.iinfo(np.int64).min:
        raise Unreadable("pandas, with its nanoseconds, treats it as missing", _YEARS_HINT)
    found = read(array.cast(kind, safe=False))
    parts = array.view(pa.int64()).fill_null(0).to_numpy() % 1000
    for index in np.flatnonzero(parts).tolist():
        found[index] = array[index].as_py()
    return found


def _in_zone(array: pa.Array) -> list[Any]:
    zone = pa.lib.string_to_tzinfo(array.type.tz)
    utc = datetimes(array.cast(pa.timestamp(array.type.unit, "UTC")))
    try:
        return [value and value.astimezone(zone) for value in utc]
    except (OverflowError, ValueError):
        raise _out_of_range("datetime") from None


def _in_microseconds(array: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        if pa.types.is_time(kind):
            raise Unreadable(
                "it has a higher resolution than Python's microseconds", _MICROSECONDS_HINT
            ) from None
        raise _out_of_range("timedelta" if pa.types.is_duration(kind) else "datetime") from None


_FEW_ROWS = 128
"""Number of rows up to which checking each object costs less than a call of Arrow."""


def _within_python(array: pa.Array) -> list[Any]:
    few = len(array) < _FEW_ROWS
    found = _listed(array) if few or not has_times_outside(array, PYTHON) else None
    # If Python cannot represent a value, numpy returns an integer or a missing value.
    if found is None or (few and (int in map(type, found) or found.count(None) != array.null_count)):
        raise _out_of_range("date" if pa.types.is_date(array.type) else "datetime")
    return found


def _out_of_range(holder: str) -> Unreadable:
    if holder == "timedelta":
        return Unreadable("a timedelta has at most 2^63 - 1 microseconds", _YEARS_HINT)
    return Unreadable(f"a Python {holder} must be in the years 1 to 9999", _YEARS_HINT)


def _listed(array: pa.Array) -> list[Any]:
    """Convert by NumPy, which returns Python's own types for these columns, and None for a null."""
    return typing.cast("list[Any]", array.to_numpy(zero_copy_only=False).tolist())
