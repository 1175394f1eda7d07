"""Functions of values as row functions."""

from __future__ import annotations

import datetime as dt
from functools import partial

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from rheos.sql import types
from rheos.sql.value_functions import over_times

_DAY_US = 86_400_000_000
_MOMENTS = st.lists(
    st.none()
    | st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
    | st.datetimes(dt.datetime(1969, 12, 30), dt.datetime(1970, 1, 2)),
    max_size=20,
)


def _written(at: pl.Expr, form: str) -> pl.Expr:
    return at.dt.strftime(form)


@given(_MOMENTS)
def test_expressions_over_units_of_time_have_the_values_of_each_time(
    moments: list[dt.datetime | None],
) -> None:
    frame = pl.DataFrame(
        {"at": pl.Series(moments, dtype=pl.Datetime("us")).dt.replace_time_zone("UTC")}
    )
    for unit_us, form in ((_DAY_US, "%Y-%m-%d %a"), (_DAY_US // 24, "%d %H"), (1_000_000, "%H:%M:%S")):
        found = over_times(partial(_written, form=form), pl.col("at"), unit_us, types.TEXT)
        assert frame.select(found).equals(frame.select(_written(pl.col("at"), form)))


def test_a_constant_time_stays_a_constant() -> None:
    at = pl.lit(dt.datetime(2026, 1, 2))
    found = over_times(lambda of: of.dt.strftime("%d"), at, _DAY_US, types.TEXT)
    assert pl.select(found).item() == "02"
    assert found.meta.eq(at.dt.strftime("%d"))
