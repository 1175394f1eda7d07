"""From the column that event time is read from to milliseconds since the epoch.

    timestamps, dates      as they are; one without a zone is in UTC
    numbers                in the watermark's `unit`; plain int64 is milliseconds
    text                   by the watermark's `format`

Whole numbers without a unit are looked at once in each split: seconds since the epoch, taken for
milliseconds, would make windows in January 1970.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rheos.connectors.schemas import epoch_ms
from rheos.errors import InputError
from rheos.graph.windows import UNIT_NS, Watermark
from rheos.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Batch, strip_hidden

Times = npt.NDArray[np.int64]

_UNITS = {"s": "seconds", "us": "microseconds", "ns": "nanoseconds"}
_SECONDS = (10**9, 43 * 10**8)
"""Seconds since the epoch from 2001 to 2106; as milliseconds, some weeks of January 1970 and after."""
_MICROSECONDS = 10**14
"""No milliseconds since the epoch are as many before the year 5138."""


def event_times(batch: Batch, watermark: Watermark, *, first: bool) -> Times:
    """The event times of the rows. `first` says that they are the first of their split.

    Raises InputError for a row without a time, or with one that is none.
    """
    column = batch.column(watermark.on)
    if column.null_count:
        _refuse(
            batch,
            column.is_null().to_numpy(zero_copy_only=False),
            f"a record has no event time: column {watermark.on!r} is null",
            "fill the column in, or declare it as one that is never null and skip bad rows where the "
            "source can",
        )
    if watermark.format is not None:
        return _parsed(batch, column, watermark.on, watermark.format)
    if watermark.unit is not None:
        return _scaled(batch, column, watermark.on, UNIT_NS[watermark.unit])
    times = epoch_ms(column)
    _check_range(batch, times, watermark.on)
    if first and pa.types.is_integer(column.type) and len(times):
        _check_unit(batch, times, watermark.on)
    return times


def split_watermarks(reached: Times, before: int, bound_ms: int) -> Times:
    """What a split's watermark was before each of its next rows: `reached` is the latest time of these
    up to each, `before` the latest ahead of them."""
    wm = np.empty_like(reached)
    wm[0] = before
    np.maximum(reached[:-1], before, out=wm[1:])
    wm -= bound_ms + 1
    np.maximum(wm, MIN_TIMESTAMP_MS, out=wm)
    return wm


def _check_range(batch: Batch, times: Times, on: str) -> None:
    outside = (times <= MIN_TIMESTAMP_MS) | (times >= MAX_TIMESTAMP_MS)
    if outside.any():
        _refuse(
            batch,
            outside,
            f"a record's event time is out of range: column {on!r} must be ms since the epoch",
            "convert the column to a timestamp, or say the unit of its numbers: "
            f'rh.Watermark.bounded_out_of_orderness(..., on={on!r}, unit="s")',
        )


def _check_unit(batch: Batch, times: Times, on: str) -> None:
    least, most = int(times.min()), int(times.max())
    looks_like = None
    if _SECONDS[0] <= least and most < _SECONDS[1]:
        looks_like = "s"
    elif least >= _MICROSECONDS:
        looks_like = "us" if most < 1000 * _MICROSECONDS else "ns"
    if looks_like is not None:
        _refuse(
            batch,
            np.ones(len(times), np.bool_),
            f"the event times in column {on!r} are taken for milliseconds since the epoch, and look "
            f"like {_UNITS[looks_like]}",
            f"say what they are: rh.Watermark.bounded_out_of_orderness(..., on={on!r}, "
            f'unit="{looks_like}"), or unit="ms" where that is right',
        )


def _scaled(batch: Batch, column: pa.Array, on: str, unit_ns: int) -> Times:
    """Numbers of a unit, rounded down to milliseconds."""
    values = column.to_numpy(zero_copy_only=False)
    # As floats, to see what does not fit.
    scaled: npt.NDArray[np.float64] = np.floor(values.astype(np.float64) * (unit_ns / 1_000_000))
    outside = ~((scaled > MIN_TIMESTAMP_MS) & (scaled < MAX_TIMESTAMP_MS))
    if outside.any():
        _refuse(
            batch,
            outside,
            f"a record's event time in column {on!r} is no number of its unit that can be a time",
            "correct the column, or the unit",
        )
    times: Times = (scaled if pa.types.is_floating(column.type) else values).astype(np.int64)
    if pa.types.is_integer(column.type):
        times = times * (unit_ns // 1_000_000) if unit_ns >= 1_000_000 else times // (10**6 // unit_ns)
    return times


def _parsed(batch: Batch, column: pa.Array, on: str, format: str) -> Times:
    text = pl.Series(on, column.cast(pa.large_string()))
    try:
        times = text.str.to_datetime(format, time_unit="ms", time_zone="UTC", strict=False)
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"the times in column {on!r} cannot be read by the format {format!r}: {error}",
            hint='give a format as chrono and strptime have it, such as "%Y-%m-%d %H:%M:%S"',
        ) from None
    unread = times.is_null().to_numpy()
    if unread.any():
        _refuse(
            batch,
            unread,
            f"a record's event time is not of the format {format!r}: column {on!r}",
            "correct the format, or leave such rows out before: filter(...), then with_event_time(...)",
        )
    found: Times = times.to_physical().to_numpy()
    return found


def _refuse(batch: Batch, rows: npt.NDArray[np.bool_], what: str, hint: str) -> NoReturn:
    row = strip_hidden(batch.slice(int(np.flatnonzero(rows)[0]), 1))
    raise InputError(what, record=repr(row.to_pylist()[0]), hint=hint)
