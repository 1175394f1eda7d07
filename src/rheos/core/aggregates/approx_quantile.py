"""`approx_quantile`: quantiles within a relative error, in bounded space.

The sketch counts numbers per bucket. The logarithm of a number determines its bucket, and every number
is within the error of its bucket's middle. Merging adds counts, so the order of merging does not affect
the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import ClassVar

import polars as pl
import pyarrow as pa

from rheos.core.aggregates.contract import COUNT, VALUE, Agg, CountedValues, given
from rheos.core.errors import ProgramError

_LEAST_ERROR, _MOST_ERROR = 0.001, 0.3
_LARGEST = 1.7976931348623157e308
_SMALLEST = 2.2250738585072014e-308
"""Smallest float64 with full precision. Numbers closer to 0 count as 0."""
_FURTHEST = 1_000_000
"""Limit that is larger than the number of buckets above, or below, the bucket of the number 1."""
_NAN = 4 * _FURTHEST


@dataclass(frozen=True)
class ApproxQuantile(Agg):
    """Counts the numbers in each bucket. Their order: negative numbers, 0, positive numbers, NaN."""

    kind: ClassVar[str] = "approx_quantile"

    qs: tuple[float, ...] = (0.5,)
    listed: bool = False
    """Whether the result is a list with one value for each of `qs`."""
    error: float = 0.01

    def __str__(self) -> str:
        q = list(self.qs) if self.listed else self.qs[0]
        return f"{self.kind}({self.column}, {q}, error={self.error:g})"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        self._number(schema)
        return pa.list_(pa.float64()) if self.listed else pa.float64()

    def windowed(self, schema: pa.Schema) -> CountedValues:
        found = [self._middle(_bucket_at(q)) for q in self.qs]
        return CountedValues(
            f"buckets of {self.error:g}.{self.column}",
            self._bucket(given(str(self.column)).cast(pl.Float64)),
            pl.concat_list(found) if self.listed else found[0],
        )

    @property
    def _log_width(self) -> float:
        """Return the logarithm of the ratio between the end and the start of a bucket."""
        return log((1 + self.error) / (1 - self.error))

    def _bucket(self, number: pl.Expr) -> pl.Expr:
        size = number.abs().clip(upper_bound=_LARGEST)
        above = (size.log() / self._log_width).ceil().cast(pl.Int64) + 2 * _FURTHEST
        return (
            pl.when(number.is_nan())
            .then(_NAN)
            .when(size < _SMALLEST)
            .then(0)
            .when(number > 0)
            .then(above)
            .otherwise(-above)
        )

    def _middle(self, bucket: pl.Expr) -> pl.Expr:
        """Return the number that has the same relative distance to both ends of the bucket."""
        exponent = (bucket.abs() - 2 * _FURTHEST).cast(pl.Float64) * self._log_width
        # Limited so that the last bucket does not become infinite.
        size = (exponent + log(1 - self.error)).exp().clip(upper_bound=_LARGEST)
        return (
            pl.when(bucket == _NAN)
            .then(float("nan"))
            .when(bucket == 0)
            .then(0.0)
            .when(bucket > 0)
            .then(size)
            .otherwise(-size)
        )


def approx_quantile(column: str, q: float | Sequence[float], *, error: float = 0.01) -> Agg:
    """Return an approximate quantile, as float64. Only for windows.

    The result is within a relative `error` of the value at position q · (n - 1) in sorted order,
    rounded down. Infinities count as the largest numbers; NaN is greater than all.

    A key and pane keep a count for each bucket that has a number: numbers from 1 to 1,000,000 fall into
    691 buckets of 1 percent. The whole range of numbers has about 142,000 buckets.

    ```python
    windows.aggregate(millis=rh.agg.approx_quantile("millis", [0.5, 0.99]))
    ```

    Args:
        column: The column of numbers.
        q: The quantile, from 0 to 1. For a list of them, the result is a list computed from one state.
        error: Maximum relative error, from 0.001 to 0.3.

    Returns:
        The aggregate.

    Raises:
        ProgramError: `q` or `error` is out of range.
    """
    listed = not isinstance(q, int | float)
    qs = tuple(q) if isinstance(q, Sequence) else (q,)
    if not qs or not all(
        isinstance(each, int | float) and not isinstance(each, bool) and 0 <= each <= 1 for each in qs
    ):
        raise ProgramError(f"a quantile must be between 0 and 1, not {q!r}")
    if not _LEAST_ERROR <= error <= _MOST_ERROR:
        raise ProgramError(
            f"error={error!r} is not between {_LEAST_ERROR} and {_MOST_ERROR}",
            hint="0.01 means 1 percent; for an exact quantile use rh.agg.quantile(...)",
        )
    return ApproxQuantile(column, qs, listed, error)


def _bucket_at(q: float) -> pl.Expr:
    """Return the bucket that contains the value at a quantile."""
    up_to = pl.col(COUNT).sort_by(VALUE).cum_sum()
    place = (pl.col(COUNT).sum() - 1) * q
    return pl.col(VALUE).sort_by(VALUE).filter(up_to > place).first()
