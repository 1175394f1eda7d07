"""`count_distinct`, `sum_distinct`, `mean_distinct`: of the different values, exactly."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import pyarrow as pa

from rheos.aggregates.contract import VALUE, Agg, Gathered, given
from rheos.aggregates.sum import summed_type


@dataclass(frozen=True)
class OfDistinct(Agg, ABC):
    """Keeps the different values of its column."""

    def _gathered(self, result: pl.Expr, of_nothing: int | None = None) -> Gathered:
        assert self.column is not None
        return Gathered(
            f"distinct.{self.column}",
            given(self.column),
            distinct=True,
            result=result,
            of_nothing=of_nothing,
        )


@dataclass(frozen=True)
class CountDistinct(OfDistinct):
    kind: ClassVar[str] = "count_distinct"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        self._comparable(schema)
        return pa.int64()

    def windowed(self, schema: pa.Schema) -> Gathered:
        return self._gathered(pl.len().cast(pl.Int64), of_nothing=0)


@dataclass(frozen=True)
class SumDistinct(OfDistinct):
    kind: ClassVar[str] = "sum_distinct"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        return summed_type(self._number(schema))

    def windowed(self, schema: pa.Schema) -> Gathered:
        if pa.types.is_floating(self._type(schema)):
            # In one order, so that rounding does not depend on how the rows came.
            return self._gathered(pl.col(VALUE).cast(pl.Float64).sort().sum())
        return self._gathered(pl.col(VALUE).cast(pl.Int128).sum().cast(pl.Int64))


@dataclass(frozen=True)
class MeanDistinct(OfDistinct):
    kind: ClassVar[str] = "mean_distinct"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        self._number(schema)
        return pa.float64()

    def windowed(self, schema: pa.Schema) -> Gathered:
        return self._gathered(pl.col(VALUE).cast(pl.Float64).sort().mean())


def count_distinct(column: str) -> Agg:
    """How many different non-null values, exactly: int64."""
    return CountDistinct(column)


def sum_distinct(column: str) -> Agg:
    """The sum of the different values: float64 for floats, int64 otherwise."""
    return SumDistinct(column)


def mean_distinct(column: str) -> Agg:
    """The arithmetic mean of the different values: float64."""
    return MeanDistinct(column)
