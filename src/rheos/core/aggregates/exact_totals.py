"""Exact sums from which values can also be removed.

A finite float64 is an integer number of units of 2**-1074, so a sum of floats is a Python integer. It
is rounded once, when it is read. Values that are not finite are counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa

from rheos.core.aggregates.units import decimal_sum

_UNIT_BITS = 1074


class Total(Protocol):
    """An exact sum."""

    def add(self, value: Any) -> None:
        """Add a value."""

    def remove(self, value: Any) -> None:
        """Remove a value that was added before."""

    def value(self) -> Any:
        """Return the sum, in the type of the values."""

    def stored(self) -> Sequence[Any]:
        """Return the state as plain values."""

    def restore(self, parts: Sequence[Any]) -> None:
        """Replace the state by what `stored` returned."""


def total_of(kind: pa.DataType) -> Total:
    """Return an empty sum of values of a type."""
    if pa.types.is_decimal(kind):
        return DecimalTotal(kind.scale)
    return FloatTotal() if pa.types.is_floating(kind) else IntegerTotal()


class IntegerTotal:
    """The sum of integers or booleans."""

    def __init__(self) -> None:
        self._total = 0

    def add(self, value: int) -> None:
        self._total += value

    def remove(self, value: int) -> None:
        self._total -= value

    def value(self) -> int:
        return self._total

    def stored(self) -> Sequence[Any]:
        return [self._total]

    def restore(self, parts: Sequence[Any]) -> None:
        [self._total] = parts


class DecimalTotal:
    """The sum of decimals of one scale."""

    def __init__(self, scale: int) -> None:
        self._total = Decimal(0).scaleb(-scale)

    def add(self, value: Decimal) -> None:
        self._total = decimal_sum(self._total, value)

    def remove(self, value: Decimal) -> None:
        self._total = decimal_sum(self._total, value.copy_negate())

    def value(self) -> Decimal:
        return self._total

    def stored(self) -> Sequence[Any]:
        return [self._total]

    def restore(self, parts: Sequence[Any]) -> None:
        [self._total] = parts


class FloatTotal:
    """The sum of floats."""

    def __init__(self) -> None:
        self._units = 0
        self._odd = [0, 0, 0]
        """Numbers of NaN, infinity and minus infinity."""

    def add(self, value: float) -> None:
        if math.isfinite(value):
            self._units += units_of(value)
        else:
            self._odd[_odd(value)] += 1

    def remove(self, value: float) -> None:
        if math.isfinite(value):
            self._units -= units_of(value)
        else:
            self._odd[_odd(value)] -= 1

    def value(self) -> float:
        nan, positive, negative = self._odd
        if nan or (positive and negative):
            return math.nan
        if positive or negative:
            return math.inf if positive else -math.inf
        return quotient(self._units, 1 << _UNIT_BITS)

    def stored(self) -> Sequence[Any]:
        return [self._units, *self._odd]

    def restore(self, parts: Sequence[Any]) -> None:
        self._units, *self._odd = parts


def _odd(value: float) -> int:
    return 0 if value != value else 1 if value > 0 else 2


def units_of(value: float) -> int:
    """Return a finite float as a multiple of 2**-1074."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << (_UNIT_BITS + 1 - denominator.bit_length())


def quotient(numerator: int, denominator: int) -> float:
    """Return the nearest float64; infinity if the quotient is too large for one."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


class Spread:
    """The exact sums of numbers and of their squares."""

    def __init__(self, is_float: bool) -> None:
        self._is_float = is_float
        self._bits = _UNIT_BITS if is_float else 0
        """Exponent of the units: sums count units of 2**-bits, and sums of squares units of 2**(-2 *
        bits)."""
        self._sum = self._squares = 0
        self._count = self._odd = 0

    def add(self, value: float) -> None:
        """Add a value."""
        self._change(value, 1)

    def remove(self, value: float) -> None:
        """Remove a value that was added before."""
        self._change(value, -1)

    def _change(self, value: float, by: int) -> None:
        self._count += by
        if not math.isfinite(value):
            self._odd += by
            return
        units = units_of(value) if self._is_float else int(value) << self._bits
        self._sum += by * units
        self._squares += by * units * units

    def variance(self, ddof: int) -> float | None:
        """Return the sum of the squared deviations, divided by the count minus `ddof`. Return NaN if
        some value is not finite, and None if there are too few values."""
        count = self._count
        if count <= ddof:
            return None
        if self._odd:
            return math.nan
        apart = count * self._squares - self._sum * self._sum
        return quotient(apart, (count * (count - ddof)) << 2 * self._bits)

    def stored(self) -> Sequence[Any]:
        """Return the state as plain values."""
        return [self._sum, self._squares, self._count, self._odd, self._bits]

    def restore(self, parts: Sequence[Any]) -> None:
        """Replace the state by what `stored` returned."""
        self._sum, self._squares, self._count, self._odd, self._bits = parts
