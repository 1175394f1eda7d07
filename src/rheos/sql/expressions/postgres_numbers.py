"""Functions of numbers of PostgreSQL."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import types
from rheos.sql.expressions.mathematics import real, rounded_decimal
from rheos.sql.expressions.table import (
    ANY,
    CONSTANT_WHOLE,
    NUMBER,
    REAL,
    WHOLE,
    Compiler,
    Typed,
    computes_named,
    function,
    optional,
)
from rheos.sql.java_numbers import rounded as rounded_reals
from rheos.sql.text import kind
from rheos.sql.value_functions import of_values

# --- of degrees ---------------------------------------------------------------------------------------

_SINES = {0: 0.0, 30: 0.5, 90: 1.0, 150: 0.5, 180: 0.0, 210: -0.5, 270: -1.0, 330: -0.5}
_TANGENTS = {0: 0.0, 45: 1.0, 135: -1.0, 180: 0.0, 225: 1.0, 315: -1.0}
"""Values that are exact, and that a multiple of pi would miss."""


def _exactly(x: pl.Expr, known: dict[int, float], otherwise: pl.Expr) -> pl.Expr:
    made = otherwise
    for angle, value in known.items():
        made = pl.when(x % 360 == angle).then(value).otherwise(made)
    return pl.when(x.is_finite()).then(made)


real("sind", lambda x: _exactly(x, _SINES, x.radians().sin()))
real("cosd", lambda x: _exactly(x + 90, _SINES, x.radians().cos()))
real("tand", lambda x: _exactly(x, _TANGENTS, x.radians().tan()))
real("cotd", lambda x: _exactly(90 - x, _TANGENTS, 1 / x.radians().tan()))
real("asind", lambda x: _near_whole(x.arcsin().degrees()))
real("acosd", lambda x: _near_whole(x.arccos().degrees()))
real("atand", lambda x: _near_whole(x.arctan().degrees()))


def _near_whole(degrees: pl.Expr) -> pl.Expr:
    """Return whole degrees in the place of those that differ only by rounding errors."""
    whole = degrees.round()
    return pl.when((degrees - whole).abs() < 1e-13).then(whole).otherwise(degrees)


@function("atan2d", {"y": REAL, "x": REAL}, types.DOUBLE)
def atan2d(y: pl.Expr, x: pl.Expr) -> pl.Expr:
    return _near_whole(pl.arctan2(y, x).degrees())


# --- special functions --------------------------------------------------------------------------------

real("pg.erf", lambda x: of_values(math.erf, [x], types.DOUBLE))
real("pg.erfc", lambda x: of_values(math.erfc, [x], types.DOUBLE))
real("pg.gamma", lambda x: of_values(_gamma, [x], types.DOUBLE))
real("pg.lgamma", lambda x: of_values(_lgamma, [x], types.DOUBLE))


def _gamma(value: float) -> float | None:
    try:
        return math.gamma(value)
    except (OverflowError, ValueError):
        return None


def _lgamma(value: float) -> float | None:
    try:
        return math.lgamma(value)
    except (OverflowError, ValueError):
        return None


@function("gcd", {"one": WHOLE, "other": WHOLE}, types.BIGINT)
def gcd(one: pl.Expr, other: pl.Expr) -> pl.Expr:
    return of_values(_gcd, [one, other], types.BIGINT)


def _gcd(one: int, other: int) -> int | None:
    return _if_long(math.gcd(one, other))


@function("lcm", {"one": WHOLE, "other": WHOLE}, types.BIGINT)
def lcm(one: pl.Expr, other: pl.Expr) -> pl.Expr:
    return of_values(_lcm, [one, other], types.BIGINT)


def _lcm(one: int, other: int) -> int | None:
    return _if_long(math.lcm(one, other))


def _if_long(value: int) -> int | None:
    return value if value < 1 << 63 else None


# --- digits -------------------------------------------------------------------------------------------


@computes_named("pg.round", "pg.trunc")
def rounded(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ROUND and TRUNC of a number, to a number of digits after the point. Halves of a DOUBLE
    are rounded to the even number."""
    value, *digits = compiler.given(node, [NUMBER, optional(CONSTANT_WHOLE)])
    truncates = node.name == "pg.trunc"
    if types.is_floating(value.type):
        if digits and truncates:
            raise compiler.wrong_type(
                f"{kind(node)} with a number of digits takes a DECIMAL", value, "write x::numeric"
            )
        if digits:
            compute = partial(rounded_reals, places=digits[0].constant)
            made = of_columns(compute, [value.expr.cast(types.DOUBLE)], types.DOUBLE)
            return Typed(made.cast(value.type), value.type, node)
        whole = value.expr.truncate() if truncates else value.expr.round(mode="half_to_even")
        return Typed(whole, value.type, node)
    places = digits[0].constant if digits else 0
    places = max(-types.MOST_DIGITS + 1, min(places, types.MOST_DIGITS))
    if truncates:
        return truncated_decimal(compiler, value, places, node)
    of = types.as_decimal(value.type)
    return rounded_decimal(compiler.cast(value, of).expr, of, places, node)


