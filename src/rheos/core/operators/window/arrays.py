"""Columns of window state as arrays: which columns qualify, and the neutral elements of merging."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl


def fits(column: pl.Series, reduce: np.ufunc) -> bool:
    """Return whether `reduce` has the same result for the values as Polars: `add` of int64, `minimum`
    and `maximum` of numbers. Nulls and NaN do not qualify."""
    if column.null_count():
        return False
    if reduce is np.add:
        return column.dtype == pl.Int64
    kind = column.dtype
    return kind.is_integer() or (kind.is_float() and not np.isnan(column.to_numpy()).any())


def identity(reduce: np.ufunc, kind: np.dtype[Any]) -> float:
    """Return the neutral element of a reduction: merging it with a value returns the value."""
    if reduce is np.add:
        return 0
    if kind.kind == "f":
        return -math.inf if reduce is np.maximum else math.inf
    bounds = np.iinfo(kind)
    return int(bounds.min if reduce is np.maximum else bounds.max)


def has_nan(values: pl.Series) -> bool:
    """Return whether a column of floats contains NaN."""
    if values.null_count() or not values.len():
        return bool(values.is_nan().any())
    return bool(np.isnan(values.to_numpy().max()))  # Several times faster than `is_nan().any()`.
