"""Sums and means of intervals: those of their microseconds or months, as decimals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import polars as pl

from rheos.core.graph.row_functions import of_columns
from rheos.core.operators.row_expressions import refusal
from rheos.sql import types
from rheos.sql.expressions.table import Compiler, Typed

_PLACES = 11
"""Digits after the point that keep the mean exact until it is rounded."""
_WHOLE = pl.Decimal(types.MOST_DIGITS, 0)


def is_summed(kind: pl.DataType) -> bool:
    """Return whether the type has sums: a length of time, or months, but not both in one value."""
    return isinstance(kind, pl.Duration) or kind == types.MONTHS


def check_one_part(compiler: Compiler, value: Typed, name: str) -> None:
    """Raise SchemaError for an interval of months and days, whose order does not tell its parts."""
    if value.type == types.CALENDAR_INTERVAL:
        raise compiler.wrong_type(
            f"{name} takes intervals of months, or of days and times", value, "aggregate one part of it"
        )


def number_of(value: Typed, *, for_mean: bool) -> Typed:
    """Return the microseconds or months of an interval as a decimal."""
    if isinstance(value.type, pl.Duration):
        number = value.expr.cast(types.INTERVAL).cast(types.BIGINT)
    else:
        number = value.expr.struct.field("interval_months")
    kind = pl.Decimal(19 + _PLACES, _PLACES) if for_mean else pl.Decimal(19, 0)
    return Typed(number.cast(kind), kind, value.node)


def interval_from(of: pl.DataType, name: str) -> Callable[[pl.Expr], pl.Expr]:
    """Return the conversion of a decimal to an interval of this type; `name` is that of the call."""
    convert = partial(_intervals, of=of, name=name)
    return lambda found: of_columns(convert, [found], of)


def _intervals(columns: Sequence[pl.Series], *, of: pl.DataType, name: str) -> pl.Series:
    """Return numbers as intervals. Halves are rounded away from zero.

    Raises:
        ComputeError: a number is beyond the range of the intervals.
    """
    [found] = columns
    number_type = types.INT if of == types.MONTHS else types.BIGINT
    whole = found.cast(_WHOLE, strict=False)
    numbers = whole.cast(number_type, strict=False)
    if numbers.null_count() > found.null_count():
        raise refusal(
            f"{name} is longer than the longest {types.name(of)}",
            "aggregate EXTRACT(... FROM interval)",
        )
    if of != types.MONTHS:
        return numbers.cast(of)
    rows = pl.DataFrame({"interval_months": numbers})
    there = pl.when(pl.col("interval_months").is_not_null())
    return rows.select(there.then(pl.struct("interval_months").cast(of)).alias(found.name)).to_series()
