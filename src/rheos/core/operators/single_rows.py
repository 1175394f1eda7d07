"""Evaluation of an expression for a single row, in Python.

Polars takes about 150 µs to compute anything for a single row. So this module computes the common parts
of conditions itself: comparisons, logic, 64-bit arithmetic and null checks. It composes them once from
Python functions with the semantics of Polars. Polars evaluates every other part of an expression.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import polars as pl

from rheos.core.graph.exact_decimals import exact_one
from rheos.core.graph.expression_trees import Tree, expression_of, is_constant, tree_of, types_of

Values: TypeAlias = Mapping[str, Any]
"""Values of a row, by column."""
Compute: TypeAlias = Callable[[Values], Any]

_ORDERED = (pl.Int64, pl.Int32, pl.Int16, pl.Int8, pl.String, pl.Boolean, pl.Datetime, pl.Date)
"""Types whose values Python compares as Polars does."""

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtEq": operator.le,
    "Gt": operator.gt,
    "GtEq": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "Plus": operator.add,
    "Minus": operator.sub,
    "Multiply": operator.mul,
}
_HALF = 1 << 63


class SingleRow:
    def __init__(self, expr: pl.Expr, columns: Mapping[str, pl.DataType]) -> None:
        self._frame = pl.LazyFrame(schema=dict(columns))
        tree = tree_of(expr)
        self._value = self._by_polars(expr) if tree is None else self._compiled(tree)

    def value(self, values: Values) -> Any:
        """Return the result for the row with these values; None if it is null."""
        return self._value(values)

    def _compiled(self, tree: Tree) -> Compute:
        known = self._compile_tree(tree)
        return self._by_polars(expression_of(tree)) if known is None else known

    def _compile_tree(self, tree: Tree) -> Compute | None:
        """Return a Python function for the expression; None if Polars has to evaluate it."""
        match tree:
            case {"Column": name}:
                return operator.itemgetter(name)
            case {"Alias": [inner, _]}:
                return self._compiled(inner)
            case _ if is_constant(tree):
                constant = pl.select(exact_one(expression_of(tree), pl.LazyFrame())).item()
                return lambda values: constant
            case {"BinaryExpr": {"left": left, "op": op, "right": right}}:
                return self._binary(tree, left, op, right)
            case {"Function": {"input": [of], "function": {"Boolean": "IsNull"}}}:
                value = self._compiled(of)
                return lambda values: value(values) is None
            case {"Function": {"input": [of], "function": {"Boolean": "IsNotNull"}}}:
                value = self._compiled(of)
                return lambda values: value(values) is not None
            case {"Function": {"input": [of], "function": {"Boolean": "Not"}}}:
                value = self._compiled(of)
                return lambda values: None if (v := value(values)) is None else not v
            case {"Ternary": {"predicate": asked, "truthy": then, "falsy": other}}:
                if self._kind(tree) not in (self._kind(then), self._kind(other)):
                    return None
                holds, yes, no = map(self._compiled, (asked, then, other))
                return lambda values: yes(values) if holds(values) else no(values)
            case {"Cast": {"expr": of}}:
                return self._cast(tree, of)
        return None

    def _binary(self, tree: Tree, left: Tree, op: str, right: Tree) -> Compute | None:
        kinds = {self._kind(left), self._kind(right)}
        if len(kinds) != 1:
            return None
        (kind,) = kinds
        one, other = self._compiled(left), self._compiled(right)
        if op in _COMPARISONS:
            if kind in _ORDERED:
                return _of_both(_COMPARISONS[op], one, other)
            if kind == pl.Float64:
                return _of_both(_of_floats(_COMPARISONS[op]), one, other)
        elif op in ("And", "Or") and kind == pl.Boolean:
            return _logic(one, other, decides=op == "Or")
        elif op in _ARITHMETIC and kind == pl.Int64:
            return _of_both(_wrapped(_ARITHMETIC[op]), one, other)
        elif op in _ARITHMETIC and kind == pl.Float64:
            return _of_both(_ARITHMETIC[op], one, other)
        elif op == "TrueDivide" and kind == pl.Float64 == self._kind(tree):
            return _of_both(_divided, one, other)
        return None

    def _cast(self, tree: Tree, of: Tree) -> Compute | None:
        before, after = self._kind(of), self._kind(tree)
        if before is None or not before.is_signed_integer():
            return None
        value = self._compiled(of)
        if after == pl.Int64:
            return value
        if after == pl.Float64:
            return lambda values: None if (v := value(values)) is None else float(v)
        return None

    def _kind(self, tree: Tree) -> pl.DataType | None:
        kinds = types_of(tree, self._frame)
        return kinds[0] if len(kinds) == 1 else None

    def _by_polars(self, expr: pl.Expr) -> Compute:
        schema = dict(self._frame.collect_schema())
        reads = {name: kind for name, kind in schema.items() if name in expr.meta.root_names()}
        expr = exact_one(expr, self._frame)

        def value(values: Values) -> Any:
            # Passed twice, because Polars computes differently with a single value.
            frame = pl.DataFrame({name: [values[name]] * 2 for name in reads}, schema=reads)
            return frame.select(expr.alias("value")).item(0, 0)

        return value


def _of_both(compute: Callable[[Any, Any], Any], one: Compute, other: Compute) -> Compute:
    def value(values: Values) -> Any:
        left = one(values)
        if left is None:
            return None
        right = other(values)
        return None if right is None else compute(left, right)

    return value


def _logic(one: Compute, other: Compute, *, decides: bool) -> Compute:
    """Return AND or OR of two conditions. A side equal to `decides` determines the result, even if the
    other side is null."""

    def value(values: Values) -> Any:
        left = one(values)
        if left is decides:
            return decides
        right = other(values)
        if right is decides:
            return decides
        return None if left is None or right is None else not decides

    return value


def _of_floats(compare: Callable[[Any, Any], bool]) -> Callable[[float, float], bool]:
    """Return the comparison for floats: NaN equals itself, and is greater than any other number."""

    def compared(one: float, other: float) -> bool:
        nans = one != one, other != other
        return compare(*nans) if any(nans) else compare(one, other)

    return compared


def _wrapped(compute: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """Return the computation with 64-bit overflow."""
    return lambda one, other: (compute(one, other) + _HALF) % (2 * _HALF) - _HALF


def _divided(one: float, other: float) -> float:
    if other != 0:
        return one / other
    if one == 0 or one != one:
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1, other)
