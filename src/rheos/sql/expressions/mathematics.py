"""Functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import polars as pl
from sqlglot import exp

from rheos.graph import decimal_types
from rheos.sql import types
from rheos.sql.expressions.table import CAST, NUMBER, REAL, Compiler, Typed, computes, function


def _real(node: type[exp.Expr], compute: Callable[[pl.Expr], pl.Expr]) -> None:
    function(node, {"this": REAL}, types.DOUBLE)(lambda this: compute(this))


_real(exp.Sqrt, lambda x: x.sqrt())
_real(exp.Exp, lambda x: x.exp())
_real(exp.Ln, lambda x: pl.when(x > 0).then(x.log()))
_real(exp.Sin, lambda x: x.sin())
_real(exp.Cos, lambda x: x.cos())
_real(exp.Tan, lambda x: x.tan())
_real(exp.Asin, lambda x: x.arcsin())
_real(exp.Acos, lambda x: x.arccos())
_real(exp.Atan, lambda x: x.arctan())
_real(exp.Cbrt, lambda x: x.cbrt())
_real(exp.Degrees, lambda x: x.degrees())
_real(exp.Radians, lambda x: x.radians())
_real(exp.Sign, lambda x: x.sign())


@function("log10", {"this": REAL}, types.DOUBLE)
def log10(this: pl.Expr) -> pl.Expr:
    return pl.when(this > 0).then(this.log10())


@function(exp.Log, {"this": REAL, "expression": REAL}, types.DOUBLE)
def log(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    """To the base of the first."""
    both = (this > 0) & (expression > 0)
    return pl.when(both).then(expression.log() / this.log())


@function(exp.Pow, {"this": REAL, "expression": REAL}, types.DOUBLE)
def power(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    return this.pow(expression)


@function(exp.Atan2, {"this": REAL, "expression": REAL}, types.DOUBLE)
def atan2(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    return pl.arctan2(this, expression)


@function(exp.Abs, {"this": NUMBER}, "this")
def absolute(this: pl.Expr) -> pl.Expr:
    return this.abs()


@function(exp.Pi, {}, types.DOUBLE)
def pi() -> pl.Expr:
    return pl.lit(math.pi)


@function("e", {}, types.DOUBLE)
def e() -> pl.Expr:
    return pl.lit(math.e)


@computes(exp.Ceil, exp.Floor)
def whole(compiler: Compiler, node: exp.Ceil | exp.Floor) -> Typed:
    compiler.sql.only(node, ("this",))
    value = _number(compiler, node.this, "CEIL" if isinstance(node, exp.Ceil) else "FLOOR")
    if types.is_integer(value.type):
        return Typed(compiler.cast(value, types.BIGINT).expr, types.BIGINT, node)
    made = value.expr.ceil() if isinstance(node, exp.Ceil) else value.expr.floor()
    if isinstance(value.type, pl.Decimal):
        kind = decimal_types.of_whole(value.type)
        return Typed(made.cast(kind), kind, node)
    # Spark gives BIGINT, and not a number with nothing behind its point.
    fitting = types.cast(made, types.DOUBLE, types.BIGINT)
    assert fitting is not None
    return Typed(fitting, types.BIGINT, node)


@computes(exp.Round)
def rounded(compiler: Compiler, node: exp.Round) -> Typed:
    compiler.sql.only(node, ("this", "decimals"))
    value = _number(compiler, node.this, "ROUND")
    digits = node.args.get("decimals")
    places = 0
    if digits is not None:
        said = compiler.compile(digits)
        of_decimals = isinstance(value.type, pl.Decimal)
        if not isinstance(said.constant, int) or not (of_decimals or 0 <= said.constant <= 30):
            raise compiler.sql.error(
                "ROUND takes a number of digits that stands in the SQL, from 0 on",
                digits,
                "write ROUND(price, 2)",
            )
        places = said.constant
    if types.is_integer(value.type):
        return Typed(value.expr, value.type, node)
    if isinstance(value.type, pl.Decimal):
        return _rounded_decimal(value.expr, value.type, places, node)
    return Typed(value.expr.round(places, mode="half_away_from_zero"), value.type, node)


def _rounded_decimal(value: pl.Expr, of: pl.Decimal, places: int, node: exp.Expr) -> Typed:
    """Round to places after the point; before it, if there are less than 0."""
    whole = of.precision - of.scale
    if places >= 0:
        scale = min(places, of.scale)
        kind = pl.Decimal(min(whole + 1 + scale, types.MOST_DIGITS), scale)
        return Typed(value.cast(kind, strict=False), kind, node)
    kind = pl.Decimal(min(max(whole, -places) + 1, types.MOST_DIGITS), 0)
    if -places > whole:
        # Half of the unit is more than any value.
        return Typed(pl.when(value.is_not_null()).then(pl.lit(0).cast(kind)), kind, node)
    unit = pl.lit(Decimal(10**-places), dtype=pl.Decimal(1 - places, 0))
    half = pl.lit(Decimal(5 * 10 ** (-places - 1)), dtype=pl.Decimal(-places, 0))
    carried = pl.when(value % unit >= half).then(1).when(value % unit <= -half).then(-1).otherwise(0)
    return Typed(((value // unit + carried) * unit).cast(kind, strict=False), kind, node)


def _number(compiler: Compiler, node: exp.Expr, what: str) -> Typed:
    value = compiler.compile(node)
    kind = types.signed(value.type)
    if not types.is_number(kind):
        raise compiler.wrong_type(f"{what} takes a number", value, CAST, at=node)
    return compiler.cast(value, kind)
