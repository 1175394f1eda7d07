"""`count_distinct`: how many different values, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import pyarrow as pa

from rheos.aggregates.contract import Agg, Gathered, given


@dataclass(frozen=True)
class CountDistinct(Agg):
    """Keeps the different values of its column."""

    kind: ClassVar[str] = "count_distinct"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        self._comparable(schema)
        return pa.int64()

    def windowed(self, schema: pa.Schema) -> Gathered:
        assert self.column is not None
        return Gathered(
            f"distinct.{self.column}",
            given(self.column),
            distinct=True,
            result=pl.len().cast(pl.Int64),
            of_nothing=0,
        )


def count_distinct(column: str) -> Agg:
    """How many different non-null values, exactly: int64."""
    return CountDistinct(column)
