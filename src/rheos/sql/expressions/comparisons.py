"""Comparisons, IN, BETWEEN, IS, and tests of the start and the end of strings."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.chains import halved
from rheos.sql.expressions.json_standard import is_json
from rheos.sql.expressions.literals import literal_value
from rheos.sql.expressions.order_keys import is_nested, is_ordered, order_key
from rheos.sql.expressions.row_order import STANDARD_NULLS, RowValues, values_of_row
from rheos.sql.expressions.table import TEXT_OF_BYTES, Compiler, Typed, computes, function
from rheos.sql.expressions.untyped_literals import read_as

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
    if values_of_row(node.this) and values_of_row(node.expression):
        rows = [RowValues.of(compiler, node.args[name]) for name in ("this", "expression")]
        order = rows[0].order(compiler, rows[1], standard=bool(node.meta.get(STANDARD_NULLS)))
        return Typed(_COMPARED[type(node)](order, pl.lit(0, dtype=pl.Int8())), types.BOOLEAN, node)
    values = _operands(compiler, (node.this, node.expression))
    left, right = compared(compiler, values, "a comparison")
    return Typed(_COMPARED[type(node)](left, right), types.BOOLEAN, node)


def _operands(compiler: Compiler, nodes: Sequence[exp.Expr]) -> list[Typed]:
    """Compile operands; (a, b) next to a struct is one. Raise ProgramError or SchemaError."""
    others = [compiler.compile(each) for each in nodes if not isinstance(each, exp.Tuple)]
    if not any(isinstance(each.type, pl.Struct) for each in others):
        return [compiler.compile(each) for each in nodes]
    return [
        _as_struct(compiler, each) if isinstance(each, exp.Tuple) else compiler.compile(each)
        for each in nodes
    ]


def _as_struct(compiler: Compiler, row: exp.Tuple) -> Typed:
    parts = {f"col{place}": compiler.compile(each) for place, each in enumerate(row.expressions, 1)}
    made = pl.struct(part.expr.alias(name) for name, part in parts.items())
    return Typed(made, pl.Struct({name: part.type for name, part in parts.items()}), row)


def compared(compiler: Compiler, values: list[Typed], where: str) -> list[pl.Expr]:
    """Return the values in one type for which comparisons of Polars have the meaning of SQL: arrays and
    structs become strings in their order. Raise SchemaError."""
    made, kind = compiler.common(values, where)
    if kind == types.NULL:
        # Polars does not compare nulls without a type.
        made = [compiler.cast(each, types.BOOLEAN) for each in made]
    if not is_nested(kind):
        return [each.expr for each in made]
    if not is_ordered(kind):
        raise compiler.sql.wrong_type(
            f"{types.name(kind)} cannot be compared", values[0].node, "compare its fields or elements"
        )
    return [order_key(each.expr, kind) for each in made]


def equal_keys(compiler: Compiler, pair: Sequence[Typed], where: str) -> list[Typed]:
    """Return values in one type, as keys that are equal if the values are. Raise SchemaError."""
    both, kind = compiler.common(pair, where)
    if not is_nested(kind):
        return both
    keys = compared(compiler, both, where)
    return [Typed(key, types.TEXT, each.node) for key, each in zip(keys, both, strict=True)]


@computes(exp.Is)
def is_(compiler: Compiler, node: exp.Is) -> Typed:
    compiler.sql.only(node, ("this", "expression"))
    what = node.expression
    if isinstance(what, exp.Null):
        return Typed(compiler.compile(node.this).expr.is_null(), types.BOOLEAN, node)
    if isinstance(what, exp.Boolean):
        value = compiler.condition(node.this, "IS").expr
        return Typed(value.eq_missing(pl.lit(bool(what.this))), types.BOOLEAN, node)
    if isinstance(what, exp.JSON):
        return is_json(compiler, node)
    raise compiler.sql.not_computed(node, "write IS NULL, IS TRUE or IS FALSE")


@computes(exp.Between)
def between(compiler: Compiler, node: exp.Between) -> Typed:
    compiler.sql.only(node, ("this", "low", "high"))
    if values_of_row(node.this):
        row, least, most = (RowValues.of(compiler, node.args[name]) for name in ("this", "low", "high"))
        standard = bool(node.meta.get(STANDARD_NULLS))
        above = row.order(compiler, least, standard=standard) >= 0
        return Typed(above & (row.order(compiler, most, standard=standard) <= 0), types.BOOLEAN, node)
    values = [compiler.compile(node.args[name]) for name in ("this", "low", "high")]
    value, low, high = compared(compiler, values, "BETWEEN")
    return Typed((value >= low) & (value <= high), types.BOOLEAN, node)


@computes(exp.In)
def among(compiler: Compiler, node: exp.In) -> Typed:
    if node.args.get("query") is not None:
        raise compiler.sql.error(
            "IN (SELECT ...) is not computed here",
            node,
            "use it in WHERE, combined with other conditions by AND",
        )
    compiler.sql.only(node, ("this", "expressions"))
    if not node.expressions:
        raise compiler.sql.error("IN needs at least one value", node, "write x IN (1, 2)")
    value = compiler.compile(node.this)
    given = [read_as(compiler.sql, each, value.type) for each in node.expressions]
    constants = [_constant_of(compiler, each) for each in given]
    if None not in constants:
        return _among_constants(compiler, node, value, [*zip(given, constants, strict=True)])
    operands = _operands(compiler, [node.this, *given])
    value_expr, *exprs = compared(compiler, operands, "IN")
    # As with OR: null if the value equals none of them and one of them is null.
    found = halved([value_expr == each for each in exprs], operator.or_)
    return Typed(found, types.BOOLEAN, node)


def _constant_of(compiler: Compiler, node: exp.Expr) -> tuple[Any, pl.DataType] | None:
    """Return the value and type of a constant; None for other expressions and nulls."""
    if isinstance(node, exp.Literal):
        return literal_value(compiler.sql, node)
    made = compiler.compile(node)
    return (made.constant, made.type) if made.is_constant and made.constant is not None else None


def _among_constants(
    compiler: Compiler,
    node: exp.In,
    value: Typed,
    constants: Sequence[tuple[exp.Expr, tuple[Any, pl.DataType] | None]],
) -> Typed:
    """Return one column for all constants of a type: there may be thousands of them."""
    of_type: dict[pl.DataType, list[tuple[Any, exp.Expr]]] = {}
    for each, known in constants:
        assert known is not None, "all of them are constants"
        of_type.setdefault(known[1], []).append((known[0], each))
    ones = [compiler.compile(same[0][1]) for same in of_type.values()]
    [expr, *firsts] = compared(compiler, [value, *ones], "IN")
    to = types.constant(firsts[0]).dtype
    columns = []
    for kind, same in of_type.items():
        column = pl.lit(pl.Series([constant for constant, _ in same], dtype=kind))
        cast = types.cast(column, kind, to)
        assert cast is not None, "the first of them is cast, too"
        made = types.constant(cast)
        if made.null_count() and kind == types.TEXT:
            wrong = same[made.is_null().arg_max() or 0][1]
            compiler.cast_text(compiler.compile(wrong), to)
        columns.append(made)
    return Typed(expr.is_in(pl.lit(pl.concat(columns).implode())), types.BOOLEAN, node)


# --- parts of strings ---------------------------------------------------------------------------------


@function(exp.StartsWith, {"this": TEXT_OF_BYTES, "expression": TEXT_OF_BYTES}, types.BOOLEAN)
def starts_with(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    return this.str.starts_with(expression)


@function(exp.EndsWith, {"this": TEXT_OF_BYTES, "expression": TEXT_OF_BYTES}, types.BOOLEAN)
def ends_with(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    return this.str.ends_with(expression)


@function(exp.Contains, {"this": TEXT_OF_BYTES, "expression": TEXT_OF_BYTES}, types.BOOLEAN)
def contains(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    return this.str.contains(expression, literal=True)
