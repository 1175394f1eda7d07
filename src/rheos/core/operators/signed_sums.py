"""Sums of values that may be retracted: stored by key, and used for the results of `sum` and `mean`.

A stored sum of integers or decimals may exceed 64 bits. Only the result of `sum` has to fit its type.
So `mean` has no such limit, and both share one state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.aggregates.contract import Agg, RunningForm, State
from rheos.core.aggregates.mean import averaged_type, means
from rheos.core.aggregates.segments import Ints, Segments
from rheos.core.aggregates.sum import DecimalSumCell, Sum, summed_type, sums_of_decimals
from rheos.core.aggregates.sum_too_large import SumTooLarge
from rheos.core.aggregates.units import MOST_DIGITS, Units


def signed(values: pa.Array, signs: Ints) -> pa.Array:
    """Return each value with its sign, which may be zero: float64, int64, or decimals of 38 digits."""
    if pa.types.is_floating(values.type):
        return pc.multiply(values.cast(pa.float64()), pa.array(signs, pa.float64()))
    units = Units.of(values)
    if not pa.types.is_decimal(values.type) and _negatable(units):
        return pa.array(units.low * signs, mask=values.is_null().to_numpy(zero_copy_only=False))
    scale = values.type.scale if pa.types.is_decimal(values.type) else 0
    wide = pa.decimal128(MOST_DIGITS, scale)
    given = values.cast(wide) if pa.types.is_decimal(values.type) else units.decimals(wide)
    zero = pa.scalar(0).cast(wide)
    positive = pc.if_else(pa.array(signs > 0), given, zero)
    made = pc.if_else(pa.array(signs < 0), pc.negate(given), positive)
    return pc.if_else(values.is_valid(), made, pa.scalar(None, wide))


def _negatable(units: Units) -> bool:
    """Return whether the numbers and their negatives fit 64 bits."""
    return units.beyond is None and (not len(units) or int(units.low.min()) > -(1 << 63))


def kept_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of what `signed` returns for values of a type, in its widest form."""
    if pa.types.is_decimal(kind):
        return pa.decimal128(MOST_DIGITS, kind.scale)
    return summed_type(kind)


@dataclass(frozen=True)
class SignedSum(Agg):
    """The sum of the values that `signed` returned. Its running values are float64 or int64, or
    decimals if a sum exceeds 64 bits."""

    kind: ClassVar[str] = "sum"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        return self._type(schema)

    def windowed(self, schema: pa.Schema) -> State:
        raise NotImplementedError

    def running(self, schema: pa.Schema) -> RunningForm:
        kind = self._type(schema)
        if pa.types.is_floating(kind):
            return Sum(self.column).running(schema)
        return RunningForm(partial(_SignedCell, kind), kind)

    running_value = staticmethod(Sum.running_value)


class _SignedCell(DecimalSumCell):
    """Decimal sums of up to 38 digits. Sums of integers are int64 if all sums of a batch fit."""

    def __init__(self, kind: pa.DataType) -> None:
        self._integers = not pa.types.is_decimal(kind)
        super().__init__(pa.decimal128(MOST_DIGITS, 0 if self._integers else kind.scale))

    def _results(
        self, rows: Segments, sums: Units, large: np.ndarray | None, none: np.ndarray | None
    ) -> pa.Array:
        if self._integers and sums.beyond is None:
            return pa.array(rows.scatter(sums.low), mask=none)
        return super()._results(rows, sums, large, none)


def sum_of_signed(total: pa.Array, counts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the sums, for values of type `kind`; null for a count of 0. Raise SumTooLarge."""
    made = summed_type(kind)
    if pa.types.is_floating(made):
        return pc.if_else(pc.greater(counts, 0), total, pa.scalar(None, made))
    none = _is_empty(counts)
    units = Units.of(total)
    if pa.types.is_decimal(made):
        return sums_of_decimals(units, none, made)
    outside = units.outside_int64() & ~none
    if outside.any():
        raise SumTooLarge(int(outside.argmax()))
    return pa.array(units.low, mask=none)


def mean_of_signed(total: pa.Array, counts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the means, for values of type `kind`; null for a count of 0. Raise SumTooLarge."""
    none, of = _is_empty(counts), counts.to_numpy(zero_copy_only=False)
    if pa.types.is_floating(total.type):
        sums = total.fill_null(0).to_numpy(zero_copy_only=False)
        return pa.array(sums / np.maximum(of, 1), mask=none)
    made = averaged_type(kind)
    digits = made.scale - kind.scale if pa.types.is_decimal(kind) else 0
    return means(Units.of(total), of, none, made, digits)


def _is_empty(counts: pa.Array) -> np.ndarray:
    nothing: np.ndarray = counts.to_numpy(zero_copy_only=False) <= 0
    return nothing
