"""Arithmetic and logic."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl
from sqlglot import exp

from rheos.core.graph import decimal_types
from rheos.core.graph.row_functions import of_columns
from rheos.sql import types
from rheos.sql.expressions.calendar_intervals import negated
from rheos.sql.expressions.intervals import (
    difference_of_times,
    moved_by_literal,
    moved_by_value,
    scaled_interval,
)
from rheos.sql.expressions.table import CAST, Compiler, Typed, computes
from rheos.sql.java_numbers import remainder
from rheos.sql.value_functions import over_operands


def _operands(compiler: Compiler, node: exp.Expr, *flags: str) -> tuple[Typed, Typed]:
    compiler.sql.only(node, ("this", "expression", *flags))
    return compiler.compile(node.args["this"]), compiler.compile(node.args["expression"])


def _numbers(compiler: Compiler, node: exp.Expr, *flags: str) -> tuple[Typed, Typed]:
    return as_numbers(compiler, *_operands(compiler, node, *flags))


def as_numbers(compiler: Compiler, left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """Return both operands as numbers. Raise SchemaError if one is not a number."""
    known = []
    left, right = compiler.with_typed_literals((left, right))
    for value in (left, right):
        kind = types.signed(value.type)
        if not types.is_number(kind) and kind != types.NULL:
            raise compiler.wrong_type("arithmetic takes numbers", value, CAST)
        if kind != types.NULL:
            known.append(kind)
    # NULL is of the type of the other.
    first, last = (known[0], known[-1]) if known else (types.DOUBLE, types.DOUBLE)
    return compiler.cast(left, first), compiler.cast(right, last)


def _of_one_type(compiler: Compiler, left: Typed, right: Typed) -> tuple[pl.Expr, pl.Expr, pl.DataType]:
    """Return both operands in their common type, and the type."""
    kind = types.common(left.type, right.type)
    assert kind is not None
    return compiler.cast(left, kind).expr, compiler.cast(right, kind).expr, kind


# --- plus and minus -----------------------------------------------------------------------------------


@computes(exp.Add)
def add(compiler: Compiler, node: exp.Add) -> Typed:
    return _added(compiler, node, 1)


@computes(exp.Sub)
def sub(compiler: Compiler, node: exp.Sub) -> Typed:
    return _added(compiler, node, -1)


def _added(compiler: Compiler, node: exp.Add | exp.Sub, sign: int) -> Typed:
    """Compile a sum or a difference. Each operand is compiled once, as there may be long chains."""
    moved = moved_by_literal(compiler, node, sign)
    if moved is not None:
        return moved
    left, right = _operands(compiler, node)
    moved = moved_by_value(compiler, node, left, right, sign)
    if moved is None and sign < 0:
        moved = difference_of_times(compiler, node, left, right)
    return moved or _sum(compiler, node, *as_numbers(compiler, left, right))


def _sum(compiler: Compiler, node: exp.Add | exp.Sub, left: Typed, right: Typed) -> Typed:
    compute = operator.add if isinstance(node, exp.Add) else operator.sub
    found = _of_decimals(node, left, right, compute, decimal_types.of_sum)
    if found is not None:
        return found
    one, other, kind = _of_one_type(compiler, left, right)
    made = compute(one, other)
    if types.is_floating(kind) and isinstance(node, exp.Add) and 0 in (left.constant, right.constant):
        # Polars leaves out what adds 0; -0.0 becomes 0.0 by it.
        made = pl.when(made == 0).then(pl.lit(0.0, dtype=kind)).otherwise(made)
    return Typed(made, kind, node)


def _of_decimals(
    node: exp.Expr,
    left: Typed,
    right: Typed,
    compute: Callable[[pl.Expr, pl.Expr], pl.Expr],
    result: Callable[[pl.Decimal, pl.Decimal], pl.Decimal],
) -> Typed | None:
    """Return the result of decimals, null where it has more than 38 digits; None unless a side is
    decimal and none is floating."""
    kinds = left.type, right.type
    if not any(map(types.is_decimal, kinds)) or any(map(types.is_floating, kinds)):
        return None
    kind = result(_digits(left), _digits(right))
    # `graph.exact_decimals` decides how it is computed, and the type.
    return Typed(compute(left.expr, right.expr).cast(kind, strict=False), kind, node)


def _digits(value: Typed) -> pl.Decimal:
    """Return the decimal type of an operand. An integer constant has the digits that are written."""
    if value.is_constant and isinstance(value.constant, int):
        narrow = decimal_types.of_constant(value.constant)
        assert narrow is not None
        return narrow
    return types.as_decimal(value.type)


# --- products -----------------------------------------------------------------------------------------


@computes(exp.Mul)
def mul(compiler: Compiler, node: exp.Mul) -> Typed:
    left, right = _operands(compiler, node)
    scaled = scaled_interval(compiler, node, left, right)
    if scaled is not None:
        return scaled
    left, right = as_numbers(compiler, left, right)
    found = _of_decimals(node, left, right, operator.mul, decimal_types.of_product)
    if found is not None:
        return found
    one, other, kind = _of_one_type(compiler, left, right)
    return Typed(one * other, kind, node)


@computes(exp.Div)
def div(compiler: Compiler, node: exp.Div) -> Typed:
    left, right = _operands(compiler, node, "typed", "safe")
    scaled = scaled_interval(compiler, node, left, right)
    if scaled is not None:
        return scaled
    left, right = as_numbers(compiler, left, right)
    found = _of_decimals(node, left, right, operator.truediv, decimal_types.of_quotient)
    if found is not None:
        return found
    if node.args.get("typed") and all(types.is_integer(each.type) for each in (left, right)):
        return _whole_quotient(compiler, node, left, right)
    operands = [compiler.cast(each, types.DOUBLE).expr for each in (left, right)]
    kinds = [types.DOUBLE, types.DOUBLE]
    made = over_operands(lambda one, other: pl.when(other != 0).then(one / other), operands, kinds)
    return Typed(made, types.DOUBLE, node)


@computes(exp.IntDiv)
def int_div(compiler: Compiler, node: exp.IntDiv) -> Typed:
    left, right = _numbers(compiler, node)
    found = _of_decimals(node, left, right, operator.floordiv, decimal_types.of_whole_quotient)
    if found is not None:
        return compiler.cast(found, types.BIGINT)
    return _whole_quotient(compiler, node, *_wholes(compiler, node, "DIV"))


def _whole_quotient(compiler: Compiler, node: exp.Expr, left: Typed, right: Typed) -> Typed:
    operands = [compiler.cast(each, types.BIGINT).expr for each in (left, right)]
    return Typed(over_operands(_truncated, operands, [types.BIGINT, types.BIGINT]), types.BIGINT, node)


def _truncated(one: pl.Expr, other: pl.Expr) -> pl.Expr:
    """Return the quotient of integers, truncated; Polars returns its floor."""
    floor = one // other
    carried = ((one % other) != 0) & ((one < 0) != (other < 0))
    return pl.when(other != 0).then(pl.when(carried).then(floor + 1).otherwise(floor))


@computes(exp.Mod)
def mod(compiler: Compiler, node: exp.Mod) -> Typed:
    return remainder_of(compiler, node, *_numbers(compiler, node))


def remainder_of(compiler: Compiler, node: exp.Expr, left: Typed, right: Typed) -> Typed:
    """Return the remainder of numbers, with the sign of the dividend; null if the divisor is 0."""
    found = _of_decimals(node, left, right, operator.mod, decimal_types.of_remainder)
    if found is not None:
        return found
    one, other, kind = _of_one_type(compiler, left, right)
    compute = _remainder_of_reals if types.is_floating(kind) else _remainder_of_integers
    return Typed(over_operands(partial(compute, kind), [one, other], [kind, kind]), kind, node)


def _remainder_of_reals(kind: pl.DataType, one: pl.Expr, other: pl.Expr) -> pl.Expr:
    return pl.when(other != 0).then(of_columns(remainder, [one, other], kind))


def _remainder_of_integers(_kind: pl.DataType, one: pl.Expr, other: pl.Expr) -> pl.Expr:
    # In Polars the remainder has the sign of the divisor.
    rest = one % other
    wrong = (rest != 0) & ((one < 0) != (other < 0))
    return pl.when(other != 0).then(pl.when(wrong).then(rest - other).otherwise(rest))


def _wholes(compiler: Compiler, node: exp.Expr, what: str) -> tuple[Typed, Typed]:
    both = _numbers(compiler, node)
    for value in both:
        if not types.is_integer(value.type):
            raise compiler.wrong_type(f"{what} takes whole numbers", value, "write CAST(... AS BIGINT)")
    return both


_BITS: dict[type[exp.Expr], Any] = {
    exp.BitwiseAnd: lambda a, b: a & b,
    exp.BitwiseOr: lambda a, b: a | b,
    exp.BitwiseXor: lambda a, b: a ^ b,
}


@computes(*_BITS)
def bits(compiler: Compiler, node: exp.Expr) -> Typed:
    left, right = _wholes(compiler, node, "an operation on bits")
    one, other, kind = _of_one_type(compiler, left, right)
    return Typed(_BITS[type(node)](one, other), kind, node)


@computes(exp.Neg)
def neg(compiler: Compiler, node: exp.Neg) -> Typed:
    compiler.sql.only(node, ("this",))
    value = compiler.compile(node.this)
    if types.has_months(value.type):
        return negated(value, node)
    if isinstance(value.type, pl.Duration):
        return replace(value, expr=-value.expr, node=node, is_constant=False)
    kind = types.signed(value.type)
    if isinstance(node.this, exp.Literal) and value.constant in (1 << 31, 1 << 63):
        # The least INT and the least BIGINT: without the minus they would be too large.
        kind = types.INT if value.constant == 1 << 31 else types.BIGINT
    if not types.is_number(kind):
        raise compiler.wrong_type("unary minus takes a number", value, "leave out the minus", at=node)
    if value.is_constant:
        negative = int(-value.constant) if types.is_integer(kind) else -value.constant
        return Typed(pl.lit(negative, dtype=kind), kind, node, negative, is_constant=True)
    return Typed(-compiler.cast(value, kind).expr, kind, node)


# --- logic --------------------------------------------------------------------------------------------


@computes(exp.And)
def both(compiler: Compiler, node: exp.And) -> Typed:
    left, right = _conditions(compiler, node, "AND")
    return Typed(left & right, types.BOOLEAN, node)


@computes(exp.Or)
def either(compiler: Compiler, node: exp.Or) -> Typed:
    left, right = _conditions(compiler, node, "OR")
    return Typed(left | right, types.BOOLEAN, node)


def _conditions(compiler: Compiler, node: exp.Expr, what: str) -> tuple[pl.Expr, pl.Expr]:
    compiler.sql.only(node, ("this", "expression"))
    left, right = node.args["this"], node.args["expression"]
    return compiler.condition(left, what).expr, compiler.condition(right, what).expr


@computes(exp.Not)
def negation(compiler: Compiler, node: exp.Not) -> Typed:
    compiler.sql.only(node, ("this",))
    return Typed(~compiler.condition(node.this, "NOT").expr, types.BOOLEAN, node)
