"""Detection of conditions that can never hold, because they require contradicting values of a column.

An expression is expanded into the *ways* in which it may hold. A way holds if all its claims are true.
A claim compares a column with a literal, or tests whether the column is null. Expressions that this
module does not understand make no claim. So the result "never" is always right, for all types of
columns:

    (kind == 0) & (kind == 1)            never
    (price > 5) & ~(price > 3)           never
    (kind == 0) | (kind == 1)            two ways
    (price > 5) & (price < limit)        not known: one way, with the first claim alone
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import polars as pl

from rheos.core.graph.expression_trees import Tree, tree_of

_MOST_WAYS = 64

_OPPOSITE = {"Eq": "NotEq", "NotEq": "Eq", "Lt": "GtEq", "GtEq": "Lt", "Gt": "LtEq", "LtEq": "Gt"}
"""Negation of each comparison. It also holds for NaN, which Polars treats as the greatest number."""
_TURNED = {"Eq": "Eq", "NotEq": "NotEq", "Lt": "Gt", "GtEq": "LtEq", "Gt": "Lt", "LtEq": "GtEq"}
_LOWER = {"Both": "GtEq", "Left": "GtEq", "Right": "Gt", "None": "Gt"}
_UPPER = {"Both": "LtEq", "Right": "LtEq", "Left": "Lt", "None": "Lt"}

_EXACT = 1 << 24
"""Whole numbers up to this one have the same value in every numeric type."""


class ColumnTest(NamedTuple):
    column: str
    op: str
    """A key of `_OPPOSITE`, or IsNull or IsNotNull."""
    form: str = ""
    """Type of the literal."""
    value: Any = None


Ways: TypeAlias = Sequence[tuple[ColumnTest, ...]]

_UNKNOWN: Ways = ((),)
_NEVER: Ways = ()


def never_holds(exprs: Iterable[pl.Expr]) -> bool:
    """Return whether no row can fulfil all of these conditions."""
    ways = _UNKNOWN
    for expr in exprs:
        tree = tree_of(expr)
        if tree is not None:
            ways = _combine_ways(ways, _ways(tree, True))
    return all(_excluded(way) for way in ways)


def _ways(tree: Tree, holds: bool) -> Ways:
    """Return the ways in which a condition is true, or false if `holds` is False."""
    match tree:
        case {"Alias": [inner, _]}:
            return _ways(inner, holds)
        case {"Literal": {"Scalar": {"Boolean": value}}}:
            return _UNKNOWN if value is holds else _NEVER
        case {"Literal": {"Scalar": {"Null": _}}}:
            return _NEVER
        case {"Column": column}:
            return ((ColumnTest(column, "Eq", "Boolean", holds),),)
        case {"BinaryExpr": {"left": left, "op": "And" | "Or" as op, "right": right}}:
            return _joined(op == "And", (left, right), holds)
        case {"Function": {"input": inputs, "function": {"Boolean": "AllHorizontal"}}}:
            return _joined(True, inputs, holds)
        case {"Function": {"input": inputs, "function": {"Boolean": "AnyHorizontal"}}}:
            return _joined(False, inputs, holds)
        case {"Function": {"input": [inner], "function": {"Boolean": "Not"}}}:
            return _ways(inner, not holds)
        case {"Function": {"input": [of, low, high], "function": {"Boolean": {"IsBetween": interval}}}}:
            closed = interval["closed"]
            bounds = [
                {"BinaryExpr": {"left": of, "op": op, "right": bound}}
                for op, bound in ((_LOWER[closed], low), (_UPPER[closed], high))
            ]
            return _joined(True, bounds, holds)
        case {
            "Function": {
                "input": [{"Column": column}],
                "function": {"Boolean": "IsNull" | "IsNotNull" as op},
            }
        }:
            return ((ColumnTest(column, "IsNull" if (op == "IsNull") is holds else "IsNotNull"),),)
        case {"BinaryExpr": {"left": left, "op": op, "right": right}} if op in _OPPOSITE:
            claim = _compared(left, op, right) or _compared(right, _TURNED[op], left)
            if claim is None:
                return _UNKNOWN
            return ((claim if holds else claim._replace(op=_OPPOSITE[claim.op]),),)
    return _UNKNOWN


def _joined(every: bool, parts: Sequence[Tree], holds: bool) -> Ways:
    """Combine the ways of an AND if `every` is True, else of an OR."""
    ways_of = [_ways(part, holds) for part in parts]
    if every is holds:
        whole = _UNKNOWN
        for ways in ways_of:
            whole = _combine_ways(whole, ways)
        return whole
    either = [way for ways in ways_of for way in ways]
    return either if len(either) <= _MOST_WAYS else _UNKNOWN


def _combine_ways(one: Ways, other: Ways) -> Ways:
    if not other or len(one) * len(other) <= _MOST_WAYS:
        return [a + b for a, b in product(one, other)]
    # Fewer claims make the result less precise, but never wrong.
    return one


def _compared(left: Tree, op: str, right: Tree) -> ColumnTest | None:
    match left, right:
        case {"Column": column}, {"Literal": {"Dyn": literal} | {"Scalar": literal}}:
            ((form, value),) = literal.items()
            if isinstance(value, int | float | str):
                return ColumnTest(column, op, form, value)
    return None


def _excluded(way: Sequence[ColumnTest]) -> bool:
    """Return whether the claims of a way exclude each other."""
    by_column: dict[str, list[ColumnTest]] = {}
    for claim in way:
        by_column.setdefault(claim.column, []).append(claim)
    return any(map(_exclude, by_column.values()))


def _exclude(claims: Sequence[ColumnTest]) -> bool:
    """Return whether claims about one column exclude each other. Only claims with literals of the same
    type are compared, because Polars may compare values of two types differently."""
    by_form: dict[str, list[ColumnTest]] = {}
    for claim in claims:
        if claim.form:
            by_form.setdefault(claim.form, []).append(claim)
    ops = {claim.op for claim in claims}
    if "IsNull" in ops and len(ops) > 1:
        return True
    return any(_no_value(alike) for alike in by_form.values())


def _no_value(claims: Sequence[ColumnTest]) -> bool:
    equal = [claim.value for claim in claims if claim.op == "Eq"]
    unequal = {claim.value for claim in claims if claim.op == "NotEq"}
    if isinstance(claims[0].value, str | bool):
        # The order of strings depends on the type of the column.
        return len(set(equal)) > 1 or any(value in unequal for value in equal)
    lows = [(c.value, c.op == "Gt") for c in claims if c.op in ("Eq", "GtEq", "Gt")]
    highs = [(c.value, c.op != "Lt") for c in claims if c.op in ("Eq", "LtEq", "Lt")]
    if not lows or not highs:
        return False
    (low, above), (high, up_to) = max(lows), min(highs)
    if above or not up_to:
        # Rounded to the column's type, both may be equal, but their order is never reversed.
        return bool(low >= high)
    if low == high:
        return low in unequal
    return bool(low > high) and all(v == int(v) and abs(v) <= _EXACT for v in (low, high))
