"""PIVOT and UNPIVOT: values of a column that become columns, and columns that become rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from rheos.sql.plan import PlanNode

if TYPE_CHECKING:
    from rheos.sql.query import Planner

_ROWS = " pivoted rows"
"""Name that no query can contain."""


def pivoted(planner: Planner, plan: PlanNode, node: exp.Pivot) -> PlanNode:
    """Return the rows after PIVOT or UNPIVOT. Raise ProgramError or SchemaError."""
    planner.sql.only(node, _PARTS, " of PIVOT")
    fields = node.args.get("fields") or []
    if len(fields) != 1 or not isinstance(fields[0], exp.In) or not fields[0].expressions:
        raise planner.sql.error(
            "PIVOT takes one column and a list of its values",
            node,
            "write PIVOT (SUM(price) FOR channel IN ('web', 'app'))",
        )
    names = [column.name for column in plan.columns]
    made = (
        _unpivot(node, fields[0], names) if node.args.get("unpivot") else _pivot(node, fields[0], names)
    )
    return replace(planner, ctes={**planner.ctes, _ROWS: plan}).query(made)


_PARTS = (
    *("expressions", "fields", "unpivot", "columns", "alias", "include_nulls", "default_on_null"),
    *("value_columns_first", "identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming"),
)


def _pivot(node: exp.Pivot, of: exp.In, names: list[str]) -> exp.Select:
    """Return the query with an aggregate for each value, grouped by all columns that are not read."""
    read = {
        column.name.casefold()
        for each in (*node.expressions, of.this)
        for column in each.find_all(exp.Column)
    }
    keys = [exp.column(name, quoted=True) for name in names if name.casefold() not in read]
    titles = iter(each.name for each in node.args["columns"])
    items = []
    for value in of.expressions:
        is_value = exp.EQ(this=of.this.copy(), expression=value.unalias().copy())
        for call in node.expressions:
            only = exp.Filter(this=call.unalias().copy(), expression=exp.Where(this=is_value.copy()))
            items.append(exp.alias_(only, next(titles), quoted=True))
    made = exp.select(*keys, *items).from_(_rows())
    return made.group_by(*(key.copy() for key in keys)) if keys else made


def _unpivot(node: exp.Pivot, of: exp.In, names: list[str]) -> exp.Expr:
    """Return the query with a row for each of the columns that is not null."""
    turned = {each.unalias().name.casefold() for each in of.expressions}
    kept = [exp.column(name, quoted=True) for name in names if name.casefold() not in turned]
    made: exp.Expr | None = None
    for each in of.expressions:
        title = each.args["alias"].name if isinstance(each, exp.PivotAlias) else each.name
        column = each.unalias()
        rows = exp.select(
            *(key.copy() for key in kept),
            exp.alias_(exp.Literal.string(title), of.this.name, quoted=True),
            exp.alias_(column.copy(), node.expressions[0].name, quoted=True),
        ).from_(_rows())
        if not node.args.get("include_nulls"):
            rows = rows.where(exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null())))
        made = rows if made is None else exp.Union(this=made, expression=rows, distinct=False)
    assert made is not None, "the list of columns is not empty"
    return made


def _rows() -> exp.Table:
    return exp.Table(this=exp.to_identifier(_ROWS, quoted=True))
