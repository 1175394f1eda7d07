"""Lossless conversion of times and durations to PostgreSQL's: microseconds, and years with eras."""

from __future__ import annotations

import re
from functools import partial

import pyarrow as pa

from rheos.core.errors import InputError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shown_rows import shown_record, shown_value
from rheos.core.protocol.time_bounds import Years, first_row
from rheos.formats.decimal_text import with_writable_times

OUR_ERA = Years(1, 300_000)
"""Years that are written unchanged. PostgreSQL's last year is 294276."""

_YEAR = re.compile(r"(-?\d{4,5})(-.*)")


def exact_times(rows: Batch) -> Batch:
    """Return the rows with times in microseconds, in UTC if they have a zone.

    Raises InputError, naming column and record, if a value is out of range, or so precise that
    PostgreSQL would round it.
    """
    rows = with_writable_times(rows, "a string for PostgreSQL")
    for at, field in enumerate(rows.schema):
        exact = _in_microseconds(field.type)
        if exact is None:
            continue
        column = rows.column(at)
        try:
            made = column.cast(exact)
        except pa.ArrowInvalid:
            row = first_row(column, partial(_misses, exact))
            raise InputError(
                f"column {field.name!r} holds {shown_value(column, row)}, but PostgreSQL stores "
                "at most 292,271 years in microseconds",
                record=shown_record(rows, row),
                hint=f'round it first: .with_columns(col("{field.name}").dt.cast_time_unit("us"))',
            ) from None
        rows = rows.set_column(at, field.name, made)
    return rows


def with_era(times: pa.Array) -> pa.Array:
    """Return timestamps or dates as strings, if some are before the year 1. PostgreSQL has no year 0,
    and writes earlier years as BC."""

    def shown(text: str | None) -> str | None:
        found = text and _YEAR.fullmatch(text)
        if not found or int(found[1]) > 0:
            return text
        return f"{1 - int(found[1]):04d}{found[2]} BC"

    return pa.array(map(shown, times.cast(pa.string()).to_pylist()), pa.string())


def _in_microseconds(kind: pa.DataType) -> pa.DataType | None:
    """Return the type into which PostgreSQL parses a column; None if it is written unchanged."""
    t = pa.types
    if t.is_duration(kind) and kind.unit != "us":
        return pa.duration("us")
    if getattr(kind, "unit", None) != "ns":
        return None
    return pa.timestamp("us", kind.tz) if t.is_timestamp(kind) else pa.time64("us")


def _misses(kind: pa.DataType, column: pa.Array) -> bool:
    try:
        column.cast(kind)
    except pa.ArrowInvalid:
        return True
    return False
