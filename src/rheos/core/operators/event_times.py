"""Conversion of the event-time column to milliseconds since the epoch.

`connectors/times.py` defines how a column is read; this module reports errors in a record. It checks
integers without a unit once in each split, because seconds treated as milliseconds would make windows
in January 1970.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.errors import InputError
from rheos.core.graph.watermark import Watermark
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Batch
from rheos.core.protocol.shown_rows import shown_record
from rheos.core.times import TimeColumn, Times, epoch_ms

_UNITS = {"s": "seconds", "us": "microseconds", "ns": "nanoseconds"}
_SECONDS = (10**9, 43 * 10**8)
"""Seconds since the epoch from 2001 to 2106. As milliseconds they are times in the first weeks of 1970.
"""
_MICROSECONDS = 10**14
"""Least absolute value that is read as microseconds: as milliseconds it would be in the year 5138."""


def event_times(batch: Batch, watermark: Watermark, *, first: bool) -> Times:
    """Return the event times of the rows. `first` is True for the first rows of their split.

    Raises InputError for a row without a time, or with an invalid one.
    """
    on = watermark.column.name
    column = batch.column(on)
    if column.null_count:
        _refuse(
            batch,
            column.is_null().to_numpy(zero_copy_only=False),
            f"a record has no event time: column {on!r} is null",
            "fill in the column, or declare it as not nullable and skip bad rows in the source",
        )
    if not watermark.column.by_itself:
        return _read(batch, column, watermark.column)
    times = epoch_ms(column)
    _check_range(batch, times, on)
    if first and pa.types.is_integer(column.type) and len(times):
        _check_unit(batch, times, on)
    return times


def split_watermarks(reached: Times, before: int, bound_ms: int) -> Times:
    """Return the split's watermark before each of its next rows. `reached` is the running maximum of
    their times, `before` the maximum of earlier rows."""
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
            "convert the column to a timestamp, or set the unit of its numbers: "
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
            f"the event times in column {on!r} are read as milliseconds since the epoch, but "
            f"look like {_UNITS[looks_like]}",
            f"set their unit: rh.Watermark.bounded_out_of_orderness(..., on={on!r}, "
            f'unit="{looks_like}"), or unit="ms" if that is right',
        )


def _read(batch: Batch, column: pa.Array, times: TimeColumn) -> Times:
    found, unfit = times.read(column, "ms")
    if unfit.any():
        if times.format is not None:
            _refuse(
                batch,
                unfit,
                f"a record's event time does not match the format {times.format!r}: column "
                f"{times.name!r}",
                "correct the format, or drop such rows first: filter(...), then with_event_time(...)",
            )
        _refuse(
            batch,
            unfit,
            f"a record's event time in column {times.name!r} is out of range for its unit",
            "correct the column, or the unit",
        )
    return found


def _refuse(batch: Batch, rows: npt.NDArray[np.bool_], what: str, hint: str) -> NoReturn:
    raise InputError(what, record=shown_record(batch, int(np.flatnonzero(rows)[0])), hint=hint)
