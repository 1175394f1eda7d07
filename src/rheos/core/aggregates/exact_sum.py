"""Sums of floats that do not depend on the order of the rows: exact sums, in limbs.

Every finite float64 is an integer number of units of 2**-1088. An exact sum is stored as *limbs*: int64
multiples of 2**(32 * bin) for bins from -34 to 31,

    sum  =  ...  +  limb[-1] * 2**-32  +  limb[0]  +  limb[1] * 2**32  +  ...

A value has at most three limbs of 32 bits, with its sign. Sums are added limb by limb, as integers:
exactly, so in any order and grouping. Limbs need not be canonical. `carry` reduces them to 32 bits,
which makes room for 2**30 further additions in an int64. `evaluate` rounds the sum to the nearest
float64, once, ties to even. Only bins that occur are stored: integers below 2**32 have one.

NaN and the infinities are counted in separate bins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Limbs: TypeAlias = dict[int, npt.NDArray[np.int64]]
"""Limbs of many sums: for each bin, one limb per sum."""

NAN, POSITIVE_INFINITY, NEGATIVE_INFINITY = 100, 101, 102

_BITS = 32
_MASK = (1 << _BITS) - 1
_HALF = 1 << (_BITS - 1)

STORED = 1 << 40
"""Size of a limb from which it is carried, so that 2**22 partial sums can be added at once."""


def decompose(values: Floats) -> Limbs:
    """Return the limbs of each value."""
    if not len(values):
        return {}
    limbs: Limbs = {}
    if not (math.isfinite(values.max()) and math.isfinite(values.min())):
        for bin, where in (
            (NAN, np.isnan(values)),
            (POSITIVE_INFINITY, values == np.inf),
            (NEGATIVE_INFINITY, values == -np.inf),
        ):
            if where.any():
                limbs[bin] = where.astype(np.int64)
        values = np.where(np.isfinite(values), values, 0.0)
    rest = values
    # Each step removes the part above the bin. It is exact, because scaling by a power of two is exact,
    # and the subtracted part consists of leading bits. Integers are done after the first step.
    while peak := max(float(rest.max()), -float(rest.min())):
        bin = (math.frexp(peak)[1] - 1) // _BITS
        whole = np.trunc(_scaled(rest, -bin))
        limbs[bin] = whole.astype(np.int64)
        rest = rest - _scaled(whole, bin)
    return limbs


def decompose_integers(values: npt.NDArray[np.int64] | npt.NDArray[np.uint64]) -> Limbs:
    """Return the limbs of each 64-bit integer."""
    return {0: (values & _MASK).astype(np.int64), 1: (values >> _BITS).astype(np.int64)}


def decompose_squares(values: Floats) -> Limbs:
    """Return the limbs of the square of each value. They are exact, except for squares below 2**-968
    and squares beyond the range of floats, which are infinite."""
    with np.errstate(all="ignore"):
        high, low = _product(values, values)
    return _add_limbs(decompose(high), decompose(np.where(np.isfinite(low), low, 0.0)))


def decompose_integer_squares(values: npt.NDArray[np.int64] | npt.NDArray[np.uint64]) -> Limbs:
    """Return the limbs of the square of each 64-bit integer."""
    low, high = values & _MASK, values >> _BITS
    squares: Limbs = decompose_integers(low.astype(np.uint64) ** 2)
    for shift, times, product in ((1, 2, low.astype(high.dtype) * high), (2, 1, high * high)):
        limbs = decompose_integers(product)
        squares = _add_limbs(squares, {bin + shift: limb * times for bin, limb in limbs.items()})
    return squares


def variances(
    sums: Mapping[int, npt.NDArray[np.int64]],
    squares: Mapping[int, npt.NDArray[np.int64]],
    counts: npt.NDArray[np.int64],
    ddof: int,
) -> Floats:
    """Return (squares - sums**2 / counts) / (counts - ddof) for each position; arbitrary where counts
    <= ddof."""
    n = np.maximum(counts, 1)
    total = _times(sums, sums)
    scaled = _times(squares, decompose_integers(n))
    apart = _add_limbs(scaled, {bin: -limb for bin, limb in total.items()})
    with np.errstate(all="ignore"):
        high, low = _two_floats(carry(apart), len(n))
        divisor = n.astype(np.float64) * np.maximum(n - ddof, 1)
        quotient = high / divisor
        back, lost = _product(quotient, divisor)
        rest = ((high - back) - lost + low) / divisor
        # Near the largest floats the product cannot be split, and no correction is possible.
        variances: Floats = quotient + np.where(np.isfinite(rest), rest, 0.0)
    for bin in (NAN, POSITIVE_INFINITY, NEGATIVE_INFINITY):
        for limbs in (sums, squares):
            if bin in limbs:
                variances[limbs[bin] > 0] = np.nan
    return variances


def _times(
    first: Mapping[int, npt.NDArray[np.int64]], second: Mapping[int, npt.NDArray[np.int64]]
) -> Limbs:
    """Return the product of each pair of sums, ignoring values that are not finite."""
    left, right = carry(first), carry(second)
    product: Limbs = {}
    for (low, one), (high, other) in itertools.product(left.items(), right.items()):
        if low < NAN and high < NAN:
            # The sum has at most 62 bits, because limbs have 31 bits and a sign.
            both, bin = one * other, low + high
            product = _add_limbs(product, {bin: both & _MASK, bin + 1: both >> _BITS})
    return product


def _two_floats(limbs: Mapping[int, npt.NDArray[np.int64]], length: int) -> tuple[Floats, Floats]:
    """Return each sum as two floats: the nearest float, and the nearest float of the remainder."""
    high = evaluate(limbs, length)
    nearest = decompose(np.where(np.isfinite(high), high, 0.0))
    return high, evaluate(_add_limbs(limbs, {bin: -limb for bin, limb in nearest.items()}), length)


def _add_limbs(first: Mapping[int, npt.NDArray[np.int64]], second: Limbs) -> Limbs:
    total: Limbs = dict(first)
    for bin, limb in second.items():
        total[bin] = total[bin] + limb if bin in total else limb
    return total


_SPLIT = 2.0**27 + 1


def _product(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Return the product, and its rounding error."""
    product = left * right
    left_high = left * _SPLIT - (left * _SPLIT - left)
    right_high = right * _SPLIT - (right * _SPLIT - right)
    left_low, right_low = left - left_high, right - right_high
    lost = left_high * right_high - product
    lost += left_high * right_low + left_low * right_high
    return product, lost + left_low * right_low


