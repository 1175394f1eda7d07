"""Exact computation of decimal columns as integers.

A decimal is an integer number of units, each `10 ** -scale`. Columns of units are NumPy arrays. Each
step compares the largest magnitudes of the batch with 64 bits. If its result fits, the arrays contain
64-bit integers, otherwise Python's unbounded integers. The same formulas serve both.

Halves are rounded away from zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rheos.core.aggregates.units import Units
from rheos.core.protocol.polars_frames import arrow_column

Array: TypeAlias = npt.NDArray[Any]

_BEYOND: Final = 1 << 63
"""Smallest magnitude that does not fit in 64 bits."""


@dataclass(frozen=True)
class WholeUnits:
    """A column of integers. Arithmetic on it never overflows."""

    values: Array
    most: int
    """Upper bound of the magnitudes."""

    def _fit_within(self, most: int) -> Array:
        """Return the values in a type that can hold results up to `most`."""
        if most < _BEYOND or self.values.dtype == object:
            return self.values
        return self.values.astype(object)

    def scaled(self, places: int) -> WholeUnits:
        """Return the numbers times `10 ** places`."""
        if not places:
            return self
        factor = 10**places
        most = max(self.most, 1) * factor
        return WholeUnits(self._fit_within(most) * factor, most)

    def plus(self, other: WholeUnits, sign: int = 1) -> WholeUnits:
        """Return the sums, or the differences if `sign` is -1."""
        most = self.most + other.most
        one, two = self._fit_within(most), other._fit_within(most)
        return WholeUnits(one + two if sign > 0 else one - two, most)

    def times(self, other: WholeUnits) -> WholeUnits:
        """Return the products."""
        most = max(self.most, 1) * max(other.most, 1)
        return WholeUnits(self._fit_within(most) * other._fit_within(most), most)

    def rounded(self, places: int) -> WholeUnits:
        """Return the numbers divided by `10 ** places`, halves rounded away from zero."""
        if not places:
            return self
        unit = 10**places
        values = self._fit_within(2 * (self.most + unit))
        made = (2 * np.abs(values) + unit) // (2 * unit)
        return WholeUnits(np.where(values < 0, -made, made), self.most // unit + 1)

    def truncated(self, places: int) -> WholeUnits:
        """Return the numbers divided by `10 ** places`, without their fractions."""
        if not places:
            return self
        unit = 10**places
        values = self._fit_within(max(self.most, unit))
        made = np.abs(values) // unit
        return WholeUnits(np.where(values < 0, -made, made), self.most // unit)

    def divided(self, by: WholeUnits, *, half_up: bool) -> WholeUnits:
        """Return the quotients by nonzero numbers: rounded, or truncated."""
        most = 2 * (self.most + by.most)
        values, divisors = self._fit_within(most), by._fit_within(most)
        one, other = np.abs(values), np.abs(divisors)
        made = (2 * one + other) // (2 * other) if half_up else one // other
        return WholeUnits(np.where((values < 0) != (divisors < 0), -made, made), self.most + 1)

    def remainders(self, by: WholeUnits) -> WholeUnits:
        """Return the remainders of divisions by nonzero numbers, with the sign of the dividend."""
        most = max(self.most, by.most)
        values, divisors = self._fit_within(most), by._fit_within(most)
        made = np.abs(values) % np.abs(divisors)
        return WholeUnits(np.where(values < 0, -made, made), most)

    def floored(self, places: int) -> WholeUnits:
        """Return the numbers divided by `10 ** places`, rounded down."""
        unit = 10**places
        return WholeUnits(self._fit_within(max(self.most, unit)) // unit, self.most // unit + 1)

    def negated(self) -> WholeUnits:
        """Return the negated numbers."""
        return WholeUnits(-self._fit_within(self.most), self.most)

    def fits(self, digits: int) -> Array | None:
        """Return a mask of the numbers with at most `digits` digits; None if all fit."""
        bound = 10**digits
        if self.most < bound:
            return None
        found = np.abs(self._fit_within(max(self.most, bound))) < bound
        return None if found.all() else found.astype(bool)


@dataclass(frozen=True)
class DecimalColumn:
    """A column of decimals or integers, as units and a mask."""

    units: WholeUnits
    scale: int
    valid: Array | None
    """Mask of the rows that have a value; None if all rows have one."""


def column_of(series: pl.Series) -> DecimalColumn:
    """Convert a column of decimals or integers. Nulls become 0 and are masked."""
    valid = None if not series.null_count() else series.is_not_null().to_numpy()
    kind = series.dtype
    if kind == pl.Null:
        return DecimalColumn(
            WholeUnits(np.zeros(len(series), np.int64), 0), 0, np.zeros(len(series), np.bool_)
        )
    if isinstance(kind, pl.Decimal) or kind in (pl.Int128, pl.UInt128):
        decimals = series if isinstance(kind, pl.Decimal) else series.cast(pl.Decimal(38, 0))
        values = Units.of(arrow_column(decimals)).whole()
        scale = decimals.dtype.scale  # type: ignore[attr-defined]
    else:
        values, scale = (series if valid is None else series.fill_null(0)).to_numpy(), 0
        if values.dtype == np.uint64 and len(values) and int(values.max()) >= _BEYOND:
            values = values.astype(object)
        elif values.dtype != object:
            values = values.astype(np.int64)
    if valid is not None:
        values = np.where(valid, values, 0)
    return DecimalColumn(WholeUnits(values, _largest_magnitude(values)), scale, valid)


def _largest_magnitude(values: Array) -> int:
    if not len(values):
        return 0
    return max(int(values.max()), -int(values.min()))


def both_valid(one: Array | None, other: Array | None) -> Array | None:
    """Return a mask of the rows that are valid in both columns; None if all are."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def decimals_of(units: WholeUnits, valid: Array | None, kind: pl.Decimal) -> pl.Series:
    """Return a column of type `kind` with these unscaled values. No value may have more digits than the
    precision of `kind`."""
    values = units.values if valid is None else np.where(valid, units.values, 0)
    none = None if valid is None else ~np.broadcast_to(valid, values.shape)
    array = Units.of_whole(values).decimals(pa.decimal128(kind.precision, kind.scale), none)
    made = pl.from_arrow(array)
    assert isinstance(made, pl.Series)
    return made
