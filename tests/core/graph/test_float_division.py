"""Division by a constant equals division by a column of that constant, for any batch."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.graph.exact_decimals import exact_one
from rheos.core.graph.expression_trees import ARITHMETIC
from rheos.core.graph.float_division import DIVISIONS

OPERATIONS = [operator.truediv, operator.floordiv, operator.mod]
EDGES = [0.3, -0.3, 12.67, -0.0, 0.0, 5e-324, 1e308, float("inf"), float("-inf"), float("nan"), None]
KINDS = [pl.Float64(), pl.Float32(), pl.Int64(), pl.Int16()]
DIVISORS = (
    st.sampled_from([0.1, 0.3, 3.0, 7.5, -2.5, 0.0, 1e-300, 1e300])
    | st.floats(1e-5, 1e22)
    | st.floats(-1e22, -1e-5)
)


def divided_by_column(values: pl.Series, divide: Callable[[Any, Any], Any], by: float) -> pl.Series:
    kind = pl.Float32() if values.dtype == pl.Float32 else pl.Float64()
    frame = pl.DataFrame({"x": values, "by": pl.Series([by] * len(values), dtype=kind)})
    # Twice, as Polars takes the only row of a column for a constant.
    twice = pl.concat([frame, frame])
    return twice.select(divide(pl.col("x"), pl.col("by"))).to_series().head(len(values)).alias("x")


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("divide", OPERATIONS)
@given(
    drawn=st.lists(st.floats(-1e6, 1e6) | st.sampled_from(EDGES), min_size=1, max_size=20), by=DIVISORS
)
def test_a_constant_divides_as_a_column_does(
    kind: pl.DataType, divide: Callable[[Any, Any], Any], drawn: list[float | None], by: float
) -> None:
    values = pl.Series("x", drawn, dtype=pl.Float64).cast(kind, strict=False)
    frame = values.to_frame()
    made = exact_one(divide(pl.col("x"), by), frame.lazy())
    found = frame.select(made).to_series()
    wanted = divided_by_column(values, divide, by)
    assert found.dtype == wanted.dtype == frame.select(divide(pl.col("x"), by)).to_series().dtype
    assert found.equals(wanted, null_equal=True)


def test_a_row_has_the_same_quotient_alone_and_in_a_batch() -> None:
    values = [0.3, 12.67, 0.7]
    expr = pl.col("x") / 0.1
    batch = pl.DataFrame({"x": values}).select(exact_one(expr, pl.LazyFrame(schema={"x": pl.Float64})))
    assert batch.to_series().to_list() == [value / 0.1 for value in values]


def test_all_dividing_operations_of_polars_are_known() -> None:
    """Check for operations that divide, including those that Polars may add."""
    assert set(DIVISIONS) == {*ARITHMETIC} - {"Plus", "Minus", "Multiply", "TruncDivide"}