def _scaled(values: Floats, bins: int) -> Floats:
    """Return values * 2**(32 * bins), exactly if the result is representable."""
    if abs(bins) < 32:
        return values * 2.0 ** (_BITS * bins)
    scaled: Floats = np.ldexp(values, _BITS * bins)
    return scaled


def carry(limbs: Mapping[int, npt.NDArray[np.int64]]) -> Limbs:
    """Return the same sums in limbs of at most 32 bits: |limb| <= 2**31."""
    carried: Limbs = {bin: limbs[bin] for bin in limbs if bin >= NAN}
    bins = [bin for bin in limbs if bin < NAN]
    over: npt.NDArray[np.int64] | None = None
    bin, highest = min(bins, default=0), max(bins, default=-1)
    while bin <= highest or over is not None:
        limb = limbs.get(bin)
        if over is not None:
            limb = over if limb is None else over + limb
            over = None
        if limb is not None:
            # Rounding to the nearest keeps a small negative limb; rounding down would carry -1 forever.
            carry = (limb + _HALF) >> _BITS
            carried[bin] = limb - (carry << _BITS)
            over = carry if carry.any() else None
        bin += 1
    return carried


def evaluate(limbs: Mapping[int, npt.NDArray[np.int64]], length: int) -> Floats:
    """Return the nearest float64 of each of `length` sums; infinite if the sum is too large."""
    bins = [bin for bin in limbs if bin < NAN]
    sums = _nearest(limbs, sorted(bins), length) if bins and length else np.zeros(length)
    none = np.zeros(length, dtype=np.int64)
    positive = limbs.get(POSITIVE_INFINITY, none) > 0
    negative = limbs.get(NEGATIVE_INFINITY, none) > 0
    sums[positive] = np.inf
    sums[negative] = -np.inf
    sums[(limbs.get(NAN, none) > 0) | (positive & negative)] = np.nan
    return sums


