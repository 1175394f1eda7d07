"""`approx_count_distinct`: the approximate number of distinct values, in bounded space.

The sketch keeps the k smallest hashes. If n hashes are spread evenly over the numbers up to M, the k-th
smallest is about k / n * M; n is estimated from that. Up to k distinct values the count is exact. The
kept hashes depend only on the values, so sketches can be merged in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.aggregates.contract import VALUE, Agg, ManyRowsState, given
from rheos.core.errors import ProgramError
from rheos.core.protocol.hashing import hash_keys
from rheos.core.protocol.polars_frames import arrow_column

_HASHES = 2.0**63
_LEAST_ERROR, _MOST_ERROR = 0.001, 0.3


@dataclass(frozen=True)
class ApproxCountDistinct(Agg):
    """Keeps hashes of 8 bytes, at most `kept` per key and pane."""

    kind: ClassVar[str] = "approx_count_distinct"

    error: float = 0.02

    def __str__(self) -> str:
        return f"{self.kind}({self.column}, error={self.error:g})"

    @property
    def kept(self) -> int:
        # The standard error of the estimate is 1 / sqrt(k - 2).
        return ceil(self.error**-2) + 2

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        self._comparable(schema)
        return pa.int64()

    def windowed(self, schema: pa.Schema) -> ManyRowsState:
        assert self.column is not None
        # The state may contain more, because they are not always trimmed.
        last = pl.col(VALUE).bottom_k(self.kept).max().cast(pl.Float64)
        estimate = ((self.kept - 1) * _HASHES / (last + 1)).round()
        return ManyRowsState(
            f"hashes, {self.kept} least.{self.column}",
            given(self.column).map_batches(_hashes, return_dtype=pl.Int64),
            distinct=True,
            result=pl.when(pl.len() < self.kept).then(pl.len()).otherwise(estimate).cast(pl.Int64),
            of_nothing=0,
            least=self.kept,
        )


def approx_count_distinct(column: str, *, error: float = 0.02) -> Agg:
    """Return the approximate number of distinct non-null values, as int64. Only for windows.

    Two of three counts are within `error`, and 997 of 1,000 are within three times as much. A key and
    pane keep at most 1 / error² hashes of 8 bytes, by default 2,502. Up to that number of distinct
    values the count is exact.

    ```python
    windows.aggregate(users=rh.agg.approx_count_distinct("user", error=0.01))
    ```

    Args:
        column: The column.
        error: Relative standard error, from 0.001 to 0.3.

    Returns:
        The aggregate.

    Raises:
        ProgramError: `error` is out of range.
    """
    if not _LEAST_ERROR <= error <= _MOST_ERROR:
        raise ProgramError(
            f"error={error!r} is not between {_LEAST_ERROR} and {_MOST_ERROR}",
            hint="0.02 means 2 percent; for an exact count use rh.agg.count_distinct(...)",
        )
    return ApproxCountDistinct(column, error)


def _hashes(values: pl.Series) -> pl.Series:
    """Return an integer from 0 to below 2**63 for each value, spread evenly; null for null."""
    there = values.is_not_null().to_numpy()
    made = np.zeros(len(values), np.int64)
    column = arrow_column(values.drop_nulls())
    made[there] = (hash_keys([column]) >> np.uint64(1)).view(np.int64)
    found = pl.Series(values.name, made)
    return found if there.all() else found.set(pl.Series(~there), None)
