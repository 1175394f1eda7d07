"""Polars expressions as aggregates: expressions that have one value for all rows of a window.

This module refuses expressions whose result differs from run to run: random ones, and those without a
defined order. Expressions that Polars cannot type are refused once the columns are known
(`Expression.result_type`).
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pyarrow as pa

from rheos.core.aggregates.contract import Agg
from rheos.core.aggregates.expression import Expression, expression
from rheos.core.errors import ProgramError
from rheos.core.graph.exact_decimals import exact_one
from rheos.core.graph.expression_trees import Tree, spell_expression, subtrees, tree_of
from rheos.core.graph.types import empty_frame


def reducing(expr: pl.Expr) -> Agg:
    """Return the aggregate for an expression. Raise ProgramError if the expression does not reduce,
    calls Python, or is not deterministic."""
    spelled = spell_expression(expr)
    tree = tree_of(expr)
    if tree is None:
        raise ProgramError(
            f"{spelled} calls a Python function within an expression",
            hint="use .process(...) with a rh.WindowFunction for a function of a window's records",
        )
    columns = expr.meta.root_names()
    if expr.meta.has_multiple_outputs() or any("*" in name or name.startswith("^") for name in columns):
        raise ProgramError(
            f"{spelled} expands to several columns", hint="write an expression for each of them"
        )
    if not expr.meta.is_scalar():
        raise ProgramError(
            f"{spelled} does not reduce a window's rows to one value",
            hint="write an expression that reduces, such as col('ms').max(), or collect the values "
            "into a list: .implode()",
        )
    for part in subtrees(tree):
        _refuse_chance(part, spelled)
    return expression(expr)


def with_exact_decimals(agg: Agg, schema: pa.Schema) -> Agg:
    """Return an expression over rows of `schema` with exact decimals; other aggregates unchanged."""
    if not isinstance(agg, Expression):
        return agg
    made = exact_one(agg.expr, empty_frame(schema).lazy())
    return replace(agg, form=made.meta.serialize())


def _refuse_chance(part: Tree, spelled: str) -> None:
    match part:
        case {"Function": {"function": {"Random": {"seed": None}}}}:
            raise ProgramError(
                f"{spelled} is random: its result would differ when rows are read again",
                hint="set seed=",
            )
        case {"Function": {"function": {"Mode": {"maintain_order": False}} | {"Unique": False}}}:
            raise ProgramError(
                f"{spelled} depends on the order of the values",
                hint="write maintain_order=True, or count them: .n_unique()",
            )
        case {"Function": {"function": {"ValueCounts": {"sort": False}}}}:
            raise ProgramError(f"{spelled} returns values in no fixed order", hint="write sort=True")
