"""Integers of up to 128 bits as two arrays, and decimals as integer numbers of units of their last
digit.

A number is `beyond * 2**64 + low`, with both words signed. If all numbers fit 64 bits, there is no
second array, so ordinary values cost as much as int64. A decimal with scale 2 is an integer number of
hundredths.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.aggregates import exact_sum
from rheos.core.aggregates.cells import numbers
from rheos.core.aggregates.segments import Floats, Ints

MOST_DIGITS = 38
"""Maximum precision of a decimal, as in Spark."""
_SUM_DIGITS = 10
"""Number of additional digits of a sum compared with its values, as in Spark."""
_MEAN_DIGITS = 4
"""Number of additional digits after the point of a mean compared with its values, as in Spark."""

_WORD_BITS = 32
_MASK = (1 << _WORD_BITS) - 1
_HIGH = 1 << 63
_LOW = (1 << 64) - 1
_EXACT = Context(prec=4 * MOST_DIGITS, rounding=ROUND_HALF_UP)

Mask = npt.NDArray[np.bool_]


def sum_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the sum of decimals of a type."""
    return pa.decimal128(min(kind.precision + _SUM_DIGITS, MOST_DIGITS), kind.scale)


def mean_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the mean of decimals of a type."""
    return pa.decimal128(
        min(kind.precision + _MEAN_DIGITS, MOST_DIGITS), min(kind.scale + _MEAN_DIGITS, MOST_DIGITS)
    )


@dataclass(frozen=True)
class Units:
    """Integers of up to 128 bits."""

    low: Ints
    """Numbers modulo 2**64."""
    beyond: Ints | None = None
    """Multiple of 2**64 by which each number exceeds `low`; None if all are zero."""

    def __len__(self) -> int:
        return len(self.low)

    @classmethod
    def of(cls, column: pa.Array) -> Units:
        """Return the values of a column of integers, booleans or decimals; a null is zero."""
        kind = column.type
        if pa.types.is_decimal(kind):
            return _of_decimals(column)
        values: Any = numbers(column, 0)
        if values.dtype != np.uint64:
            return cls(values.astype(np.int64, copy=False))
        large = values >= _HIGH
        return cls(values.view(np.int64), large.astype(np.int64) if large.any() else None)

    @classmethod
    def of_limbs(cls, limbs: exact_sum.Limbs, length: int) -> tuple[Units, Mask]:
        """Return the sums of limbs, and a mask of those that do not fit 128 bits."""
        bins = [bin for bin in limbs if bin < exact_sum.NAN]
        digits = []
        over = np.zeros(length, np.int64)
        for bin in range(max(3, *bins) + 1 if bins else 4):
            limb = limbs[bin] + over if bin in limbs else over
            digits.append(limb & _MASK)
            over = limb >> _WORD_BITS
        low = digits[0] | (digits[1] << _WORD_BITS)
        beyond = digits[2] | (digits[3] << _WORD_BITS)
        # A number fits 128 bits if all higher bits equal its sign bit.
        sign = beyond >> 63
        large = over != sign
        for digit in digits[4:]:
            large |= digit != sign & _MASK
        beyond = beyond + (low < 0)
        return cls(low, beyond if beyond.any() else None), large

    @classmethod
    def of_whole(cls, values: npt.NDArray[Any]) -> Units:
        """Return the numbers of an array of int64, or of Python's integers of up to 128 bits."""
        if values.dtype != object:
            return cls(values)
        low: Ints = (values & _LOW).astype("<u8").view("<i8")
        return cls(low, (values >> 64).astype(np.int64) + (low < 0))

    def whole(self) -> npt.NDArray[Any]:
        """Return the numbers as int64, or as Python's integers if some do not fit."""
        if self.beyond is None:
            return self.low
        whole: npt.NDArray[Any] = self.low.astype(object) + (self.beyond.astype(object) << 64)
        return whole

    def words(self) -> tuple[Ints, Ints]:
        return self.low, np.zeros_like(self.low) if self.beyond is None else self.beyond

    def limbs(self) -> exact_sum.Limbs:
        """Return the numbers as limbs of an exact sum."""
        made = {0: self.low & _MASK, 1: self.low >> _WORD_BITS}
        if self.beyond is not None:
            made |= {2: self.beyond & _MASK, 3: self.beyond >> _WORD_BITS}
        return made

    def take(self, places: Ints | Mask) -> Units:
        beyond = None if self.beyond is None else self.beyond[places]
        return Units(self.low[places], beyond)

    def outside(self, digits: int) -> Mask:
        """Return a mask of the numbers with more than `digits` decimal digits."""
        most = 10**digits - 1
        return ~self._at_most(most) | self._is_below(-most)

    def outside_int64(self) -> Mask:
        """Return a mask of the numbers that do not fit 64 bits."""
        return np.zeros(len(self), np.bool_) if self.beyond is None else self.beyond != 0

    def _at_most(self, bound: int) -> Mask:
        return ~self._compared(bound, np.greater)

    def _is_below(self, bound: int) -> Mask:
        return self._compared(bound, np.less)

    def _compared(self, bound: int, compare: np.ufunc) -> Mask:
        beyond, low = _words_of(bound)
        if self.beyond is None:
            at = np.sign(-beyond)
            return compare(self.low, low) if at == 0 else np.full(len(self), bool(compare(at, 0)))
        found: Mask = compare(self.beyond, beyond) | ((self.beyond == beyond) & compare(self.low, low))
        return found

    def floats(self) -> Floats:
        """Return the nearest float64 of each number."""
        if self.beyond is None:
            return self.low.astype(np.float64)
        return exact_sum.evaluate(self.limbs(), len(self))

    def decimals(self, kind: pa.DataType, none: Mask | None = None) -> pa.Array:
        """Return the numbers as units of a decimal type; null where `none` is true."""
        low, beyond = self.words()
        words = np.empty((len(low), 2), np.int64)
        words[:, 0], words[:, 1] = low, beyond - (low < 0)
        valid = None
        if none is not None and none.any():
            valid = pa.py_buffer(np.packbits(~none, bitorder="little").tobytes())
        return pa.Array.from_buffers(kind, len(low), [valid, pa.py_buffer(words.tobytes())])

    def means(self, counts: Ints, digits: int) -> Units:
        """Divide by counts, with `digits` more digits, rounded half up. A count of 0 is treated as
        1."""
        counts, scale = np.maximum(counts, 1), 10**digits
        if self.beyond is None and len(self):
            largest = max(int(self.low.max()), -int(self.low.min()))
            if 2 * largest * scale + int(counts.max()) < _HIGH:
                signs, sizes = np.sign(self.low), np.abs(self.low) * scale
                return Units(signs * ((2 * sizes + counts) // (2 * counts)))
        low, beyond = self.words()
        found = []
        for one, other, count in zip(low.tolist(), beyond.tolist(), counts.tolist(), strict=True):
            number = (other << 64) + one
            size = (2 * abs(number) * scale + count) // (2 * count)
            found.append(_words_of(-size if number < 0 else size))
        return _of_words(found)


def decimal_mean(total: Decimal, count: int) -> Decimal:
    """Return the mean of decimals of one scale, computed like `Units.means`."""
    scale = -int(total.as_tuple().exponent)
    unit = Decimal(1).scaleb(-min(scale + _MEAN_DIGITS, MOST_DIGITS))
    return _EXACT.divide(total, Decimal(count)).quantize(unit, context=_EXACT)


def decimal_sum(one: Decimal, other: Decimal) -> Decimal:
    """Return the exact sum of two decimals."""
    return _EXACT.add(one, other)


def _of_decimals(column: pa.Array) -> Units:
    if not pa.types.is_decimal128(column.type):
        column = column.cast(pa.decimal128(MOST_DIGITS, column.type.scale))
    _, data = column.buffers()
    length, offset = len(column), column.offset
    words = np.frombuffer(data, np.int64, 2 * length, 16 * offset).reshape(-1, 2) if length else None
    if words is None:
        return Units(np.zeros(0, np.int64))
    low, beyond = words[:, 0], words[:, 1] + (words[:, 0] < 0)
    if column.null_count:
        there = column.is_valid().to_numpy(zero_copy_only=False)
        low, beyond = np.where(there, low, 0), np.where(there, beyond, 0)
    return Units(low, beyond if beyond.any() else None)


def _words_of(number: int) -> tuple[int, int]:
    """Return `beyond` and `low` of one number."""
    beyond = (number + _HIGH) >> 64
    return beyond, number - (beyond << 64)


def _of_words(found: list[tuple[int, int]]) -> Units:
    most = (1 << 63) - 1
    beyond = np.array([min(max(each, -most), most) for each, _ in found], np.int64)
    return Units(np.array([low for _, low in found], np.int64), beyond if beyond.any() else None)
