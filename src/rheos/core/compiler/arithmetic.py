"""Python's arithmetic on 64 bits, compiled.

If Python would raise an error, or a result does not fit 64 bits, the function records a failure. Its
last arguments are the array that receives the failure, and the numbers of the possible failures. The
returned value is then arbitrary, because the row fails. Only the first failure is recorded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

_compiled: Any = njit(error_model="numpy")

_LEAST = -(1 << 63)
_MOST = (1 << 63) - 1
_HALF = 1 << 31
_EXACT = 1 << 53
"""Bound up to which integers are exact as floats."""


@_compiled
def fail(failed, number):  # type: ignore[no-untyped-def]
    if failed[0] == 0:
        failed[0] = number


# Overflow is checked before the operation: the compiler assumes that none happens.


@_compiled
def add(a, b, failed, number):  # type: ignore[no-untyped-def]
    if (b > 0 and a > _MOST - b) or (b < 0 and a < _LEAST - b):
        fail(failed, number)
        return a
    return a + b


@_compiled
def sub(a, b, failed, number):  # type: ignore[no-untyped-def]
    if (b < 0 and a > _MOST + b) or (b > 0 and a < _LEAST + b):
        fail(failed, number)
        return a
    return a - b


@_compiled
def mul(a, b, failed, number):  # type: ignore[no-untyped-def]
    if -_HALF <= a < _HALF and -_HALF <= b < _HALF:
        return a * b
    if a == 0 or b == 0 or a == 1 or b == 1:
        return a * b
    if a == -1 or b == -1:
        return neg(a, failed, number) if b == -1 else neg(b, failed, number)
    # Quotients rounded down: the smallest a for b > 0, and the largest for b < 0, without overflow.
    if b > 0:
        too_large = a > _MOST // b or a < -(_MOST // b) - (1 if (_MOST % b) + 1 == b else 0)
    else:
        too_large = a < -(_MOST // -b) or a > (_MOST // -b) + (1 if (_MOST % -b) + 1 == -b else 0)
    if too_large:
        fail(failed, number)
        return a
    return a * b


@_compiled
def neg(a, failed, number):  # type: ignore[no-untyped-def]
    if a == _LEAST:
        fail(failed, number)
        return a
    return -a


@_compiled
def floordiv(a, b, failed, zero, number):  # type: ignore[no-untyped-def]
    if b == 0:
        fail(failed, zero)
        return a
    if b == -1:
        return neg(a, failed, number)
    return a // b


@_compiled
def mod(a, b, failed, zero):  # type: ignore[no-untyped-def]
    if b == 0:
        fail(failed, zero)
        return a
    if b == -1:
        return a - a
    return a % b


@_compiled
def truediv(a, b, failed, zero, number):  # type: ignore[no-untyped-def]
    if b == 0:
        fail(failed, zero)
        return 0.0
    if a > _EXACT or a < -_EXACT or b > _EXACT or b < -_EXACT:
        fail(failed, number)
    return float(a) / float(b)


@_compiled
def truediv_float(a, b, failed, zero):  # type: ignore[no-untyped-def]
    if b == 0.0:
        fail(failed, zero)
        return 0.0
    return a / b


@_compiled
def mod_float(a, b, failed, zero):  # type: ignore[no-untyped-def]
    if b == 0.0:
        fail(failed, zero)
        return 0.0
    left = np.fmod(a, b)
    if left != 0.0:
        if (b < 0.0) != (left < 0.0):
            left += b
    else:
        left = math.copysign(0.0, b)
    return left


@_compiled
def floordiv_float(a, b, failed, zero):  # type: ignore[no-untyped-def]
    if b == 0.0:
        fail(failed, zero)
        return 0.0
    left = np.fmod(a, b)
    made = (a - left) / b
    if left != 0.0 and (b < 0.0) != (left < 0.0):
        made -= 1.0
    if made == 0.0:
        return math.copysign(0.0, a / b)
    floor = np.floor(made)
    if made - floor > 0.5:
        floor += 1.0
    return floor


@_compiled
def compare(a, b):  # type: ignore[no-untyped-def]
    """Compare an integer with a float exactly. Return -1, 0 or 1; 2 if they are not comparable."""
    if b != b:
        return 2
    if b >= 9223372036854775808.0:
        return -1
    if b < -9223372036854775808.0:
        return 1
    floor = np.floor(b)
    whole = np.int64(floor)
    if a != whole:
        return -1 if a < whole else 1
    return -1 if b > floor else 0


@_compiled
def truncated(a, failed, nan, infinite, number):  # type: ignore[no-untyped-def]
    """Return int() of a float."""
    if a != a:
        fail(failed, nan)
        return np.int64(0)
    if abs(a) == np.inf:
        fail(failed, infinite)
        return np.int64(0)
    if not -9223372036854775808.0 <= a < 9223372036854775808.0:
        fail(failed, number)
        return np.int64(0)
    return np.int64(a)


@_compiled
def sqrt(a, failed, number):  # type: ignore[no-untyped-def]
    if a < 0.0:
        fail(failed, number)
        return 0.0
    return math.sqrt(a)


@_compiled
def place(known, value):  # type: ignore[no-untyped-def]
    """Return the position of a value among sorted values; -1 if it is missing."""
    low, high = 0, len(known)
    while low < high:
        middle = (low + high) // 2
        if known[middle] < value:
            low = middle + 1
        else:
            high = middle
    if low < len(known) and known[low] == value:
        return low
    return -1


@_compiled
def grown(column):  # type: ignore[no-untyped-def]
    """Return the column with twice its length; the first half is copied."""
    more = np.empty(2 * len(column), column.dtype)
    more[: len(column)] = column
    return more


NAMES = {
    name: made
    for name, made in list(globals().items())
    if not name.startswith("_") and hasattr(made, "py_func")
}
"""Functions that generated code may call."""
