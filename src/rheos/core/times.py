"""Time columns: which types they may have, and how they are read as event times.

timestamps, dates      unchanged; without a zone they are in UTC
numbers                in their `unit`; int64 without a unit is milliseconds
strings                parsed by `format`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rheos.core.errors import InputError, SchemaError
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

Unit: TypeAlias = Literal["s", "ms", "us", "ns"]
UNIT_NS: Mapping[str, int] = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_NS = 86_400_000_000_000

Times = npt.NDArray[np.int64]
Unfit = npt.NDArray[np.bool_]
"""Mask of the rows without a valid time. Their times have arbitrary values."""


@dataclass(frozen=True)
class TimeColumn:
    """The name of a column of times, and the details that its type does not determine."""

    name: str
    unit: Unit | None = None
    """Unit of a column of numbers."""
    format: str | None = None
    """Format of a column of strings, in the syntax of chrono and strptime."""

    @property
    def by_itself(self) -> bool:
        """Return whether the column's type alone determines how it is read."""
        return self.unit is None and self.format is None

    def check(self, schema: pa.Schema, what: str) -> None:
        """Check that the column's type can be read as times. The column must exist.

        Args:
            schema: The columns of the rows.
            what: Name of the column in the error, such as "the event-time column".

        Raises:
            SchemaError: The type cannot be read, or `unit` or `format` is missing or superfluous.
        """
        kind = schema.field(self.name).type
        is_time = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        column = f"{what} {self.name!r} is {kind}"
        if self.unit is not None and (self.unit not in UNIT_NS or not is_number):
            raise SchemaError(
                f"{column}, which does not fit unit={self.unit!r}",
                hint='unit= ("s", "ms", "us" or "ns") is for numbers; leave it out for other types',
            )
        if self.format is not None and not (is_text and isinstance(self.format, str)):
            raise SchemaError(
                f"{column}, which does not fit format={self.format!r}",
                hint="format= is for strings; leave it out for other types",
            )
        if is_text and self.format is None:
            raise SchemaError(column, hint='pass its format, such as format="%Y-%m-%d %H:%M:%S"')
        if is_number and self.unit is None and not pa.types.is_int64(kind):
            raise SchemaError(
                column, hint='pass the unit of its numbers since the epoch, such as unit="s"'
            )
        if not (is_time or is_number or is_text):
            raise SchemaError(
                column,
                hint="use a timestamp, a date, an int64 of milliseconds since the epoch, other "
                "numbers with unit=, or strings with format=",
            )

    def timestamps(self, column: pa.Array) -> pa.Array:
        """Convert a column to times that need neither unit nor format.

        Args:
            column: The values.

        Returns:
            The column itself, or timestamps in us, rounded down. A missing or unreadable time is null.
        """
        if self.by_itself:
            return column
        times, unfit = self.read(column, "us")
        missing = unfit | column.is_null().to_numpy(zero_copy_only=False)
        return pa.array(times, mask=missing).view(pa.timestamp("us", "UTC"))

    def read(self, column: pa.Array, into: Literal["ms", "us"]) -> tuple[Times, Unfit]:
        """Convert numbers or strings to times since the epoch, rounded down. The caller handles nulls.

        Args:
            column: The values.
            into: Unit of the result.

        Returns:
            The times, and which rows have none.

        Raises:
            InputError: The format is invalid.
        """
        if self.format is not None:
            return _parsed(column, self.name, self.format, into)
        return _scaled(column, UNIT_NS[self.unit or "ms"], UNIT_NS[into])


# --- columns whose type determines how they are read ----------------------------------------------


def is_time(type_: pa.DataType) -> bool:
    """Return whether a column of the type can hold event times: timestamp, date, or int of ms."""
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_) or pa.types.is_integer(type_))


def epoch_ms(times: pa.Array) -> Times:
    """Return times (see `is_time`) in ms since the epoch, rounded down. Nulls become any number."""
    return _of_type(times, 1_000_000)


def epoch_us(times: pa.Array) -> Times:
    """Return times (see `is_time`) in us since the epoch, rounded down. Nulls become any number."""
    return _of_type(times, 1_000)


def _of_type(times: pa.Array, unit_ns: int) -> Times:
    type_ = times.type
    given_ns = 1_000_000
    if pa.types.is_timestamp(type_):
        given_ns = UNIT_NS[type_.unit]
    elif pa.types.is_date32(type_):
        given_ns = _DAY_NS
    if not pa.types.is_integer(type_):
        times = times.view(pa.int32() if pa.types.is_date32(type_) else pa.int64())
    if times.null_count:
        times = times.fill_null(0)
    values: Times = times.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    if given_ns > unit_ns:
        factor = given_ns // unit_ns
        # A product beyond int64 would wrap to another time. The limit exceeds all event times.
        most = np.iinfo(np.int64).max // factor
        return np.clip(values, -most, most) * factor
    if given_ns < unit_ns:
        return values // (unit_ns // given_ns)
    return values


# --- numbers with a unit, text with a format ------------------------------------------------------


def _scaled(column: pa.Array, unit_ns: int, into_ns: int) -> tuple[Times, Unfit]:
    if column.null_count:
        column = column.fill_null(0)
    values = column.to_numpy(zero_copy_only=False)
    # Computed as floats, to find the numbers that do not fit.
    scaled: npt.NDArray[np.float64] = np.floor(values.astype(np.float64) * (unit_ns / into_ns))
    unfit = ~((scaled > MIN_TIMESTAMP_MS) & (scaled < MAX_TIMESTAMP_MS))
    if pa.types.is_floating(column.type):
        return np.where(unfit, 0, scaled).astype(np.int64), unfit
    times: Times = values.astype(np.int64)
    times = times * (unit_ns // into_ns) if unit_ns >= into_ns else times // (into_ns // unit_ns)
    return times, unfit


def _parsed(column: pa.Array, name: str, format: str, into: Literal["ms", "us"]) -> tuple[Times, Unfit]:
    text = pl.Series(name, column.cast(pa.large_string()))
    try:
        times = text.str.to_datetime(format, time_unit=into, time_zone="UTC", strict=False)
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"the times in column {name!r} do not match the format {format!r}: {error}",
            hint='use a format of chrono or strptime, such as "%Y-%m-%d %H:%M:%S"',
        ) from None
    unfit = times.is_null().to_numpy()
    return times.to_physical().fill_null(0).to_numpy(), unfit


ONE_ZONE = "give all of them a time zone: datetime(..., tzinfo=UTC). A datetime without one is UTC"
"""Hint for the error if `mixed_zones` finds a row."""


def mixed_zones(values: Iterable[Any]) -> int | None:
    """Return the index of the first datetime that has a zone after one without, or none after one with.
    A datetime without a zone is UTC, which a user who also writes zones may not intend."""
    zoned: bool | None = None
    for index, value in enumerate(values):
        if isinstance(value, datetime):
            has_zone = value.tzinfo is not None
            if zoned is None:
                zoned = has_zone
            elif zoned is not has_zone:
                return index
        elif value is not None:
            return None  # The column does not hold datetimes.
    return None
