"""`count_distinct`, `sum_distinct`, `mean_distinct`: exact aggregates of the distinct values."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa

from rheos.core.aggregates.contract import VALUE, Agg, ManyRowsState, OneRowState, given
from rheos.core.aggregates.count import Count
from rheos.core.aggregates.frames import Columns, FrameState
from rheos.core.aggregates.mean import Mean
from rheos.core.aggregates.sum import Sum


@dataclass(frozen=True)
class DistinctAgg(Agg, ABC):
    """Keeps the distinct values of its column."""

    def _gathered(self, result: pl.Expr | OneRowState, of_nothing: int | None = None) -> ManyRowsState:
        assert self.column is not None
        return ManyRowsState(
            f"distinct.{self.column}",
            given(self.column),
            distinct=True,
            result=result,
            of_nothing=of_nothing,
        )


@dataclass(frozen=True)
class CountDistinct(DistinctAgg):
    kind: ClassVar[str] = "count_distinct"
    of_no_rows: ClassVar[Any] = 0

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        self._comparable(schema)
        return pa.int64()

    def windowed(self, schema: pa.Schema) -> ManyRowsState:
        return self._gathered(pl.len().cast(pl.Int64), of_nothing=0)

    def frame(self, schema: pa.Schema) -> Callable[[], FrameState]:
        return partial(DistinctFrame, Count("").frame(schema))


@dataclass(frozen=True)
class SumDistinct(DistinctAgg):
    kind: ClassVar[str] = "sum_distinct"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        self._number(schema)
        return Sum(self.column).result_type(schema)

    def windowed(self, schema: pa.Schema) -> ManyRowsState:
        return self._gathered(Sum(VALUE).windowed(pa.schema([(VALUE, self._type(schema))])))

    def frame(self, schema: pa.Schema) -> Callable[[], FrameState]:
        return partial(DistinctFrame, Sum(self.column).frame(schema))


@dataclass(frozen=True)
class MeanDistinct(DistinctAgg):
    kind: ClassVar[str] = "mean_distinct"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        self._number(schema)
        return Mean(self.column).result_type(schema)

    def windowed(self, schema: pa.Schema) -> ManyRowsState:
        return self._gathered(Mean(VALUE).windowed(pa.schema([(VALUE, self._type(schema))])))

    def frame(self, schema: pa.Schema) -> Callable[[], FrameState]:
        return partial(DistinctFrame, Mean(self.column).frame(schema))


def count_distinct(column: str) -> Agg:
    """Return the exact number of distinct non-null values, as int64.

    ```python
    windows.aggregate(users=rh.agg.count_distinct("user"))
    ```

    Args:
        column: The column.

    Returns:
        The aggregate.
    """
    return CountDistinct(column)


def sum_distinct(column: str) -> Agg:
    """Return the sum of the distinct values, of the same type as `sum`.

    ```python
    windows.aggregate(prices=rh.agg.sum_distinct("price"))
    ```

    Args:
        column: The column of numbers.

    Returns:
        The aggregate.
    """
    return SumDistinct(column)


def mean_distinct(column: str) -> Agg:
    """Return the arithmetic mean of the distinct values, of the same type as `mean`.

    ```python
    windows.aggregate(mean_price=rh.agg.mean_distinct("price"))
    ```

    Args:
        column: The column of numbers.

    Returns:
        The aggregate.
    """
    return MeanDistinct(column)


class DistinctFrame(FrameState):
    """An aggregate of the distinct values in a frame."""

    def __init__(self, make: Callable[[], FrameState]) -> None:
        """Create an empty frame. `make` creates the aggregate of the distinct values."""
        self._of = make()
        self._times: dict[Any, int] = {}
        """Number of occurrences of each value in the frame. All NaN count as one value."""

    def add(self, value: Any) -> None:
        if value is None:
            return
        known = value if value == value else _NAN
        times = self._times.get(known, 0)
        self._times[known] = times + 1
        if not times:
            self._of.add(value)

    def remove(self, value: Any) -> None:
        if value is None:
            return
        known = value if value == value else _NAN
        self._times[known] -= 1
        if not self._times[known]:
            del self._times[known]
            self._of.remove(value)

    def result(self) -> Any:
        return self._of.result()

    def stored(self) -> Columns:
        return [[*self._times], [*self._times.values()]]

    def restore(self, columns: Columns) -> None:
        values, times = columns
        for value, number in zip(values, times, strict=True):
            self.add(value)
            self._times[value if value == value else _NAN] = number


_NAN = float("nan")
"""Representative of every NaN. A dict finds it by its identity."""
