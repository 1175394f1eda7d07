"""CASE, IF, COALESCE and their like."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial, reduce

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import types
from rheos.sql.expressions.comparisons import compared
from rheos.sql.expressions.table import ANY, NUMBER, Compiler, Typed, computes, function
from rheos.sql.java_numbers import best_real

ANY_OF = "any of"
"""Key of a tuple's metadata: whether it is a list of values after WHEN, as in Flink."""


@computes(exp.Case)
def case(compiler: Compiler, node: exp.Case) -> Typed:
    compiler.sql.only(node, ("this", "ifs", "default"))
    of = node.args.get("this")
    asked = None if of is None else compiler.compile(of)
    conditions, results = [], []
    rest = compiler
    for branch in node.args["ifs"]:
        compiler.sql.only(branch, ("this", "true"))
        if asked is None:
            conditions.append(rest.condition(branch.this, "WHEN").expr)
        else:
            conditions.append(_equals(rest, asked, branch.this))
        results.append(rest.where(conditions[-1]).compile(branch.args["true"]))
        rest = rest.where(~conditions[-1].fill_null(False))
    default = node.args.get("default")
    last = None if default is None else rest.compile(default)
    return chosen_of(compiler, node, conditions, results, last)


def _equals(compiler: Compiler, asked: Typed, when: exp.Expr) -> pl.Expr:
    """Return whether the value of CASE is that after WHEN, or one of those."""
    values = when.expressions if when.meta.get(ANY_OF) else [when]
    pairs = (compared(compiler, [asked, compiler.compile(each)], "CASE") for each in values)
    return reduce(operator.or_, (left == right for left, right in pairs))


@computes(exp.If)
def if_(compiler: Compiler, node: exp.If) -> Typed:
    compiler.sql.only(node, ("this", "true", "false"))
    condition = compiler.condition(node.this, "IF").expr
    otherwise = node.args.get("false")
    rest = compiler.where(~condition.fill_null(False))
    last = None if otherwise is None else rest.compile(otherwise)
    return chosen_of(
        compiler, node, [condition], [compiler.where(condition).compile(node.args["true"])], last
    )


@computes(exp.Nvl2)
def nvl2(compiler: Compiler, node: exp.Nvl2) -> Typed:
    compiler.sql.only(node, ("this", "true", "false"))
    there = compiler.compile(node.this).expr.is_not_null()
    both = [compiler.compile(node.args.get(name)) for name in ("true", "false")]
    return chosen_of(compiler, node, [there], both[:1], both[1])


_MOST_NESTED = 20
"""Maximum number of nested branches. If there are more, each branch is computed by itself."""


def chosen_of(
    compiler: Compiler,
    node: exp.Expr,
    conditions: Sequence[pl.Expr],
    results: Sequence[Typed],
    last: Typed | None = None,
) -> Typed:
    """Return the result of the first condition that holds."""
    every = [*results, *([] if last is None else [last])]
    made, kind = compiler.common(every, "CASE")
    expr = made[-1].expr if last is not None else pl.lit(None, dtype=kind)
    if len(conditions) > _MOST_NESTED:
        # The first that is there; a result that is null is there, too.
        there = [
            pl.when(condition).then(pl.struct(result.expr.alias("result")))
            for condition, result in zip(conditions, made, strict=False)
        ]
        found = pl.coalesce([*there, pl.struct(expr.alias("result"))])
        return Typed(found.struct.field("result"), kind, node)
    for condition, result in reversed([*zip(conditions, made, strict=False)]):
        expr = pl.when(condition).then(result.expr).otherwise(expr)
    return Typed(expr, kind, node)


@computes(exp.DecodeCase)
def decode(compiler: Compiler, node: exp.DecodeCase) -> Typed:
    """Compile DECODE(x, 1, 'a', 2, 'b', 'else'), in which null equals null."""
    of, *rest = map(compiler.compile, node.expressions)
    if any(each.type == types.TEXT for each in rest):
        # Spark has one type for all of its arguments.
        of, *rest = (compiler.cast(each, types.TEXT) for each in (of, *rest))
    last = rest.pop() if len(rest) % 2 else None
    conditions = []
    for value in rest[::2]:
        left, right = compared(compiler, [of, value], "DECODE")
        conditions.append(left.eq_missing(right))
    return chosen_of(compiler, node, conditions, rest[1::2], last)


@computes(exp.Coalesce)
def coalesce(compiler: Compiler, node: exp.Coalesce) -> Typed:
    compiler.sql.only(node, ("this", "expressions", "is_nvl", "is_null"))
    values: list[Typed] = []
    for each in (node.this, *node.expressions):
        values.append(compiler.compile(each))
        compiler = compiler.where(values[-1].expr.is_null())
    made, kind = compiler.common(values, "COALESCE")
    return Typed(pl.coalesce([each.expr for each in made]), kind, node)


@computes(exp.Nullif)
def nullif(compiler: Compiler, node: exp.Nullif) -> Typed:
    compiler.sql.only(node, ("this", "expression"))
    value, other = compiler.compile(node.this), compiler.compile(node.expression)
    left, right = compared(compiler, [value, other], "NULLIF")
    return Typed(
        pl.when((left == right).fill_null(False)).then(None).otherwise(value.expr), value.type, node
    )


@computes(exp.Greatest, exp.Least)
def extreme(compiler: Compiler, node: exp.Greatest | exp.Least) -> Typed:
    compiler.sql.only(node, ("this", "expressions", "ignore_nulls"))
    values = [compiler.compile(each) for each in (node.this, *node.expressions)]
    exprs = compared(compiler, values, "GREATEST" if isinstance(node, exp.Greatest) else "LEAST")
    _, kind = compiler.common(values, "GREATEST")
    if isinstance(kind, pl.List | pl.Struct):
        raise compiler.sql.wrong_type(
            f"GREATEST and LEAST take no {types.name(kind)}", node, "compare its fields or elements"
        )
    if not types.is_floating(kind):
        made = pl.max_horizontal if isinstance(node, exp.Greatest) else pl.min_horizontal
        return Typed(made(exprs), kind, node)
    best = partial(best_real, greatest=isinstance(node, exp.Greatest))
    return Typed(of_columns(best, exprs, kind), kind, node)


@function("isnull", {"this": ANY}, types.BOOLEAN)
def isnull(this: pl.Expr) -> pl.Expr:
    return this.is_null()


@function("isnotnull", {"this": ANY}, types.BOOLEAN)
def isnotnull(this: pl.Expr) -> pl.Expr:
    return this.is_not_null()


@function("nullifzero", {"this": NUMBER}, "this")
def nullifzero(this: pl.Expr) -> pl.Expr:
    return pl.when(this != 0).then(this)


@function("zeroifnull", {"this": NUMBER}, "this")
def zeroifnull(this: pl.Expr) -> pl.Expr:
    return this.fill_null(0)


@function(exp.IsNan, {"this": NUMBER}, types.BOOLEAN)
def isnan(this: pl.Expr) -> pl.Expr:
    return this.cast(types.DOUBLE).is_nan().fill_null(False)
