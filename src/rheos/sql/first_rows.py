"""LIMIT, with and without ORDER BY: the first rows of a whole query, planned as a bounded ROW_NUMBER().
The result is an updating table, whose rows have no order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import Compiler
from rheos.sql.generated_columns import names_of_item
from rheos.sql.plan import PlanNode
from rheos.sql.scope import NameScope

if TYPE_CHECKING:
    from rheos.sql.query import Planner

_ROWS = " rows in order"
_NUMBER = " number of the row"
"""Name that no query can contain."""


def is_first_rows(node: exp.Expr) -> bool:
    return node.args.get("limit") is not None


def first_rows(planner: Planner, node: exp.Expr) -> PlanNode:
    """Plan a query with LIMIT. ORDER BY may use columns that SELECT leaves out. Raise ProgramError or
    SchemaError."""
    count = _number(planner, node.args["limit"])
    skipped = _number(planner, node.args["offset"]) if node.args.get("offset") is not None else 0
    within = node.copy()
    for name in ("with_", "order", "limit", "offset"):
        within.set(name, None)
    # Without ORDER BY, any rows are the first ones.
    given = node.args.get("order") or exp.Order(expressions=[exp.Ordered(this=exp.Boolean(this=True))])
    order = given.copy()
    hidden = _with_hidden(within, order)
    plan = planner.query(within)
    visible = [column.name for column in plan.columns if column.name not in hidden]
    names = [exp.column(name, quoted=True) for name in visible]
    for each in order.expressions:
        _of_result(planner, each, names)
    number = exp.column(_NUMBER, quoted=True)
    numbered = exp.Window(this=exp.RowNumber(), order=order, over="OVER")
    rows = exp.Table(this=exp.to_identifier(_ROWS, quoted=True))
    ranked = exp.select(exp.Star(), exp.alias_(numbered, _NUMBER, quoted=True)).from_(rows)
    first = exp.select(*names).from_(ranked.subquery(_ROWS))
    first = first.where(exp.LTE(this=number, expression=exp.Literal.number(count + skipped)))
    if skipped:
        first = first.where(exp.GT(this=number, expression=exp.Literal.number(skipped)))
    return replace(planner, ctes={**planner.ctes, _ROWS.casefold(): plan}).query(first)


def _with_hidden(within: exp.Expr, order: exp.Order) -> set[str]:
    """Add the expressions of ORDER BY that need columns, or aggregates, that SELECT leaves out. Return
    the names of these added columns."""
    hidden: set[str] = set()
    if not isinstance(within, exp.Select) or within.args.get("distinct") is not None:
        return hidden
    names = [name for each in within.expressions for name in names_of_item(each) or [each.name]]
    named = {name.casefold() for name in names}
    has_star = any(each.is_star for each in within.expressions)
    for each in order.expressions:
        columns = [*each.find_all(exp.Column)]
        is_named = has_star or all(column.name.casefold() in named for column in columns)
        if each.find(exp.AggFunc) is None and is_named:
            continue
        name = f" order {len(hidden)}"
        hidden.add(name)
        within.append("expressions", exp.alias_(each.this.copy(), name, quoted=True))
        each.this.replace(exp.column(name, quoted=True))
    return hidden


def _number(planner: Planner, clause: exp.Expr) -> int:
    planner.sql.only(clause, ("expression",))
    number = clause.args["expression"]
    found = None
    if number.find(exp.Column, exp.Query) is None:
        value = Compiler(planner.sql, NameScope(planner.sql, ())).compile(number)
        found = pl.select(value.expr).item() if types.is_integer(value.type) else None
    if found is None or found < 0:
        raise planner.sql.error(
            f"{clause.key.upper()} takes a constant integer",
            clause,
            "write LIMIT 10",
        )
    return int(found)


def _of_result(planner: Planner, each: exp.Ordered, names: list[exp.Column]) -> None:
    """Replace columns of the result in ORDER BY, which are given by name (also with their table) or by
    position."""
    by = each.this
    if isinstance(by, exp.Literal) and not by.is_string:
        by.replace(names[planner.sql.place(by, len(names))].copy())
    for column in [*each.find_all(exp.Column)]:
        column.set("table", None)
