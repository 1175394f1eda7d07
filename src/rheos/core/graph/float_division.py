"""Division of floats by a constant.

Polars multiplies by the reciprocal of a constant, so the last digit of `0.3 / 0.1` differs from that
for a column of divisors. `exact_decimals` replaces such divisions by the functions of this module,
which divide by the constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

DIVISIONS: Final = ("TrueDivide", "Divide", "FloorDivide", "Modulus")
"""Polars' names of the operations."""


@dataclass(frozen=True)
class FloatDivision:
    """A quotient, a quotient rounded down, or a remainder. Both columns are cast to floats first."""

    op: str
    kind: pl.DataType

    def __call__(self, columns: Sequence[pl.Series]) -> pl.Series:
        one, other = (column.cast(self.kind) for column in columns)
        with np.errstate(all="ignore"):
            made = pl.Series(self._computed(one.to_numpy(), other.to_numpy()), dtype=self.kind)
        if one.null_count() == other.null_count() == 0:
            return made
        nothing = pl.Series([None], dtype=self.kind)
        return made.zip_with(one.is_not_null() & other.is_not_null(), nothing)

    def _computed(self, one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[Any]:
        quotient: npt.NDArray[Any] = np.true_divide(one, other)
        if self.op == "FloorDivide":
            quotient = np.floor(quotient)
        elif self.op == "Modulus":
            quotient = one - np.floor(quotient) * other
        return quotient
