"""`sum`: exact in windows. Its running form adds floats in the order of the rows."""

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

from rheos.core.aggregates.cells import (
    Cell,
    SeenKeys,
    SlotArray,
    floats,
    numbers,
    placed,
    whole_numbers,
)
from rheos.core.aggregates.contract import (
    Agg,
    DecimalSum,
    ExactSum,
    IntegerSum,
    OneRowState,
    RunningForm,
)
from rheos.core.aggregates.exact_totals import total_of
from rheos.core.aggregates.frames import Columns, FrameState
from rheos.core.aggregates.integer_sum import check_one, check_running
from rheos.core.aggregates.running_units import RunningUnits
from rheos.core.aggregates.segments import Ints, Numbers, Segments
from rheos.core.aggregates.sum_too_large import SumTooLarge
from rheos.core.aggregates.units import MOST_DIGITS, Units, sum_type
from rheos.core.native.running import NativeCell, NativeOperation


@dataclass(frozen=True)
class Sum(Agg):
    kind: ClassVar[str] = "sum"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        return summed_type(self._number(schema))

    def windowed(self, schema: pa.Schema) -> OneRowState:
        assert self.column is not None
        kind = self._type(schema)
        part: ExactSum | DecimalSum | IntegerSum
        if pa.types.is_decimal(kind):
            part = DecimalSum(self.column, kind)
        elif pa.types.is_floating(kind):
            part = ExactSum(self.column)
        else:
            part = IntegerSum(self.column)
        return OneRowState([part], pl.when(part.count > 0).then(part.total))

    def running(self, schema: pa.Schema) -> RunningForm:
        stored = summed_type(self._type(schema))
        made = DecimalSumCell if pa.types.is_decimal(stored) else SumCell
        return RunningForm(partial(made, stored), stored)

    def frame(self, schema: pa.Schema) -> Callable[[], FrameState]:
        return partial(SumFrame, self._type(schema))

    @staticmethod
    def running_value(parts: Mapping[str, pa.Array], kind: pa.DataType) -> pa.Array:
        if pa.types.is_decimal(kind):
            return stored_units(parts).decimals(kind, _mask(pc.invert(parts["seen"])))
        return pc.if_else(parts["seen"], parts["sum"], pa.scalar(None, parts["sum"].type))


def sum(column: str) -> Agg:
    """Return the sum of a column.

    The result is float64 for floats; in windows it does not depend on the order of the rows. For
    DECIMAL(p, s) it is DECIMAL(p + 10, s), with at most 38 digits. Otherwise it is int64. An integer
    sum beyond 64 bits, or a sum of decimals that does not fit its type, ends the job with an
    InputError.

    ```python
    windows.aggregate(revenue=rh.agg.sum("price"))
    ```

    Args:
        column: The column of numbers.

    Returns:
        The aggregate.
    """
    return Sum(column)


