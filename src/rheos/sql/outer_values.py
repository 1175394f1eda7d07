"""Nested queries whose conditions compare their rows with the outer row by more than equality.

The nested query is joined with the distinct values of the outer columns that it reads, and then grouped
by them. So each outer row finds its result by equality with these values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from rheos.sql.correlation import Correlation, free_columns
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.grouping import distinct
from rheos.sql.plan import PlanNode, SqlColumn, may_be_null, projected
from rheos.sql.scope import NameScope
from rheos.sql.text import as_sql

if TYPE_CHECKING:
    from rheos.sql.query import Planner


def with_outer_values(
    planner: Planner,
    plan: PlanNode,
    scope: NameScope,
    compiler: Compiler,
    node: exp.Expr,
    found: Correlation,
) -> tuple[Planner, Correlation]:
    """Return a nested query that refers to the outer rows by equality only, and its planner.

    Args:
        planner: Planner of the outer query.
        plan: Outer rows.
        scope: Tables of the outer query.
        compiler: Compiler of the expressions of the outer query.
        node: Expression that contains the nested query.
        found: The nested query; it is returned as it is if its conditions are equalities.

    Raises:
        ProgramError, SchemaError: A condition contains another query, or an invalid expression.
    """
    if not found.rest:
        return planner, found
    assert isinstance(found.query, exp.Select)
    for part in found.rest:
        if part.find(exp.Query) is not None:
            raise planner.sql.error(
                "a condition on both queries cannot contain another query", part, "use a join"
            )
    within = NameScope(planner.sql, planner.tables_of(found.query))
    conditions = [*found.rest, *(exp.EQ(this=there, expression=here) for here, there in found.pairs)]
    read = [each for part in conditions for each in free_columns(planner, part)]
    outer = {as_sql(each): each for each in read if not within.reads(each) and scope.reads(each)}
    values = {text: compiler.compile(each) for text, each in outer.items()}
    place = 1
    while _table(place) in planner.ctes:
        place += 1
    names = {text: f"{_table(place)}.{n}" for n, text in enumerate(outer, 1)}
    rows = _distinct_values(plan, {names[text]: value for text, value in values.items()})

    def of_rows(each: exp.Expr) -> exp.Expr:
        if not isinstance(each, exp.Column) or within.reads(each):
            return each
        name = names.get(as_sql(each))
        if name is None:
            return each
        column = exp.column(exp.to_identifier(name, quoted=True))
        column.meta.update(each.meta)
        column.this.meta.update(each.parts[-1].meta)
        return column

    query = found.query.copy()
    table = exp.Table(this=exp.to_identifier(_table(place), quoted=True))
    table.meta.update(node.meta)
    query.append("joins", exp.Join(this=table))
    query.where(*(part.transform(of_rows) for part in conditions), copy=False)
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    for text, each in outer.items():
        there = exp.column(exp.to_identifier(names[text], quoted=True))
        if may_be_null(plan, values[text].expr):
            # A struct with a null equals another one; a null does not.
            pairs.append((exp.Struct(expressions=[each.copy()]), exp.Struct(expressions=[there])))
        else:
            pairs.append((each, there))
    inner = replace(planner, ctes={**planner.ctes, _table(place): rows})
    return inner, Correlation(query, pairs, [])


def _table(place: int) -> str:
    return f"outer values {place}"


def _distinct_values(plan: PlanNode, values: dict[str, Typed]) -> PlanNode:
    exprs = tuple(value.expr.alias(name) for name, value in values.items())
    columns = tuple(SqlColumn(name, value.type) for name, value in values.items())
    return distinct(projected(plan, exprs, columns))
