"""IN, EXISTS, ANY and ALL with a query within an expression: their truth as a column of each row.

A condition of WHERE that is only one of them is a semi-join (`membership`). Within OR, CASE or SELECT,
each row needs the truth itself: whether the query has a row, or a row with the value. IN is unknown if
the value is null, or if the query has no such value, but has a null.

A comparison with ANY or ALL values of a query is one with the least and the greatest of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.correlation import Correlation, correlation
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.membership import any_row, bare_query, check_conditions, selecting
from rheos.sql.outer_values import with_outer_values
from rheos.sql.plan import PlanNode, SqlColumn, projected
from rheos.sql.query_values import aggregate_of_rows, aggregate_value, with_value
from rheos.sql.scope import NameScope

if TYPE_CHECKING:
    from rheos.sql.query import Planner

_EMPTY, _NO_NULLS, _WITH_NULLS = 0, 1, 2
_TESTED, _LEAST, _MOST, _HAS_NULLS = "tested", "least", "most", "has_nulls"


TestOfRows: TypeAlias = exp.Exists | exp.In | exp.Binary


def is_test_of_rows(node: exp.Expr) -> TypeGuard[TestOfRows]:
    """Return whether an expression is IN, EXISTS, or a comparison with ANY or ALL, with a query."""
    return isinstance(_query_of(node), exp.Query)


def _query_of(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, exp.In):
        query: exp.Expr | None = node.args.get("query")
        return None if query is None else bare_query(query)
    if isinstance(node, exp.Exists):
        return bare_query(node.this)
    is_quantified = isinstance(node, exp.Binary) and isinstance(node.expression, exp.Any | exp.All)
    return bare_query(node.expression.this) if is_quantified else None


def with_truth(
    planner: Planner, plan: PlanNode, scope: NameScope, compiler: Compiler, node: TestOfRows
) -> tuple[PlanNode, SqlColumn]:
    """Return the rows with the truth of a test of rows, and its column. Raise ProgramError or
    SchemaError."""
    sql = planner.sql
    query = _query_of(node)
    if not isinstance(query, exp.Query):
        raise sql.error("EXISTS takes a query", node, "write EXISTS (SELECT ...)")
    found = correlation(planner, scope, any_row(query) if isinstance(node, exp.Exists) else query)
    check_conditions(planner, found)
    planner, found = with_outer_values(planner, plan, scope, compiler, node, found)
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
            "IN, ANY and ALL need a query with one column for each value",
            query,
            "write WHERE x IN (SELECT y FROM ...)",
        )
    if isinstance(node, exp.Binary):
        return _compared(planner, plan, compiler, node, found)
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
    node: TestOfRows,
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


def _compared(
    planner: Planner, plan: PlanNode, compiler: Compiler, node: exp.Binary, found: Correlation
) -> tuple[PlanNode, SqlColumn]:
    """Return the rows with the truth of a comparison with ANY or ALL values of the query."""
    rows, pairs = _rows(node, found)
    count, values = exp.Count(this=exp.Star()), exp.Count(this=_column(1))
    bounds = {
        _LEAST: exp.Min(this=_column(1)),
        _MOST: exp.Max(this=_column(1)),
        _HAS_NULLS: exp.GT(this=count, expression=values),
    }
    fields = [
        exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=value)
        for name, value in bounds.items()
    ]
    query = exp.select(exp.Struct(expressions=fields)).from_(rows)
    made = aggregate_of_rows(planner, Correlation(query, pairs, []))
    plan, column = with_value(planner, plan, compiler, node, [here for here, _ in pairs], made)
    of = pl.col(column.name).struct
    bound, given = types.of_expression(of.field(_LEAST), plan.columns), {}
    given[_TESTED] = compiler.compile(node.this)
    for name in (_LEAST, _MOST):
        given[name] = Typed(of.field(name), bound, node.expression)
    comparing = replace(
        compiler, instead=lambda each: given[each.name] if isinstance(each, exp.Placeholder) else None
    )

    def compared(with_bound: str) -> pl.Expr:
        operands = {"this": _TESTED, "expression": with_bound}
        comparison = node.copy()
        for name, operand in operands.items():
            comparison.set(name, exp.Placeholder(this=operand))
        return comparing.compile(comparison).expr

    is_empty, has_nulls = of.field(_LEAST).is_null(), of.field(_HAS_NULLS)
    if isinstance(node.expression, exp.All):
        holds = pl.when(is_empty).then(statement=True).otherwise(compared(_LEAST) & compared(_MOST))
        truth = holds & pl.when(has_nulls).then(None).otherwise(statement=True)
    else:
        holds = pl.when(is_empty).then(statement=False).otherwise(compared(_LEAST) | compared(_MOST))
        truth = holds | pl.when(has_nulls).then(None).otherwise(statement=False)
    result = SqlColumn(column.name, types.BOOLEAN)
    rest = tuple(each for each in plan.columns if each.name != column.name)
    exprs = (*(pl.col(each.name) for each in rest), truth.alias(result.name))
    return projected(plan, exprs, (*rest, result)), result


def _rows(node: TestOfRows, found: Correlation) -> tuple[exp.Subquery, list[tuple[exp.Expr, exp.Expr]]]:
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
