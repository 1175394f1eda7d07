"""IN and EXISTS with a query within an expression: their truth as a column of each row.

A condition of WHERE that is only IN or EXISTS is a semi-join (`membership`). Within OR, CASE or SELECT,
each row needs the truth itself: whether the query has a row, or a row with the value. IN is unknown if
the value is null, or if the query has no such value, but has a null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

import polars as pl
from sqlglot import exp

from rheos.sql.correlation import Correlation, correlation
from rheos.sql.expressions.table import Compiler
from rheos.sql.membership import any_row, bare_query, check_conditions, selecting
from rheos.sql.plan import PlanNode, SqlColumn, projected
from rheos.sql.query_values import aggregate_value, with_value
from rheos.sql.scope import NameScope

if TYPE_CHECKING:
    from rheos.sql.query import Planner

_EMPTY, _NO_NULLS, _WITH_NULLS = 0, 1, 2


def is_test_of_rows(node: exp.Expr) -> TypeGuard[exp.Exists | exp.In]:
    """Return whether an expression is IN or EXISTS with a query."""
    if isinstance(node, exp.Exists):
        return isinstance(bare_query(node.this), exp.Query)
    return isinstance(node, exp.In) and node.args.get("query") is not None


def with_truth(
    planner: Planner,
    plan: PlanNode,
    scope: NameScope,
    compiler: Compiler,
    node: exp.Exists | exp.In,
) -> tuple[PlanNode, SqlColumn]:
    """Return the rows with the truth of IN or EXISTS, and its column. Raise ProgramError or
    SchemaError."""
    sql = planner.sql
    query = bare_query(node.this if isinstance(node, exp.Exists) else node.args["query"])
    if not isinstance(query, exp.Query):
        raise sql.error("EXISTS takes a query", query, "write EXISTS (SELECT ...)")
    found = correlation(planner, scope, any_row(query) if isinstance(node, exp.Exists) else query)
    check_conditions(planner, found)
    if found.rest:
        raise sql.error(
            "within an expression, IN and EXISTS support only equality conditions with the outer query",
            found.rest[0],
            "write WHERE its column = an outer column; or use IN or EXISTS alone in WHERE",
        )
    if isinstance(node, exp.Exists):
        return _counted(planner, plan, compiler, node, found, None)
    if isinstance(node.this, exp.Tuple):
        raise sql.error(
            "several values can be compared with a query only in WHERE, combined by AND",
            node,
            "write a condition for each value, or use EXISTS",
        )
    if len(query.selects) != 1 or query.is_star:
        raise sql.error(
            "IN needs a query with one column for each value",
            query,
            "write WHERE x IN (SELECT y FROM ...)",
        )
    plan, member = _counted(planner, plan, compiler, node, found, node.this)
    plan, nulls = _with_nulls(planner, plan, compiler, node, found)
    state, is_null = pl.col(nulls.name), compiler.compile(node.this).expr.is_null()
    unknown = ((state == _NO_NULLS) & is_null) | (state == _WITH_NULLS)
    truth = pl.col(member.name) | pl.when(unknown).then(None).otherwise(statement=False)
    given = tuple(each for each in plan.columns if each.name not in (member.name, nulls.name))
    exprs = (*(pl.col(each.name) for each in given), truth.alias(member.name))
    return projected(plan, exprs, (*given, member)), member


def _counted(
    planner: Planner,
    plan: PlanNode,
    compiler: Compiler,
    node: exp.Exists | exp.In,
    found: Correlation,
    value: exp.Expr | None,
) -> tuple[PlanNode, SqlColumn]:
    """Return the rows with a column that is true if the query has a row, with this value if there is
    one."""
    some = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
    rows, keys = _rows(node, found)
    pairs = [*([] if value is None else [(value, _column(1))]), *keys]
    made = aggregate_value(planner, Correlation(exp.select(some).from_(rows), pairs, []))
    return with_value(planner, plan, compiler, node, [here for here, _ in pairs], made)


def _with_nulls(
    planner: Planner, plan: PlanNode, compiler: Compiler, node: exp.In, found: Correlation
) -> tuple[PlanNode, SqlColumn]:
    """Return the rows with a number: whether the query has rows, and whether it has nulls."""
    rows, pairs = _rows(node, found)
    all_rows, values = exp.Count(this=exp.Star()), exp.Count(this=_column(1))
    state = (
        exp.case()
        .when(exp.EQ(this=all_rows.copy(), expression=exp.Literal.number(0)), str(_EMPTY))
        .when(exp.EQ(this=all_rows, expression=values), str(_NO_NULLS))
        .else_(str(_WITH_NULLS))
    )
    made = aggregate_value(planner, Correlation(exp.select(state).from_(rows), pairs, []))
    return with_value(planner, plan, compiler, node, [here for here, _ in pairs], made)


def _rows(
    node: exp.Exists | exp.In, found: Correlation
) -> tuple[exp.Subquery, list[tuple[exp.Expr, exp.Expr]]]:
    """Return the query with the value in its first column, and the pairs of outer expressions and
    further columns that must be equal."""
    query, keys = found.query, [there for _, there in found.pairs]
    if isinstance(node, exp.Exists):
        query = selecting(query, [exp.Literal.number(1), *keys], keys)
    elif keys:
        assert isinstance(query, exp.Query)
        query = selecting(query, [query.selects[0].unalias(), *keys], keys)
    names = [exp.to_identifier(f"value {n}", quoted=True) for n in range(1, len(keys) + 2)]
    alias = exp.TableAlias(this=exp.to_identifier("found"), columns=names)
    pairs = [(here, _column(n)) for n, (here, _) in enumerate(found.pairs, 2)]
    return exp.Subquery(this=query.copy(), alias=alias), pairs


def _column(number: int) -> exp.Expr:
    return exp.column(exp.to_identifier(f"value {number}", quoted=True))
