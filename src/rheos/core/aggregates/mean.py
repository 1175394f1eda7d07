"""`mean`: the sum divided by the count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.aggregates.cells import Cell, floats, numbers, placed
from rheos.core.aggregates.contract import (
    Agg,
    DecimalSum,
    ExactSum,
    IntegerSum,
    OneRowState,
    RunningForm,
)
from rheos.core.aggregates.count import CountCell
from rheos.core.aggregates.frames import FrameState
from rheos.core.aggregates.running_units import RunningUnits
from rheos.core.aggregates.segments import Ints, Segments
from rheos.core.aggregates.sum import (
    SumCell,
    SumFrame,
    check_decimal,
    first_row,
    limit_of,
    scattered,
    stored_units,
    summed_type,
    sums_of_decimals,
)
from rheos.core.aggregates.sum_too_large import SumTooLarge
from rheos.core.aggregates.units import MOST_DIGITS, Units, decimal_mean, mean_type
from rheos.core.native.running import NativeCell, NativeOperation


@dataclass(frozen=True)
class Mean(Agg):
    kind: ClassVar[str] = "mean"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        return averaged_type(self._number(schema))

    def windowed(self, schema: pa.Schema) -> OneRowState:
        assert self.column is not None
        kind = self._type(schema)
        if pa.types.is_decimal(kind):
            of_decimals = DecimalSum(self.column, kind, is_mean=True)
            return OneRowState([of_decimals], pl.when(of_decimals.count > 0).then(of_decimals.total))
        # The sum of 64-bit integers may be beyond int64 although their mean is not.
        wide = pa.types.is_integer(kind) and kind.bit_width == 64
        exact = wide or pa.types.is_floating(kind)
        part = ExactSum(self.column) if exact else IntegerSum(self.column)
        return OneRowState(
            [part], pl.when(part.count > 0).then(part.total.cast(pl.Float64) / part.count)
        )

    def running(self, schema: pa.Schema) -> RunningForm:
        kind = self._type(schema)
        stored = summed_type(kind)
        if pa.types.is_floating(kind):
            return RunningForm(partial(FloatMeanCell, stored), stored)
        return RunningForm(partial(MeanCell, kind), stored)

    def frame(self, schema: pa.Schema) -> Callable[[], FrameState]:
        return partial(MeanFrame, self._type(schema))

    @staticmethod
    def running_type(stored: pa.DataType) -> pa.DataType:
        if not pa.types.is_decimal(stored):
            return pa.float64()
        return pa.decimal128(MOST_DIGITS, stored.scale)

    @staticmethod
    def running_value(parts: Mapping[str, pa.Array], kind: pa.DataType) -> pa.Array:
        count = parts["count"]
        if pa.types.is_decimal(kind) or pa.types.is_integer(parts["sum"].type):
            none = pc.equal(count, 0).to_numpy(zero_copy_only=False)
            return means(stored_units(parts), count.to_numpy(), none, kind, digits=0)
        some = pc.if_else(pc.greater(count, 0), count, pa.scalar(None, count.type))
        return pc.divide(parts["sum"], some.cast(pa.float64(), safe=False))


def mean(column: str) -> Agg:
    """Return the arithmetic mean of a column, as float64.

    For DECIMAL(p, s) the result is DECIMAL(p + 4, s + 4), with at most 38 digits, rounded half up. A
    mean of decimals that does not fit its type ends the job with an InputError.

    ```python
    windows.aggregate(mean_price=rh.agg.mean("price"))
    ```

    Args:
        column: The column of numbers.

    Returns:
        The aggregate.
    """
    return Mean(column)


def averaged_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of means of values of a type."""
    return mean_type(kind) if pa.types.is_decimal(kind) else pa.float64()


def means(sums: Units, counts: Ints, none: Any, kind: pa.DataType, digits: int) -> pa.Array:
    """Divide sums by counts, with results of type `kind`; null where `none` is true. Means of decimals
    have `digits` more digits after the point than their sums. Raise SumTooLarge."""
    if not pa.types.is_decimal(kind):
        return pa.array(sums.floats() / np.maximum(counts, 1), mask=none)
    try:
        return sums_of_decimals(sums.means(counts, digits), none, kind)
    except SumTooLarge as error:
        raise SumTooLarge(error.row, what="mean", limit=limit_of(kind)) from None


