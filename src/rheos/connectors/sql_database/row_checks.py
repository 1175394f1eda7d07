"""Checks, before a checkpoint is complete, that a table's columns store the rows unchanged; and the
values of rows for the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.sql_database.address import DatabaseSystem
from rheos.connectors.sql_database.column_limits import ColumnLimits
from rheos.core.errors import InputError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shown_rows import shown_record, shown_value
from rheos.core.protocol.time_bounds import PYTHON, refuse_times_outside

_MICROSECONDS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Units in a second."""


class RowChecks:
    """Checks of rows against the limits of their columns."""

    def __init__(
        self, table: str, limits: Sequence[ColumnLimits], key: Sequence[str], gone: str | None
    ) -> None:
        self._table = table
        self._limits = limits
        self._key = frozenset(key)
        self._gone = gone

    def check(self, rows: Batch) -> None:
        """Raise InputError, with the column and the record, if a value would be refused or changed. Of
        a row that deletes another one, only the key is checked."""
        refuse_times_outside(rows, PYTHON, "a value of a SQL database")
        deletes = None if self._gone is None else pc.fill_null(rows.column(self._gone), False)
        for limits in self._limits:
            column = rows.column(limits.name)
            in_key = limits.name in self._key
            for why, misses in _violations(column, limits, in_key):
                if deletes is not None and not in_key:
                    misses = pc.and_(misses, pc.invert(deletes))
                if pc.any(misses).as_py():
                    row = pc.index(misses, True).as_py()
                    raise InputError(
                        f"column {limits.name!r} is {shown_value(column, row)}, which the table "
                        f"{self._table} cannot store unchanged: {why}",
                        record=shown_record(rows, row, limit=1000),
                        hint="filter out such rows upstream, convert the value, or alter the table",
                    )


def _violations(column: pa.Array, limits: ColumnLimits, in_key: bool) -> Iterator[tuple[str, pa.Array]]:
    """Yield why values do not fit, and which ones do not."""
    kind, t = column.type, pa.types
    if (in_key or not limits.nullable) and column.null_count:
        yield "its column is NOT NULL" if not in_key else "it is part of the key", column.is_null()
    if limits.bounds is not None:
        low, high = limits.bounds
        least, most = _least_and_most(kind)
        if least < low:
            yield f"{limits.type} begins at {low}", _fill_unknown(pc.less(column, pa.scalar(low, kind)))
        if high < most:
            yield (
                f"{limits.type} ends at {high}",
                _fill_unknown(pc.greater(column, pa.scalar(high, kind))),
            )
    if limits.characters is not None:
        longer = pc.greater(pc.utf8_length(column), limits.characters)
        yield f"{limits.type} has {limits.characters} characters", _fill_unknown(longer)
    if limits.size_bytes is not None:
        longer = pc.greater(pc.binary_length(column), limits.size_bytes)
        yield f"{limits.type} has {limits.size_bytes} bytes", _fill_unknown(longer)
    if limits.padded:
        yield f"{limits.type} does not keep blanks at the end", _fill_unknown(pc.ends_with(column, " "))
    if not limits.zero_bytes:
        yield (
            "strings there cannot contain a zero byte",
            _fill_unknown(pc.match_substring(column, "\0")),
        )
    if not limits.nan and t.is_floating(kind):
        yield "the database has no NaN", _fill_unknown(pc.is_nan(column))
    if not limits.infinity and t.is_floating(kind):
        yield "the database has no infinity", _fill_unknown(pc.is_inf(column))
    if limits.fraction is not None:
        # One unit of the last digit that the column stores, in units of the stream's column.
        step = _MICROSECONDS[kind.unit] // 10**limits.fraction
        numbers = np.asarray(column.view(_integers(kind)).fill_null(0))
        finer = pa.array(numbers % step != 0)
        yield f"{limits.type} has {limits.fraction} digits of a second's fraction", finer
    if limits.years is not None and limits.years != PYTHON:
        first, last = limits.years
        year = pc.year(column)
        outside = pc.or_(pc.less(year, first), pc.greater(year, last))
        yield f"{limits.type} has the years {first} to {last}", _fill_unknown(outside)


def _fill_unknown(mask: pa.Array) -> pa.Array:
    return pc.fill_null(mask, False)


def _least_and_most(kind: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(kind.to_pandas_dtype())
    return int(info.min), int(info.max)


def _integers(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if kind.bit_width == 32 else pa.int64()


_TEXTS: Mapping[str, str] = {
    "Date": "%Y-%m-%d",
    "Time": "%H:%M:%S%.6f",
    "Datetime": "%Y-%m-%d %H:%M:%S%.6f",
}
"""Formats in which SQLAlchemy stores times in SQLite."""


def frame_for(backend: DatabaseSystem, frame: pl.DataFrame) -> pl.DataFrame:
    """Return rows with columns whose Python values the driver passes on unchanged."""
    if backend is not DatabaseSystem.SQLITE:
        return frame
    texts = ((name, _TEXTS.get(type(kind).__name__)) for name, kind in frame.schema.items())
    return frame.with_columns(pl.col(name).dt.to_string(text) for name, text in texts if text)


def values_of(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Return rows as tuples of Python values."""
    return frame.rows()