def truncated_decimal(compiler: Compiler, value: Typed, places: int, node: exp.Expr) -> Typed:
    """Return an integer or a DECIMAL without its digits after a place."""
    places = max(-types.MOST_DIGITS + 1, min(places, types.MOST_DIGITS))
    of = types.as_decimal(value.type)
    exact = compiler.cast(value, of).expr
    near = rounded_decimal(exact, of, places, node)
    step = pl.lit(Decimal(1).scaleb(-min(places, of.scale)))
    beyond = near.expr.abs() > exact.abs()
    inward = pl.when(exact > 0).then(near.expr - step).otherwise(near.expr + step)
    made = pl.when(beyond).then(inward.cast(near.type, strict=False)).otherwise(near.expr)
    return Typed(made, near.type, node)


@computes_named("pg.div")
def quotient(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile DIV(a, b): the quotient without its fraction."""
    compiler.given(node, [NUMBER, NUMBER])
    one, other = node.expressions
    return compiler.compile(exp.IntDiv(this=one, expression=other))


@computes_named("pg.scale", "pg.min_scale", "pg.trim_scale")
def scale(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile SCALE, the number of digits after the point. MIN_SCALE leaves out zeros at the end."""
    [value] = compiler.given(node, [NUMBER])
    if types.is_floating(value.type):
        raise compiler.wrong_type(f"{kind(node)} takes a DECIMAL", value, "write CAST(x AS DECIMAL)")
    of = types.as_decimal(value.type)
    if node.name == "pg.trim_scale":
        return Typed(compiler.cast(value, of).expr, of, node)
    if node.name == "pg.scale":
        made = pl.when(value.expr.is_not_null()).then(pl.lit(of.scale, types.INT))
        return Typed(made, types.INT, node)
    digits = compiler.cast(value, of).expr.cast(types.TEXT).str.extract(r"\.(\d*?)0*$")
    found = pl.when(value.expr.is_not_null()).then(digits.str.len_chars().fill_null(0).cast(types.INT))
    return Typed(found, types.INT, node)


@computes_named("pg.width_bucket")
def width_bucket(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile WIDTH_BUCKET(x, thresholds), and the form with a number of buckets."""
    if len(node.expressions) != 2:
        made = exp.Anonymous(this="width_bucket", expressions=node.expressions)
        made.meta.update(node.meta)
        return compiler.compile(made)
    value, bounds = compiler.given(node, [NUMBER, ANY])
    if not isinstance(bounds.type, pl.List):
        raise compiler.wrong_type(
            f"{kind(node)} takes an ARRAY of thresholds", bounds, "write ARRAY[1]"
        )
    thresholds = compiler.cast(bounds, pl.List(types.DOUBLE)).expr
    of = compiler.cast(value, types.DOUBLE).expr
    reached = (thresholds - of).list.eval((pl.element() <= 0).sum()).list.first()
    return Typed(reached.cast(types.INT), types.INT, node)


@computes_named("num_nulls", "num_nonnulls")
def count_nulls(compiler: Compiler, node: exp.Anonymous) -> Typed:
    if not node.expressions:
        raise compiler.sql.error(f"{kind(node)} takes values", node, f"write {kind(node)[:-1]}a, b)")
    counts_nulls = node.name.casefold() == "num_nulls"
    values = [compiler.compile(each).expr for each in node.expressions]
    tests = [each.is_null() if counts_nulls else each.is_not_null() for each in values]
    return Typed(pl.sum_horizontal(tests).cast(types.INT), types.INT, node)
