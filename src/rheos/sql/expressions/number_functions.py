"""Hyperbolic functions, roundings with a scale, checked arithmetic, and other functions of numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import types
from rheos.sql.expressions.mathematics import real, rounded_decimal
from rheos.sql.expressions.operators import as_numbers, remainder_of
from rheos.sql.expressions.table import (
    ANY,
    CONSTANT_WHOLE,
    NUMBER,
    REAL,
    SMALL_WHOLE,
    WHOLE,
    Compiler,
    Typed,
    computes_named,
    function,
    optional,
)
from rheos.sql.java_numbers import remainder
from rheos.sql.value_functions import of_values, over_operands

# --- of reals, as Spark computes them -----------------------------------------------------------------

real(exp.Sinh, lambda x: x.sinh())
real(exp.Cosh, lambda x: x.cosh())
real(exp.Tanh, lambda x: x.tanh())
real(exp.Cot, lambda x: 1 / x.tan())
real(exp.Sec, lambda x: 1 / x.cos())
real(exp.Csc, lambda x: 1 / x.sin())
real("log1p", lambda x: pl.when(x > -1).then(x.log1p()))
real("expm1", lambda x: _of_numpy("expm1", x))
real("rint", lambda x: _of_numpy("rint", x))
real(exp.Acosh, lambda x: x.arccosh())
real(exp.Asinh, lambda x: x.arcsinh())
real(exp.Atanh, lambda x: 0.5 * (x.log1p() - (-x).log1p()))


def _of_numpy(name: str, *values: pl.Expr) -> pl.Expr:
    return of_columns(partial(_with_numpy, name=name), values, types.DOUBLE)


def _with_numpy(columns: Sequence[pl.Series], *, name: str) -> pl.Series:
    """Apply a function of NumPy; null where a value is null."""
    frame = pl.DataFrame({str(place): each for place, each in enumerate(columns)})
    with np.errstate(all="ignore"):
        made = pl.Series(getattr(np, name)(*(each.to_numpy() for each in frame)))
    there = frame.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    return made.zip_with(there, pl.Series([None], dtype=types.DOUBLE))


@function("hypot", {"x": REAL, "y": REAL}, types.DOUBLE)
def hypot(x: pl.Expr, y: pl.Expr) -> pl.Expr:
    return _of_numpy("hypot", x, y)


@function("nanvl", {"x": REAL, "y": REAL}, types.DOUBLE)
def nanvl(x: pl.Expr, y: pl.Expr) -> pl.Expr:
    return pl.when(x.is_nan()).then(y).otherwise(x)


@function("width_bucket", {"x": REAL, "least": REAL, "most": REAL, "count": WHOLE}, types.BIGINT)
def width_bucket(x: pl.Expr, least: pl.Expr, most: pl.Expr, count: pl.Expr) -> pl.Expr:
    """Return the number of the bucket, from 1, among `count` of equal width. If `least` is greater than
    `most`, the buckets descend."""
    valid = (count > 0) & (count < (1 << 63) - 1) & (least != most) & least.is_finite()
    rises = least < most
    low, high = pl.min_horizontal(least, most), pl.max_horizontal(least, most)
    below = pl.when(rises).then(x < low).otherwise(x > high)
    beyond = pl.when(rises).then(x >= high).otherwise(x <= low)
    steps = pl.when(rises).then(x - low).otherwise(high - x)
    within = types.cast(count.cast(types.DOUBLE) * steps / (high - low), types.DOUBLE, types.BIGINT)
    assert within is not None
    made = pl.when(below).then(0).when(beyond).then(count + 1).otherwise(within + 1)
    return pl.when(valid & most.is_finite() & ~x.is_nan()).then(made)


# --- of integers --------------------------------------------------------------------------------------


@function("factorial", {"n": SMALL_WHOLE}, types.BIGINT)
def factorial(n: pl.Expr) -> pl.Expr:
    return of_values(math.factorial, [pl.when(n.is_between(0, 20)).then(n)], types.BIGINT)


@computes_named("positive", "negative")
def signed(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, [NUMBER])
    made = value.expr if node.name.casefold() == "positive" else -value.expr
    return Typed(made, value.type, node)


@computes_named("pmod")
def pmod(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile PMOD: the remainder with the sign of the divisor, if that is positive."""
    left, right = as_numbers(compiler, *compiler.given(node, [NUMBER, NUMBER]))
    kind = remainder_of(compiler, node, left, right).type

    def compute(one: pl.Expr, other: pl.Expr) -> pl.Expr:
        divided_by = replace(right, expr=other)
        rest = remainder_of(compiler, node, replace(left, expr=one), divided_by).expr
        divisor = compiler.cast(divided_by, kind).expr
        moved = rest + divisor
        if types.is_floating(kind):
            moved = of_columns(remainder, [moved, divisor], kind)
        else:
            # INT and BIGINT wrap around, if the divisor is negative, too.
            fits = (divisor > 0) | (moved > 0) if kind in (types.INT, types.BIGINT) else divisor > 0
            moved = pl.when(fits).then(moved).otherwise(rest)
        return pl.when(rest < 0).then(moved).otherwise(rest)

    made = over_operands(compute, [left.expr, right.expr], [left.type, right.type])
    return Typed(made, kind, node)


_TRIED: dict[str, tuple[type[exp.Expr], Callable[[Any, Any], Any] | None]] = {
    "try_add": (exp.Add, operator.add),
    "try_subtract": (exp.Sub, operator.sub),
    "try_multiply": (exp.Mul, operator.mul),
    "try_divide": (exp.Div, None),
    "try_mod": (exp.Mod, None),
}


@computes_named(*_TRIED)
def tried(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile TRY_ADD and similar functions: null where an integer would be too large."""
    compiler.given(node, [ANY, ANY])
    kind, compute = _TRIED[node.name.casefold()]
    one, other = node.expressions
    made = compiler.compile(kind(this=one, expression=other))
    if compute is None or not types.is_integer(made.type):
        return Typed(made.expr, made.type, node)
    wide = [compiler.compile(each).expr.cast(pl.Int128()) for each in (one, other)]
    return Typed(compute(*wide).cast(made.type, strict=False), made.type, node)


# --- rounded ------------------------------------------------------------------------------------------


@computes_named("bround")
def bround(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile BROUND: halves are rounded to the even digit."""
    value, *digits = compiler.given(node, [NUMBER, optional(CONSTANT_WHOLE)])
    places = digits[0].constant if digits else 0
    kind = value.type
    if isinstance(kind, pl.Decimal):
        kind = rounded_decimal(value.expr, kind, places, node).type
    wide = types.BIGINT if types.is_integer(kind) else kind
    made = of_values(partial(_half_even, places=places), [value.expr], wide)
    # Integers that are too large wrap around.
    return Typed(made.cast(kind, wrap_numerical=types.is_integer(kind)), kind, node)


def _half_even(value: float | Decimal, *, places: int) -> float | Decimal:
    if isinstance(value, float) and not math.isfinite(value):
        return value
    with localcontext(prec=400):
        made = Decimal(repr(value) if isinstance(value, float) else value)
        exponent = made.as_tuple().exponent
        if isinstance(exponent, int) and -exponent > places:
            made = made.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)
        if isinstance(value, int):
            return (int(made) + (1 << 63)) % (1 << 64) - (1 << 63)
        return made if isinstance(value, Decimal) else float(made) + 0
