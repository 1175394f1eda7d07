"""Functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph import decimal_types
from rheos.core.graph.row_functions import of_columns
from rheos.sql import types
from rheos.sql.expressions.table import (
    CAST,
    CONSTANT_WHOLE,
    NUMBER,
    REAL,
    Compiler,
    Typed,
    computes,
    function,
)
from rheos.sql.expressions.times import time_to_unit
from rheos.sql.java_numbers import rounded
from rheos.sql.text import kind


def real(node: type[exp.Expr] | str, compute: Callable[[pl.Expr], pl.Expr]) -> None:
    """Register a function of one number that returns a DOUBLE."""
    function(node, {"this": REAL}, types.DOUBLE)(lambda this: compute(this))


real(exp.Sqrt, lambda x: x.sqrt())
real(exp.Exp, lambda x: x.exp())
real(exp.Ln, lambda x: pl.when(x > 0).then(x.log()))
real(exp.Sin, lambda x: x.sin())
real(exp.Cos, lambda x: x.cos())
real(exp.Tan, lambda x: x.tan())
real(exp.Asin, lambda x: x.arcsin())
real(exp.Acos, lambda x: x.arccos())
real(exp.Atan, lambda x: x.arctan())
real(exp.Cbrt, lambda x: x.cbrt())
real(exp.Degrees, lambda x: x.degrees())
real(exp.Radians, lambda x: x.radians())
real(exp.Sign, lambda x: x.sign())


@function("log10", {"this": REAL}, types.DOUBLE)
def log10(this: pl.Expr) -> pl.Expr:
    return pl.when(this > 0).then(this.log10())


@function(exp.Log, {"this": REAL, "expression": REAL}, types.DOUBLE)
def log(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    """Compile LOG with two arguments: the first is the base."""
    both = (this > 0) & (expression > 0)
    return pl.when(both).then(expression.log() / this.log())


@function(exp.Pow, {"this": REAL, "expression": REAL}, types.DOUBLE)
def power(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    # As Java has it; to C it is 1, whatever the power of 1 is, and infinite ones of -1.
    unknown = ((this.abs() == 1) & expression.is_infinite()) | expression.is_nan()
    return pl.when(unknown).then(math.nan).otherwise(this.pow(expression))


@function(exp.Atan2, {"this": REAL, "expression": REAL}, types.DOUBLE)
def atan2(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    # Spark knows no negative zero here.
    one, other = (pl.when(each == 0).then(0.0).otherwise(each) for each in (this, expression))
    return pl.arctan2(one, other)


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
    compiler.sql.only(node, ("this", "decimals", "to"))
    unit, digits = node.args.get("to"), node.args.get("decimals")
    if unit is not None:
        return time_to_unit(compiler, node, unit)
    if digits is not None:
        return _to_place(compiler, node, digits)
    value = _number(compiler, node.this, "CEIL" if isinstance(node, exp.Ceil) else "FLOOR")
    if types.is_integer(value.type):
        return Typed(compiler.cast(value, types.BIGINT).expr, types.BIGINT, node)
    made = value.expr.ceil() if isinstance(node, exp.Ceil) else value.expr.floor()
    if isinstance(value.type, pl.Decimal):
        kind = decimal_types.of_whole(value.type)
        return Typed(made.cast(kind), kind, node)
    # Spark returns BIGINT, not a DOUBLE without a fraction.
    fitting = types.cast(made, types.DOUBLE, types.BIGINT)
    assert fitting is not None
    return Typed(fitting, types.BIGINT, node)


_MOST_SCALE = 15
"""Scale of the decimal to which CEIL and FLOOR with a scale convert a DOUBLE, as in Spark."""


def _to_place(compiler: Compiler, node: exp.Ceil | exp.Floor, digits: exp.Expr) -> Typed:
    """Compile CEIL and FLOOR with a scale, which return a decimal."""
    call = exp.Anonymous(this=kind(node).removesuffix("()"), expressions=[node.this, digits])
    value, scale = compiler.given(call, [NUMBER, CONSTANT_WHOLE])
    floating = types.is_floating(value.type)
    wide = pl.Decimal(30, _MOST_SCALE) if floating else types.as_decimal(value.type)
    value = compiler.cast(value, wide)
    near = rounded_decimal(value.expr, wide, scale.constant, node)
    assert isinstance(near.type, pl.Decimal)
    step = pl.lit(Decimal(1).scaleb(-min(scale.constant, near.type.scale)))
    if isinstance(node, exp.Ceil):
        wrong, moved = near.expr < value.expr, near.expr + step
    else:
        wrong, moved = near.expr > value.expr, near.expr - step
    made = pl.when(wrong).then(moved.cast(near.type, strict=False)).otherwise(near.expr)
    return Typed(made, near.type, node)


_MOST_PLACES = 400
"""Maximum distance of a DOUBLE's digit from the point, on either side."""


@computes(exp.Round)
def round_(compiler: Compiler, node: exp.Round) -> Typed:
    """Compile ROUND: halves are rounded away from zero. A DOUBLE is rounded as the decimal number that
    it prints as."""
    compiler.sql.only(node, ("this", "decimals"))
    value = _number(compiler, node.this, "ROUND")
    digits = node.args.get("decimals")
    places = 0
    if digits is not None:
        count = compiler.compile(digits)
        if not isinstance(count.constant, int) or isinstance(count.constant, bool):
            raise compiler.sql.error(
                "ROUND takes a constant number of digits", digits, "write ROUND(price, 2)"
            )
        places = max(-_MOST_PLACES, min(count.constant, _MOST_PLACES))
    if types.is_integer(value.type):
        return Typed(_whole_rounded(value.expr, value.type, -places), value.type, node)
    if isinstance(value.type, pl.Decimal):
        return rounded_decimal(value.expr, value.type, places, node)
    wide = compiler.cast(value, types.DOUBLE).expr
    made = of_columns(partial(rounded, places=places), [wide], types.DOUBLE)
    return Typed(made.cast(value.type), value.type, node)


def _whole_rounded(value: pl.Expr, kind: pl.DataType, zeros: int) -> pl.Expr:
    """Round whole numbers so that they end with `zeros` zeros. Results too large for the type wrap
    around, as in Spark."""
    if zeros <= 0:
        return value
    if zeros > _MOST_ZEROS:
        return value * 0
    wide, unit = value.cast(types.BIGINT), 10**zeros
    half = unit // 2
    if zeros == _MOST_ZEROS:
        up, down = (each.cast(types.BIGINT) for each in (wide >= half, wide <= -half))
        made: pl.Expr = (up - down) * (unit - (1 << 64))
    else:
        rest = (wide % unit + unit) % unit
        is_more = (rest > half) | ((rest == half) & (wide > 0))
        made = wide - rest + is_more.cast(types.BIGINT) * unit
    return made.cast(kind, wrap_numerical=True)


_MOST_ZEROS = 19
"""Digits of the largest BIGINT."""


def rounded_decimal(value: pl.Expr, of: pl.Decimal, places: int, node: exp.Expr) -> Typed:
    """Round to digits after the point; before it, if `places` is negative."""
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