_FLOAT_BITS = 53
_FEW_BINS = 4
"""Number of bins up to which two floats usually hold a sum. Wider magnitudes need more bits."""
_NEAR = 20
"""Number of the bin up to which sums are far from the largest and the smallest floats."""


def _nearest(limbs: Mapping[int, npt.NDArray[np.int64]], bins: list[int], length: int) -> Floats:
    """Return the sums of finite limbs, rounded."""
    found = _added_as_floats(limbs, bins)
    if found is None:
        return _rounded(limbs, bins[0], bins[-1])
    sums, lost = found
    if lost.any():
        left = {bin: limbs[bin][lost] for bin in bins}
        sums[lost] = _rounded(left, bins[0], bins[-1])
    return sums


def _added_as_floats(
    limbs: Mapping[int, npt.NDArray[np.int64]], bins: list[int]
) -> tuple[Floats, npt.NDArray[np.bool_]] | None:
    """Return the sums as two floats, added with one rounding, and a mask of the sums that lost more.
    Return None if a limb is not exactly a float. Most sums fit in two floats, and adding these takes a
    tenth of the time."""
    if len(bins) > _FEW_BINS or bins[0] < -_NEAR or bins[-1] > _NEAR:
        return None
    largest = max(max(int(limbs[bin].max()), -int(limbs[bin].min())) for bin in bins)
    if largest >> _FLOAT_BITS:
        return None
    high, *others = (_scaled(limbs[bin].astype(np.float64), bin) for bin in reversed(bins))
    low = np.zeros(len(high))
    lost = np.zeros(len(high), dtype=np.bool_)
    for other in others:
        high, rest = _sum(high, other)
        low, gone = _sum(low, rest)
        lost |= gone != 0
    return high + low, lost


def _sum(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Return the sum, and its rounding error."""
    total = left + right
    of_right = total - left
    return total, (left - (total - of_right)) + (right - of_right)


def _rounded(limbs: Mapping[int, npt.NDArray[np.int64]], lowest: int, highest: int) -> Floats:
    length = len(limbs[lowest])
    _, sign = _digits(limbs, lowest, highest, np.ones(length, dtype=np.int64))
    digits, _ = _digits(limbs, lowest, highest, sign)

    # The three digits from the highest nonzero one have at least 65 bits. Of the digits below them, it
    # only matters whether any is nonzero.
    occupied = digits != 0
    top = len(digits) - 1 - np.argmax(occupied[::-1], axis=0)
    column = np.arange(length)
    high, middle, low = (digits[top - k, column] for k in range(3))
    sticky = np.logical_or.accumulate(occupied, axis=0)[top - 3, column]

    shift = (_BITS - np.frexp(high.astype(np.float64))[1]).astype(np.uint64)
    shift[high == 0] = 0
    word = ((high << np.uint64(_BITS)) | middle) << shift
    word |= low >> (np.uint64(_BITS) - shift)
    sticky |= (low << shift) & np.uint64(_MASK) != 0
    word |= sticky.astype(np.uint64)
    # The conversion rounds 64 bits to 53, ties to even. The scaling is exact: a sum so small that it
    # would be rounded again has no bits to lose, as all floats are multiples of the smallest one.
    exponent = _BITS * (top + (lowest - _PADDING) - 1) - shift.astype(np.int64)
    with np.errstate(over="ignore"):
        sums: Floats = np.ldexp(word.astype(np.float64), exponent) * sign
    return sums + 0.0


_PADDING = 3
"""Number of zero digits below the lowest bin, so that each digit has three lower ones."""


def _digits(
    limbs: Mapping[int, npt.NDArray[np.int64]],
    lowest: int,
    highest: int,
    sign: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return the digits of each sum times its sign, 32 bits each, lowest first; and a factor of 1 or
    -1.

    Multiplied by the factor, the digits represent a number that is not negative.
    """
    length = len(sign)
    # Two more digits have room for what an int64 limb can carry.
    digits = np.zeros((_PADDING + highest - lowest + 3, length), dtype=np.uint64)
    over = np.zeros(length, dtype=np.int64)
    for bin in range(lowest, highest + 3):
        limb = over + limbs[bin] * sign if bin in limbs else over
        over = limb >> _BITS
        digits[_PADDING + bin - lowest] = limb & _MASK
    return digits, np.where(over < 0, -1, 1)
