"""Queries within expressions as columns of each row: scalar subqueries, and truth of tests of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from rheos.sql.correlation import correlation
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.grouping import GroupedColumns, is_grouped, spelled
from rheos.sql.outer_values import with_outer_values
from rheos.sql.plan import PlanNode, SqlColumn
from rheos.sql.query_values import aggregate_value, single_value, with_value
from rheos.sql.scope import Named, NameScope, SqlRelation, TableInSight, with_columns
from rheos.sql.truth_values import TestOfRows, is_test_of_rows, with_truth

if TYPE_CHECKING:
    from rheos.sql.query import Planner


def scalar_queries(node: exp.Expr) -> Iterator[exp.Subquery | TestOfRows]:
    """Yield the outermost scalar subqueries and tests of rows of an expression."""
    if isinstance(node, exp.Subquery) or is_test_of_rows(node):
        yield node
    elif not isinstance(node, exp.Query | exp.In):
        for inner in node.iter_expressions():
            yield from scalar_queries(inner)


def with_scalars(
    planner: Planner, relation: SqlRelation, nodes: Iterable[exp.Expr]
) -> tuple[SqlRelation, list[exp.Expr]]:
    """Return the rows with a column for each scalar subquery, and the expressions that read these
    columns. Raise ProgramError or SchemaError."""
    left = []
    for node in nodes:
        now = node
        for query in [*scalar_queries(node)]:
            scope = NameScope(planner.sql, relation.tables)
            plan, value = _with_value(
                planner, relation.plan, scope, Compiler(planner.sql, scope), query
            )
            given = {each.name: each for each in plan.columns}
            hidden = TableInSight(None, (Named(value.name, value),), hidden=True)
            relation = SqlRelation(plan, (*with_columns(relation.tables, given), hidden))
            column = exp.column(exp.to_identifier(value.name, quoted=True))
            if query is now:
                now = column
            if query.parent is not None:
                query.replace(column)
        left.append(now)
    return relation, left


def with_scalars_of_groups(
    planner: Planner, sight: GroupedColumns, nodes: Iterable[exp.Expr]
) -> GroupedColumns:
    """Return the groups with a column for each scalar subquery. Raise ProgramError or SchemaError."""
    for node in nodes:
        for query in scalar_queries(node):
            text = spelled(sight.scope, query)
            if text not in sight.found:
                plan, value = _with_value(planner, sight.plan, sight.scope, sight.compiler, query)
                typed = Typed(pl.col(value.name), value.type, query)
                sight = replace(sight, plan=plan, found={**sight.found, text: typed})
    return sight


def _with_value(
    planner: Planner,
    plan: PlanNode,
    scope: NameScope,
    compiler: Compiler,
    node: exp.Subquery | TestOfRows,
) -> tuple[PlanNode, SqlColumn]:
    """Return the rows with the value of a subquery, and its column."""
    if not isinstance(node, exp.Subquery):
        return with_truth(planner, plan, scope, compiler, node)
    sql, query = planner.sql, node.this
    if len(query.selects) != 1 or query.is_star:
        raise sql.error(
            "a scalar subquery must return one row and one column",
            node,
            "write (SELECT MAX(price) FROM bids)",
        )
    found = correlation(planner, scope, query)
    planner, found = with_outer_values(planner, plan, scope, compiler, node, found)
    one_row = isinstance(query, exp.Select) and is_grouped(query) and not query.args.get("group")
    made = aggregate_value(planner, found) if one_row else single_value(planner, found, node)
    return with_value(planner, plan, compiler, node, [here for here, _ in found.pairs], made)
