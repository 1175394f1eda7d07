"""Columns with the limbs of exact sums: their names, their values, and their range in storage.

A frame has one column of limbs per sum and bin. In snapshots each limb that is not zero is a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from rheos.core.aggregates import exact_sum
from rheos.core.aggregates.contract import SQUARES, UNITS
from rheos.core.aggregates.units import Units

EXACT = "exact."
"""Prefix of columns of limbs: "exact.column.bin"."""
LIMB = (COLUMN, BIN, LIMB_VALUE) = "column", "bin", "limb"
"""Columns of a table with one limb per row."""


def limbs_of_values(column: str, values: pl.Series) -> list[pl.Series]:
    """Return the limbs of each value of an exact sum; `column` is the name of its state. A null adds
    nothing."""
    if column.startswith(UNITS):
        units = Units.of(values.to_arrow())
        return [pl.Series(f"{EXACT}{column}.{bin}", limb) for bin, limb in units.limbs().items()]
    if values.dtype.is_decimal():
        values = values.cast(pl.Float64)
    numbers = (values.fill_null(0) if values.null_count() else values).to_numpy()
    squared = column.startswith(SQUARES)
    if values.dtype.is_integer():
        wide: Any = numbers.astype(np.uint64 if values.dtype == pl.UInt64 else np.int64, copy=False)
        whole = exact_sum.decompose_integer_squares if squared else exact_sum.decompose_integers
        limbs = whole(wide)
    else:
        floats = numbers.astype(np.float64, copy=False)
        limbs = exact_sum.decompose_squares(floats) if squared else exact_sum.decompose(floats)
    return [pl.Series(f"{EXACT}{column}.{bin}", limb) for bin, limb in limbs.items()]


def summed_column(name: str) -> str:
    """Return the input column of an exact sum, by the name of its state."""
    if name.startswith(UNITS):
        return name.removeprefix(UNITS).partition(".")[2]
    return name.removeprefix(SQUARES)


def limb_columns(frame: pl.DataFrame) -> list[str]:
    """Return the names of all columns of limbs."""
    return [name for name in frame.columns if name.startswith(EXACT)]


def limbs_of(frame: pl.DataFrame, column: str) -> exact_sum.Limbs:
    """Return the limbs of one exact sum, by bin."""
    prefix = f"{EXACT}{column}."
    return {
        int(name.removeprefix(prefix)): frame[name].to_numpy()
        for name in frame.columns
        if name.rpartition(".")[0] + "." == prefix
    }


def carried(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with the limbs of exact sums in the range that may be stored."""
    large: dict[str, None] = {}
    for name in limb_columns(frame):
        limb = frame[name].to_numpy()
        if len(limb) and max(int(limb.max()), -int(limb.min())) > exact_sum.STORED:
            large[name.removeprefix(EXACT).rpartition(".")[0]] = None
    for column in large:
        limbs = exact_sum.carry(limbs_of(frame, column))
        frame = frame.with_columns(
            [pl.Series(f"{EXACT}{column}.{bin}", limb) for bin, limb in limbs.items()]
        )
    return frame
