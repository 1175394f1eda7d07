"""`variance` and `stddev` of a sample (ddof=1) or of a whole population (ddof=0).

In windows they are computed from exact sums of the values and of their squares. The subtraction uses
twice the digits of a float64, so no precision is lost when the values are large and close together. The
result does not depend on order or grouping. Running forms keep sums of the differences from a key's
first value.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.aggregates.cells import At, Cell, Frozen, SlotArray, numbers, placed, valid
from rheos.core.aggregates.contract import Agg, Deviations, OneRowState, RunningForm
from rheos.core.aggregates.exact_totals import Spread
from rheos.core.aggregates.frames import Columns, FrameState
from rheos.core.aggregates.segments import Floats, Ints, Segments
from rheos.core.errors import ProgramError


@dataclass(frozen=True)
class _Spread(Agg, ABC):
    is_root: ClassVar[bool]
    ddof: int = 1

    def __str__(self) -> str:
        return f"{self.kind}({self.column}{', ddof=0' if self.ddof == 0 else ''})"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        self._number(schema)
        return pa.float64()

    def windowed(self, schema: pa.Schema) -> OneRowState:
        assert self.column is not None
        part = Deviations(self.column, self.ddof)
        result = pl.when(part.count > self.ddof).then(part.variance)
        return OneRowState([part], result.sqrt() if self.is_root else result)

    def running(self, schema: pa.Schema) -> RunningForm:
        return RunningForm(partial(SpreadCell, self.ddof, self.is_root), pa.float64())

    def frame(self, schema: pa.Schema) -> Callable[[], FrameState]:
        return partial(SpreadFrame, self._type(schema), self.ddof, self.is_root)

    @staticmethod
    def running_value(parts: Mapping[str, pa.Array], kind: pa.DataType) -> pa.Array:
        return pc.if_else(parts["known"], parts["value"], pa.scalar(None, pa.float64()))


@dataclass(frozen=True)
class Variance(_Spread):
    kind: ClassVar[str] = "variance"
    is_root: ClassVar[bool] = False


@dataclass(frozen=True)
class StdDev(_Spread):
    kind: ClassVar[str] = "stddev"
    is_root: ClassVar[bool] = True


def variance(column: str, ddof: int = 1) -> Agg:
    """Return the variance, as float64; null if there are at most `ddof` values.

    ```python
    windows.aggregate(spread=rh.agg.variance("price"))
    ```

    Args:
        column: The column of numbers.
        ddof: Delta degrees of freedom: 1 for a sample, 0 for a whole population.

    Returns:
        The aggregate.
    """
    return Variance(column, _checked(ddof))


def stddev(column: str, ddof: int = 1) -> Agg:
    """Return the standard deviation, as float64; null if there are at most `ddof` values.

    ```python
    windows.aggregate(spread=rh.agg.stddev("price"))
    ```

    Args:
        column: The column of numbers.
        ddof: Delta degrees of freedom: 1 for a sample, 0 for a whole population.

    Returns:
        The aggregate.
    """
    return StdDev(column, _checked(ddof))


def _checked(ddof: int) -> int:
    if isinstance(ddof, bool) or ddof not in (0, 1):
        raise ProgramError(
            f"ddof must be 0 or 1, not {ddof!r}",
            hint="write 1 for a sample, 0 for the whole population",
        )
    return ddof


class SpreadCell(Cell):
    """The count, the first value, and two sums: of the differences from the first value, and of their
    squares."""

    def __init__(self, ddof: int, is_root: bool) -> None:
        self._ddof = ddof
        self._is_root = is_root
        self._count = SlotArray(np.int64, 0)
        self._first = SlotArray(np.float64, 0.0)
        self._sum = SlotArray(np.float64, 0.0)
        self._squares = SlotArray(np.float64, 0.0)
        self.parts = {
            "count": self._count,
            "first": self._first,
            "sum": self._sum,
            "squares": self._squares,
        }

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        assert column is not None
        there = rows.gather(valid(column))
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        values = rows.gather(numbers(column, 0)).astype(np.float64)
        before = self._count.values[rows.slots]
        counts = rows.int_sums(there.astype(np.int64), before)
        # First values of keys that had no value so far.
        new = there & (counts == 1)
        first = self._first.values[rows.slots]
        segment = np.repeat(np.arange(len(rows.slots)), rows.lengths)[new]
        first[segment] = values[new]
        self._first.values[rows.slots] = first
        with np.errstate(all="ignore"):
            apart = np.where(there, values - rows.spread(first), 0.0)
            squares = rows.float_sums(apart * apart, self._squares.values[rows.slots])
            sums = rows.float_sums(apart, self._sum.values[rows.slots])
            self._count.values[rows.slots] = counts[rows.ends]
            self._sum.values[rows.slots] = sums[rows.ends]
            self._squares.values[rows.slots] = squares[rows.ends]
            spread = self._value(counts, sums, squares)
        few = counts <= self._ddof
        return placed(rows, spread, few if few.any() else None)

    def _value(
        self,
        counts: Ints,
        sums: Floats,
        squares: Floats,
    ) -> Floats:
        around = np.maximum(squares - sums * sums / np.maximum(counts, 1), 0.0)
        variance: Floats = around / np.maximum(counts - self._ddof, 1)
        return np.sqrt(variance) if self._is_root else variance

    def freeze(self, at: At) -> dict[str, Frozen]:
        counts, sums, squares = (
            array.values[at].copy() for array in (self._count, self._sum, self._squares)
        )

        def value() -> pa.Array:
            with np.errstate(all="ignore"):
                return pa.array(self._value(counts, sums, squares))

        known = partial(pa.array, counts > self._ddof)
        return super().freeze(at) | {"value": value, "known": known}


class SpreadFrame(FrameState):
    """The exact sums of the values in a frame and of their squares."""

    def __init__(self, kind: pa.DataType, ddof: int, is_root: bool) -> None:
        """Create an empty frame of values of type `kind`; decimals are converted to floats."""
        self._as_float = pa.types.is_decimal(kind)
        self._spread = Spread(is_float=self._as_float or pa.types.is_floating(kind))
        self._ddof, self._is_root = ddof, is_root

    def add(self, value: Any) -> None:
        if value is not None:
            self._spread.add(float(value) if self._as_float else value)

    def remove(self, value: Any) -> None:
        if value is not None:
            self._spread.remove(float(value) if self._as_float else value)

    def result(self) -> float | None:
        variance = self._spread.variance(self._ddof)
        return variance**0.5 if self._is_root and variance is not None else variance

    def stored(self) -> Columns:
        return [self._spread.stored()]

    def restore(self, columns: Columns) -> None:
        [parts] = columns
        self._spread.restore(parts)
