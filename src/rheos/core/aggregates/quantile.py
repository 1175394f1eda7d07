"""`quantile`: exact, with linear interpolation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import pyarrow as pa

from rheos.core.aggregates.contract import VALUE, Agg, ManyRowsState, given, one_zero
from rheos.core.errors import ProgramError


@dataclass(frozen=True)
class Quantile(Agg):
    """Keeps every value of its column."""

    kind: ClassVar[str] = "quantile"

    q: float = 0.5

    def __str__(self) -> str:
        return f"{self.kind}({self.column}, {self.q})"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        self._number(schema)
        return pa.float64()

    def windowed(self, schema: pa.Schema) -> ManyRowsState:
        assert self.column is not None
        return ManyRowsState(
            f"values.{self.column}",
            given(self.column).cast(pl.Float64),
            distinct=False,
            result=one_zero(interpolated(pl.col(VALUE), self.q)),
        )


def interpolated(values: pl.Expr, q: float) -> pl.Expr:
    """Return the quantile of values with linear interpolation, also between infinite values."""
    found = values.quantile(q, interpolation="linear")
    # Polars computes with the difference of two values, which may be infinite.
    place = (values.len() - 1) * q
    share = place - place.floor()
    low = values.quantile(q, interpolation="lower")
    high = values.quantile(q, interpolation="higher")
    between = low * (1 - share) + high * share
    other = pl.when((low == high) | (share == 0)).then(low).otherwise(between)
    return pl.when(found.is_finite()).then(found).otherwise(other)


def quantile(column: str, q: float) -> Agg:
    """Return the exact quantile with linear interpolation, as float64.

    ```python
    windows.aggregate(p95=rh.agg.quantile("millis", 0.95))
    ```

    Args:
        column: The column of numbers.
        q: The quantile, from 0 to 1.

    Returns:
        The aggregate.

    Raises:
        ProgramError: `q` is out of range.
    """
    if not 0 <= q <= 1:
        raise ProgramError(f"a quantile must be between 0 and 1, not {q}")
    return Quantile(column, q)
