"""Sums of integers that detect overflow.

A sum is kept as an int64 modulo 2**64, together with the multiple of 2**64 by which it exceeds that
int64. Both depend only on the rows, so a sum may leave the range of 64 bits and return, in any order
and grouping. The code checks the least and the greatest value first. If they show that no sum can
overflow, which is nearly always the case, it does nothing more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from rheos.core.aggregates.segments import Ints, Numbers, Segments
from rheos.core.aggregates.sum_too_large import SumTooLarge

_WORD = 1 << 32
_LIMIT = 1 << 63


def may_be_beyond(values: pl.Series) -> bool:
    """Return whether a sum of some of the values might exceed 64 bits."""
    low, high = values.min(), values.max()
    return low is not None and _largest(low, high) * len(values) >= _LIMIT


def beyond(values: pl.Expr) -> pl.Expr:
    """Return the multiple of 2**64 by which a sum of integers exceeds its int64 value."""
    low = (values % _WORD).cast(pl.Int64).sum()
    high = (values // _WORD).cast(pl.Int64).sum()
    return (high + low // _WORD - wrapped(values) // _WORD) // _WORD


def wrapped(values: pl.Expr) -> pl.Expr:
    """Return the sum modulo 2**64."""
    return _as_int64(values).sum()


def each_as_int64(values: pl.Expr) -> pl.Expr:
    """Return the values modulo 2**64; a null becomes 0."""
    return _as_int64(values).fill_null(0)


def _as_int64(values: pl.Expr) -> pl.Expr:
    return values.cast(pl.Int64, wrap_numerical=True)


def check_running(rows: Segments, values: Numbers, carry: Ints, sums: Ints) -> None:
    """Find the first running sum beyond 64 bits, and raise SumTooLarge for it. `values` and `sums` are
    sorted; `carry` has the initial value of each segment."""
    largest = _largest(values.min(), values.max())
    if largest * rows.rows + _largest(carry.min(), carry.max()) < _LIMIT:
        return
    added = values.astype(np.int64, copy=False)
    before = sums - added
    wraps = ((before ^ sums) & (added ^ sums)) < 0
    if values.dtype == np.uint64:
        wraps |= values >= _LIMIT
    if wraps.any():
        raise SumTooLarge(int(rows.order[wraps].min()))


def check_one(row: int, total: int) -> None:
    """Raise SumTooLarge if the sum that includes the value of one row is beyond 64 bits."""
    if not -_LIMIT <= total < _LIMIT:
        raise SumTooLarge(row)


def _largest(low: Any, high: Any) -> int:
    return max(int(high), -int(low))