class MeanCell(Cell):
    """The sum of integers or decimals divided by the count. The sum may be beyond 64 bits."""

    def __init__(self, kind: pa.DataType) -> None:
        """Create an empty cell. `kind` is the type of the values."""
        self._kind = averaged_type(kind)
        self._sum_kind = summed_type(kind)
        self._units = RunningUnits()
        self._count = CountCell()
        self.parts = {**self._units.parts, **self._count.parts}

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        """Compute the means as `Cell.run` does. Raise SumTooLarge."""
        assert column is not None
        counts = self._count.sorted_counts(rows, column)
        sums, large = self._units.run(rows, Units.of(column).take(rows.order))
        if not pa.types.is_decimal(self._kind):
            unseen = counts == 0
            made = sums.floats() / np.maximum(counts, 1)
            return placed(rows, made, unseen if unseen.any() else None)
        outside = sums.outside(self._sum_kind.precision)
        if large is not None:
            outside |= large
        if outside.any():
            raise SumTooLarge(first_row(rows, outside), limit=limit_of(self._sum_kind))
        counts = rows.scatter(counts)
        digits = self._kind.scale - self._sum_kind.scale
        return means(scattered(rows, sums), counts, counts == 0, self._kind, digits)

    def run_few(self, slots: Sequence[int], column: pa.Array | None) -> pa.Array | None:
        assert column is not None
        if column.null_count or self._units.is_wide() or pa.types.is_decimal(self._kind):
            return None
        totals = self._units.low.values
        sums: list[int] = []
        values = numbers(column, 0).tolist()
        for row, (slot, value) in enumerate(zip(slots, values, strict=True)):
            total = totals.item(slot) + value
            if not -_LIMIT <= total < _LIMIT:
                for back in reversed(range(row)):
                    totals[slots[back]] = sums[back] - values[back]
                return None
            totals[slot] = total
            sums.append(total)
        counts = self._count.counts_of_few(slots)
        return floats([float(sum) / count for sum, count in zip(sums, counts, strict=True)])

    def native(self) -> NativeCell | None:
        if self._units.is_wide() or pa.types.is_decimal(self._kind):
            return None
        counts = self._count.native().counts
        return NativeCell(NativeOperation.INT_MEAN, total=self._units.low.values, counts=counts)

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        self._units.thaw(slots, parts)
        self._count.thaw(slots, parts)


_LIMIT = 1 << 63


class FloatMeanCell(Cell):
    """The sum of floats divided by the count."""

    def __init__(self, kind: pa.DataType) -> None:
        self._sum = SumCell(kind)
        self._count = CountCell()
        self.parts = {**self._sum.parts, **self._count.parts}

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        assert column is not None
        counts = self._count.sorted_counts(rows, column)
        sums = self._sum.sorted_sums(rows, column)
        unseen = counts == 0
        return placed(rows, sums / np.maximum(counts, 1), unseen if unseen.any() else None)

    def run_few(self, slots: Sequence[int], column: pa.Array | None) -> pa.Array | None:
        assert column is not None
        if column.null_count:
            return None
        sums = self._sum.sums_of_few(slots, column)
        counts = self._count.counts_of_few(slots)
        return floats([sum / count for sum, count in zip(sums, counts, strict=True)])

    def native(self) -> NativeCell:
        counts, sums = self._count.native().counts, self._sum.native().total
        return NativeCell(NativeOperation.FLOAT_MEAN, total=sums, counts=counts)

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        """Restore frozen parts. They may be those of `MeanCell`, if a changed program has floats in a
        column that had integers before."""
        if "seen" not in parts:
            sums = pa.array(stored_units(parts).floats())
            parts = {**parts, "sum": sums, "seen": pc.greater(parts["count"], 0)}
        super().thaw(slots, parts)


class MeanFrame(SumFrame):
    """The exact sum of the values in a frame, divided by their count."""

    def result(self) -> Any:
        if not self._count:
            return None
        total = self._total.value()
        if not isinstance(total, Decimal):
            # Rounded twice, as in windows: first the sum, then the quotient.
            return float(total) / self._count
        mean = decimal_mean(total, self._count)
        check_decimal(mean, "mean")
        return mean
