"""Comparisons, IN, BETWEEN, LIKE, IS."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
from sqlglot import exp

from rheos.graph.expression_trees import FAILURES
from rheos.sql import types
from rheos.sql.expressions.table import (
    CONSTANT_TEXT,
    TEXT,
    Compiler,
    Typed,
    computes,
    function,
)

_COMPARED: dict[type[exp.Expr], Any] = {
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
    exp.GT: lambda a, b: a > b,
    exp.GTE: lambda a, b: a >= b,
    exp.NullSafeEQ: lambda a, b: a.eq_missing(b),
    exp.NullSafeNEQ: lambda a, b: a.ne_missing(b),
}


@computes(*_COMPARED)
def comparison(compiler: Compiler, node: exp.Expr) -> Typed:
    compiler.sql.only(node, ("this", "expression"))
    values = [compiler.compile(node.args[name]) for name in ("this", "expression")]
    left, right = _compared(compiler, values, "a comparison")
    return Typed(_COMPARED[type(node)](left, right), types.BOOLEAN, node)


def _compared(compiler: Compiler, values: list[Typed], where: str) -> list[pl.Expr]:
    made, kind = compiler.common(values, where)
    if kind == types.NULL:
        # Polars does not compare nulls without a type.
        made = [compiler.cast(each, types.BOOLEAN) for each in made]
    if isinstance(kind, pl.Struct | pl.List):
        raise compiler.sql.wrong_type(
            f"{types.name(kind)} cannot be compared", values[0].node, "compare its parts"
        )
    return [each.expr for each in made]


@computes(exp.Is)
def is_(compiler: Compiler, node: exp.Is) -> Typed:
    compiler.sql.only(node, ("this", "expression"))
    what = node.expression
    if isinstance(what, exp.Null):
        return Typed(compiler.compile(node.this).expr.is_null(), types.BOOLEAN, node)
    if isinstance(what, exp.Boolean):
        value = compiler.condition(node.this, "IS").expr
        return Typed(value.eq_missing(pl.lit(bool(what.this))), types.BOOLEAN, node)
    raise compiler.sql.not_computed(node, "write IS NULL, IS TRUE or IS FALSE")


@computes(exp.Between)
def between(compiler: Compiler, node: exp.Between) -> Typed:
    compiler.sql.only(node, ("this", "low", "high"))
    values = [compiler.compile(node.args[name]) for name in ("this", "low", "high")]
    value, low, high = _compared(compiler, values, "BETWEEN")
    return Typed((value >= low) & (value <= high), types.BOOLEAN, node)


@computes(exp.In)
def among(compiler: Compiler, node: exp.In) -> Typed:
    if node.args.get("query") is not None:
        raise compiler.sql.error(
            "IN (SELECT ...) is not computed here",
            node,
            "it stands in WHERE, beside other conditions by AND",
        )
    compiler.sql.only(node, ("this", "expressions"))
    values = [compiler.compile(each) for each in (node.this, *node.expressions)]
    value, *others = _compared(compiler, values, "IN")
    if all(each.is_constant and each.constant is not None for each in values[1:]):
        constants = pl.concat([types.constant(each) for each in others])
        return Typed(value.is_in(pl.lit(constants.implode())), types.BOOLEAN, node)
    # As OR has it: null, where it is none of them and one of them is null.
    found = value == others[0]
    for other in others[1:]:
        found = found | (value == other)
    return Typed(found, types.BOOLEAN, node)


# --- patterns -----------------------------------------------------------------------------------------


@computes(exp.Like, exp.ILike)
def like(compiler: Compiler, node: exp.Like | exp.ILike) -> Typed:
    return _like(compiler, node, "\\")


@computes(exp.Escape)
def escape(compiler: Compiler, node: exp.Escape) -> Typed:
    compiler.sql.only(node, ("this", "expression"))
    sign = node.expression
    if not isinstance(node.this, exp.Like | exp.ILike) or len(sign.name) != 1:
        raise compiler.sql.not_computed(node, "write LIKE '...' ESCAPE '!'")
    return _like(compiler, node.this, sign.name)


def _like(compiler: Compiler, node: exp.Like | exp.ILike, sign: str) -> Typed:
    compiler.sql.only(node, ("this", "expression", "negate"))
    value, pattern = compiler.compile(node.this), compiler.compile(node.expression)
    if value.type not in (types.TEXT, types.NULL) or not isinstance(pattern.constant, str):
        raise compiler.sql.wrong_type(
            "LIKE compares a STRING with a pattern that stands in the SQL",
            node if value.type == types.TEXT else value.node,
            "write name LIKE 'a%'",
        )
    flags = "(?is)" if isinstance(node, exp.ILike) else "(?s)"
    found = compiler.cast(value, types.TEXT).expr.str.contains(
        f"{flags}^{_regex(pattern.constant, sign)}$"
    )
    return Typed(~found if node.args.get("negate") else found, types.BOOLEAN, node)


def _regex(pattern: str, sign: str) -> str:
    made, signs = "", iter(pattern)
    for char in signs:
        if char == sign:
            made += re.escape(next(signs, sign))
        else:
            made += {"%": ".*", "_": "."}.get(char) or re.escape(char)
    return made


@computes(exp.RegexpLike)
def regexp_like(compiler: Compiler, node: exp.RegexpLike) -> Typed:
    compiler.sql.only(node, ("this", "expression", "full_match"))
    value, pattern = compiler.compile(node.this), compiler.compile(node.expression)
    if value.type != types.TEXT or not isinstance(pattern.constant, str):
        raise compiler.sql.wrong_type(
            "RLIKE compares a STRING with a pattern that stands in the SQL",
            node,
            "write name RLIKE '^a'",
        )
    check_pattern(compiler, pattern)
    return Typed(value.expr.str.contains(pattern.constant), types.BOOLEAN, node)


def check_pattern(compiler: Compiler, pattern: Typed) -> None:
    """It is a pattern that Polars reads. Raises ProgramError."""
    try:
        pl.select(pl.lit("").str.contains(pattern.constant))
    except FAILURES as error:
        lines = [line.strip() for line in str(error).strip().splitlines()]
        raise compiler.sql.error(
            f"this is no pattern: {lines[-1]}",
            pattern.node,
            "it is read as Rust's regular expressions, which look neither ahead nor back",
        ) from None


@function(exp.StartsWith, {"this": TEXT, "expression": TEXT}, types.BOOLEAN)
def starts_with(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    return this.str.starts_with(expression)


@function(exp.EndsWith, {"this": TEXT, "expression": TEXT}, types.BOOLEAN)
def ends_with(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    return this.str.ends_with(expression)


@function(exp.Contains, {"this": TEXT, "expression": CONSTANT_TEXT}, types.BOOLEAN)
def contains(this: pl.Expr, expression: str) -> pl.Expr:
    return this.str.contains(expression, literal=True)
