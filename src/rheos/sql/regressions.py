"""Linear regression of the values of two columns, as expressions over them: REGR_SLOPE, REGR_R2."""

from __future__ import annotations

import polars as pl


def products(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """Return the sum of the products of the differences from the means; null of no rows."""
    made = ((a - a.mean()) * (b - b.mean())).sum()
    return pl.when(a.len() > 0).then(made)


def slope(y: pl.Expr, x: pl.Expr) -> pl.Expr:
    of_x = products(x, x)
    return pl.when(of_x != 0).then(products(x, y) / of_x)


def r2(y: pl.Expr, x: pl.Expr) -> pl.Expr:
    of_x, of_y = products(x, x), products(y, y)
    square = pl.when(of_y == 0).then(1.0).otherwise(products(x, y) ** 2 / (of_x * of_y))
    return pl.when(of_x != 0).then(square)
