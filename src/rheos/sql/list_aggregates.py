"""Aggregates over the values of a list, as expressions: what MATCH_RECOGNIZE computes of a match.

Polars adds up integers modulo 2**64 and decimals modulo 2**128. A sum that its type cannot hold is
refused by an expression that fails with a text (`row_expressions.refusing`).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal

import polars as pl

from rheos.core.aggregates.count import Count
from rheos.core.aggregates.distinct import CountDistinct
from rheos.core.aggregates.extremes import Max, Min
from rheos.core.aggregates.mean import Mean
from rheos.core.aggregates.sum import Sum
from rheos.core.operators.row_expressions import refusing
from rheos.sql import types
from rheos.sql.expressions.table import Typed

_MOST = 2**63 - 1
_WIDE = Context(prec=types.MOST_DIGITS)
_WRAPS = 1.3
"""Sums below that many times the greatest decimal have not wrapped around; a float tells."""


def over_list(
    kind: type, lists: pl.Expr, value: Typed, made: pl.DataType, written: str
) -> pl.Expr | None:
    """Return the aggregate of each list of values; None if no expression computes it. `made` is the
    type of the result, `written` the call as the user wrote it."""
    maker = _MAKERS.get(kind)
    return None if maker is None else maker(lists, value, made, written)


def _count(lists: pl.Expr) -> pl.Expr:
    return lists.list.drop_nulls().list.len().cast(types.BIGINT)


def _different(lists: pl.Expr) -> pl.Expr:
    return lists.list.drop_nulls().list.n_unique().cast(types.BIGINT)


def _greatest(lists: pl.Expr, value: Typed) -> pl.Expr:
    if not types.is_floating(value.type):
        return lists.list.max()
    # Polars' `max` leaves NaN out.
    nan = lists.list.eval(pl.element().is_nan()).list.any()
    return pl.when(nan).then(pl.lit(float("nan"), value.type)).otherwise(lists.list.max())


def _total(lists: pl.Expr, value: Typed, written: str, *, of_integers: pl.DataType) -> pl.Expr:
    """Return the sum; it is 0 if there are no values. Sums of integers have the type `of_integers`."""
    element = pl.element()
    if types.is_floating(value.type):
        return lists.list.agg(element.cast(types.DOUBLE).sum())
    if not isinstance(value.type, pl.Decimal):
        total = lists.list.agg(element.cast(pl.Int128).sum())
        if of_integers != types.BIGINT:
            return total.cast(of_integers)
        fits = total.is_between(-_MOST - 1, _MOST)
        what, hint = "64 bits", "CAST its argument to DECIMAL(38, 0)"
    else:
        scale = value.type.scale
        most = Decimal("9" * types.MOST_DIGITS).scaleb(-scale, _WIDE)
        total = lists.list.agg(element.sum()).cast(pl.Decimal(types.MOST_DIGITS, scale))
        near = lists.list.agg(element.cast(types.DOUBLE).sum()).abs() < float(most) * _WRAPS
        bound = pl.lit(most, pl.Decimal(types.MOST_DIGITS, scale))
        fits = near & (total <= bound) & (total >= -bound)
        what, hint = f"DECIMAL({types.MOST_DIGITS}, {scale})", "CAST its argument to DOUBLE"
    kind = of_integers if not isinstance(value.type, pl.Decimal) else pl.Decimal(38, value.type.scale)
    text = f"{written}: the sum is beyond {what}; {hint}"
    return pl.when(fits).then(total.cast(kind, strict=False)).otherwise(refusing(~fits, text, kind))


def _sum(lists: pl.Expr, value: Typed, made: pl.DataType, written: str) -> pl.Expr:
    total = _total(lists, value, written, of_integers=types.BIGINT)
    return pl.when(_count(lists) > 0).then(total.cast(made))


def _mean(lists: pl.Expr, value: Typed, made: pl.DataType, written: str) -> pl.Expr:
    number = _count(lists)
    total = _total(lists, value, written, of_integers=types.DOUBLE)
    if not isinstance(made, pl.Decimal):
        return pl.when(number > 0).then(total / number)
    mean = (total / number).cast(made, strict=False)
    text = f"{written}: the mean is beyond {types.name(made)}; CAST its argument to DOUBLE"
    large = (number > 0) & total.is_not_null() & mean.is_null()
    return pl.when(number > 0).then(pl.coalesce(mean, refusing(large, text, made)))


_MAKERS: dict[type, Callable[[pl.Expr, Typed, pl.DataType, str], pl.Expr]] = {
    Count: lambda lists, value, made, written: _count(lists),
    CountDistinct: lambda lists, value, made, written: _different(lists),
    Sum: _sum,
    Mean: _mean,
    Min: lambda lists, value, made, written: lists.list.min(),
    Max: lambda lists, value, made, written: _greatest(lists, value),
}
"""The aggregates of lists, by those of streams."""
