"""Sums of values that are also taken back: kept by key, and finished as the aggregates want them.

A sum of integers or decimals may be beyond 64 bits on the way: whether it fits is asked of the result.
So `mean` has no bound that `sum` has, and both share one state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.aggregates.cells import At, Cell, Frozen, SeenKeys
from rheos.aggregates.contract import Agg, Running, State
from rheos.aggregates.mean import averaged_type, means
from rheos.aggregates.running_units import RunningUnits
from rheos.aggregates.segments import Ints, Segments
from rheos.aggregates.sum import Sum, first_row, limit_of, scattered, summed_type, sums_of_decimals
from rheos.aggregates.sum_too_large import SumTooLarge
from rheos.aggregates.units import MOST_DIGITS, Units


def signed(values: pa.Array, signs: Ints) -> pa.Array:
    """Each value with its sign, which may be zero: float64, int64, or decimals of 38 digits."""
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
    """Whether the numbers and their negatives fit 64 bits."""
    return units.beyond is None and (not len(units) or int(units.low.min()) > -(1 << 63))


def kept_type(kind: pa.DataType) -> pa.DataType:
    """The type of what `signed` returns for values of a type, in its widest form."""
    if pa.types.is_decimal(kind):
        return pa.decimal128(MOST_DIGITS, kind.scale)
    return summed_type(kind)


@dataclass(frozen=True)
class SignedSum(Agg):
    """The sum of what `signed` returned. Its running values are float64, int64, or decimals if some sum
    is beyond 64 bits."""

    kind: ClassVar[str] = "sum"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        return self._type(schema)

    def windowed(self, schema: pa.Schema) -> State:
        raise NotImplementedError

    def running(self, schema: pa.Schema) -> Running:
        kind = self._type(schema)
        if pa.types.is_floating(kind):
            return Sum(self.column).running(schema)
        return Running(partial(_SignedCell, kind), kind)

    running_value = staticmethod(Sum.running_value)


class _SignedCell(Cell):
    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        scale = kind.scale if pa.types.is_decimal(kind) else 0
        self._wide = pa.decimal128(MOST_DIGITS, scale)
        self._units = RunningUnits()
        self._seen = SeenKeys()

    def grow(self, slots: int) -> None:
        self._units.grow(slots)
        self._seen.grow(slots)

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        """Raises SumTooLarge, for sums of more than 38 digits."""
        assert column is not None
        unseen = self._seen.run(rows, column)
        sums, large = self._units.run(rows, Units.of(column).take(rows.order))
        none = None if unseen is None else rows.scatter(unseen)
        if sums.beyond is None and not pa.types.is_decimal(self._kind):
            return pa.array(rows.scatter(sums.low), mask=none)
        outside = sums.outside(MOST_DIGITS)
        if large is not None:
            outside |= large
        if outside.any():
            raise SumTooLarge(first_row(rows, outside), limit=limit_of(self._wide))
        return scattered(rows, sums).decimals(self._wide, none)

    def freeze(self, at: At) -> dict[str, Frozen]:
        return self._units.freeze(at) | {"seen": self._seen.freeze(at)}

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        self._units.thaw(slots, parts)
        self._seen.thaw(slots, parts["seen"])


def sum_of_signed(total: pa.Array, counts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The sums, of values of type `kind`; null where nothing counts. Raises SumTooLarge."""
    made = summed_type(kind)
    if pa.types.is_floating(made):
        return pc.if_else(pc.greater(counts, 0), total, pa.scalar(None, made))
    none = _nothing(counts)
    units = Units.of(total)
    if pa.types.is_decimal(made):
        return sums_of_decimals(units, none, made)
    outside = units.outside_int64() & ~none
    if outside.any():
        raise SumTooLarge(int(outside.argmax()))
    return pa.array(units.low, mask=none)


def mean_of_signed(total: pa.Array, counts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The means, of values of type `kind`; null where nothing counts. Raises SumTooLarge."""
    none, of = _nothing(counts), counts.to_numpy(zero_copy_only=False)
    if pa.types.is_floating(total.type):
        sums = total.fill_null(0).to_numpy(zero_copy_only=False)
        return pa.array(sums / np.maximum(of, 1), mask=none)
    made = averaged_type(kind)
    digits = made.scale - kind.scale if pa.types.is_decimal(kind) else 0
    return means(Units.of(total), of, none, made, digits)


def _nothing(counts: pa.Array) -> np.ndarray:
    nothing: np.ndarray = counts.to_numpy(zero_copy_only=False) <= 0
    return nothing
