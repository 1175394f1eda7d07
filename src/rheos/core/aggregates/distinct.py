"""`count_distinct`, `sum_distinct`, `mean_distinct`: of the different values, exactly."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import pyarrow as pa

from rheos.core.aggregates.contract import VALUE, Agg, Gathered, Reduced, given
from rheos.core.aggregates.mean import Mean
from rheos.core.aggregates.sum import Sum


@dataclass(frozen=True)
class OfDistinct(Agg, ABC):
    """Keeps the different values of its column."""

    def _gathered(self, result: pl.Expr | Reduced, of_nothing: int | None = None) -> Gathered:
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
        self._number(schema)
        return Sum(self.column).result_type(schema)

    def windowed(self, schema: pa.Schema) -> Gathered:
        return self._gathered(Sum(VALUE).windowed(pa.schema([(VALUE, self._type(schema))])))


@dataclass(frozen=True)
class MeanDistinct(OfDistinct):
    kind: ClassVar[str] = "mean_distinct"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        self._number(schema)
        return Mean(self.column).result_type(schema)

    def windowed(self, schema: pa.Schema) -> Gathered:
        return self._gathered(Mean(VALUE).windowed(pa.schema([(VALUE, self._type(schema))])))


def count_distinct(column: str) -> Agg:
    """How many different non-null values, exactly: int64."""
    return CountDistinct(column)


def sum_distinct(column: str) -> Agg:
    """The sum of the different values, of the type that `sum` has."""
    return SumDistinct(column)


def mean_distinct(column: str) -> Agg:
    """The arithmetic mean of the different values, of the type that `mean` has."""
    return MeanDistinct(column)