def summed_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of sums of values of a type."""
    if pa.types.is_decimal(kind):
        return sum_type(kind)
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()


def stored_units(parts: Mapping[str, pa.Array]) -> Units:
    """Return the sums from the state of integer cells."""
    beyond = parts["beyond"].fill_null(0).to_numpy() if "beyond" in parts else None
    return Units(parts["sum"].fill_null(0).to_numpy(), beyond)


def sums_of_decimals(sums: Units, none: Any, kind: pa.DataType) -> pa.Array:
    """Return sums as decimals of a type, null where `none` is true. Raise SumTooLarge."""
    large = sums.outside(kind.precision)
    if none is not None:
        large &= ~none
    if large.any():
        raise SumTooLarge(int(large.argmax()), limit=limit_of(kind))
    return sums.decimals(kind, none)


def limit_of(kind: pa.DataType) -> str:
    """Return the name of a decimal type for errors about values that do not fit it."""
    return f"DECIMAL({kind.precision}, {kind.scale})"


def first_row(rows: Segments, large: Any) -> int:
    """Return the earliest of the rows that `large` marks in sorted order."""
    return int(rows.order[large].min())


def _mask(column: pa.Array) -> Any:
    return column.to_numpy(zero_copy_only=False)


class SumCell(Cell):
    """The sum; floats are added one after the other."""

    def __init__(self, kind: pa.DataType) -> None:
        """Create an empty cell. `kind` is float64 or int64."""
        self._dtype: Any = kind.to_pandas_dtype()
        self._sum = SlotArray(self._dtype, 0)
        self._seen = SeenKeys()
        self.parts = {"sum": self._sum, "seen": self._seen}

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        assert column is not None
        unseen = self._seen.run(rows, column)
        return placed(rows, self.sorted_sums(rows, column), unseen)

    def run_few(self, slots: Sequence[int], column: pa.Array | None) -> pa.Array | None:
        assert column is not None
        if column.null_count:
            return None
        self._seen.add_few(slots)
        sums = self.sums_of_few(slots, column)
        return floats(sums) if self._dtype is np.float64 else whole_numbers(sums)

    def native(self) -> NativeCell:
        of = NativeOperation.FLOAT_SUM if self._dtype is np.float64 else NativeOperation.INT_SUM
        return NativeCell(of, total=self._sum.values, seen=self._seen.values)

    def sums_of_few(self, slots: Sequence[int], column: pa.Array) -> list[Any]:
        """Return the sums after each of a few rows without nulls. Raise SumTooLarge."""
        totals, sums = self._sum.values, []
        whole = self._dtype is not np.float64
        for row, (slot, value) in enumerate(zip(slots, numbers(column, 0).tolist(), strict=True)):
            total = totals.item(slot) + value
            if whole:
                check_one(row, total)
            totals[slot] = total
            sums.append(total)
        return sums

    def sorted_sums(self, rows: Segments, column: pa.Array) -> Numbers:
        """Return the running sums in sorted order. Raise SumTooLarge."""
        given = rows.gather(numbers(column, 0))
        values: Numbers = given.astype(self._dtype, copy=False)
        carry = self._sum.values[rows.slots]
        sums: Numbers
        if self._dtype is np.float64:
            sums = rows.float_sums(values, carry)
        else:
            sums = rows.int_sums(values, carry)
            check_running(rows, given, carry, sums)
        self._sum.values[rows.slots] = sums[rows.ends]
        return sums


class DecimalSumCell(Cell):
    """The sum of decimals of one scale."""

    def __init__(self, kind: pa.DataType) -> None:
        """Create an empty cell. `kind` is the type of the sum."""
        self._kind = kind
        self._units = RunningUnits()
        self._seen = SeenKeys()
        self.parts = {**self._units.parts, "seen": self._seen}

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        """Compute the sums as `Cell.run` does. Raise SumTooLarge."""
        assert column is not None
        unseen = self._seen.run(rows, column)
        sums, large = self._units.run(rows, Units.of(column).take(rows.order))
        return self._results(rows, sums, large, None if unseen is None else rows.scatter(unseen))

    def _results(
        self, rows: Segments, sums: Units, large: np.ndarray | None, none: np.ndarray | None
    ) -> pa.Array:
        outside = sums.outside(self._kind.precision)
        if large is not None:
            outside |= large
        if outside.any():
            raise SumTooLarge(first_row(rows, outside), limit=limit_of(self._kind))
        return scattered(rows, sums).decimals(self._kind, none)

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        self._units.thaw(slots, parts)
        self._seen.thaw(slots, parts["seen"])


def scattered(rows: Segments, sums: Units) -> Units:
    """Return sorted sums in the order of the rows."""
    beyond = None if sums.beyond is None else rows.scatter(sums.beyond)
    return Units(rows.scatter(sums.low), beyond)


class SumFrame(FrameState):
    """The exact sum of the values in a frame."""

    def __init__(self, kind: pa.DataType) -> None:
        """Create an empty sum of values of type `kind`."""
        self._total = total_of(kind)
        self._count = 0

    def add(self, value: Any) -> None:
        if value is not None:
            self._total.add(value)
            self._count += 1

    def remove(self, value: Any) -> None:
        if value is not None:
            self._total.remove(value)
            self._count -= 1

    def result(self) -> Any:
        if not self._count:
            return None
        total = self._total.value()
        if isinstance(total, int):
            check_one(0, total)
        elif isinstance(total, Decimal):
            check_decimal(total)
        return total

    def stored(self) -> Columns:
        return [[self._count], self._total.stored()]

    def restore(self, columns: Columns) -> None:
        [self._count], parts = columns
        self._total.restore(parts)


def check_decimal(value: Decimal, what: str = "sum") -> None:
    """Raise SumTooLarge if a decimal has more digits than any type holds."""
    digits, scale = value.as_tuple().digits, -int(value.as_tuple().exponent)
    if len(digits) > MOST_DIGITS:
        raise SumTooLarge(0, what=what, limit=limit_of(pa.decimal128(MOST_DIGITS, scale)))
