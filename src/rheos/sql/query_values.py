"""The value of a nested query as a column of each row: a left join with the query's value, grouped by
the columns that must equal columns of the outer query.

Each change of a value retracts the rows that have it, and emits them again. An aggregate has a value
over no rows, too: COUNT is 0. A query that is no aggregate fails on a second row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from rheos.core.graph.changelog import Changes
from rheos.core.operators.row_expressions import refusing
from rheos.sql import types
from rheos.sql.correlation import Correlation, with_group_keys
from rheos.sql.expressions.comparisons import equal_keys
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.grouping import calls_in, is_grouped
from rheos.sql.joined_plans import AllRows, JoinKeys, JoinPlan
from rheos.sql.joins import kept_for, plain, retractions_of
from rheos.sql.plan import PlanNode, Project, SqlColumn, projected, rekeyed, with_keys
from rheos.sql.scope import NameScope
from rheos.sql.text import SqlText, as_sql, with_alias

if TYPE_CHECKING:
    from rheos.sql.query import Planner


@dataclass(frozen=True)
class QueryValue:
    """Values of a nested query, by the columns that must equal outer columns."""

    plan: PlanNode
    """Rows with the value, and with these columns."""
    value: pl.Expr
    without_rows: Typed | None
    """Value if the query has no rows; None: null."""


def with_value(
    planner: Planner,
    plan: PlanNode,
    compiler: Compiler,
    node: exp.Expr,
    outer: Sequence[exp.Expr],
    made: QueryValue,
) -> tuple[PlanNode, SqlColumn]:
    """Return the rows with the value of a nested query, and its column. `outer` are the expressions
    that must equal the columns of `made`. Raise ProgramError or SchemaError."""
    place = 1
    while any(f"{column.name} ".startswith(f"value {place} ") for column in plan.columns):
        place += 1
    name = f"value {place}"
    one = Typed(pl.lit(0, dtype=types.INT), types.INT, node)
    here = [compiler.compile(each) for each in outer] or [one]
    inner = [Typed(pl.col(each.name), each.type, node) for each in made.plan.columns[1:]] or [one]
    both = [equal_keys(compiler, pair, "a comparison") for pair in zip(here, inner, strict=True)]
    left, keys = with_keys(plan, [one for one, _ in both], f"{name} of")
    left = rekeyed(left, keys)
    kind = made.plan.columns[0].type
    found_name, names = f"{name} found", tuple(f"{name} key {n}" for n in range(1, len(both) + 1))
    right = Project(
        made.plan,
        (
            *(there.expr.alias(key) for (_, there), key in zip(both, names, strict=True)),
            made.value.alias(found_name),
        ),
        (
            *(SqlColumn(key, there.type) for (_, there), key in zip(both, names, strict=True)),
            SqlColumn(found_name, kind),
        ),
        Changes(names, retracts=made.plan.changes is None or made.plan.changes.retracts),
    )
    changes = retractions_of(left, keys)
    of_left = plain(left.columns)
    columns = (*of_left, *right.columns)
    what = "every row would be kept forever, along with the value"
    how = AllRows(kept_for(planner.sql, planner.ttl, (left, right), what, node))
    joined = JoinPlan(left, right, JoinKeys(keys, names), "left", how, columns, len(of_left), changes)
    value = pl.col(found_name)
    if made.without_rows is not None:
        empty = compiler.cast(made.without_rows, kind).expr
        value = pl.when(pl.col(names[0]).is_null()).then(empty).otherwise(value)
    column = SqlColumn(name, kind)
    exprs = (*(pl.col(each.name) for each in of_left), value.alias(name))
    return projected(joined, exprs, (*of_left, column)), column


def _keys(found: Correlation) -> list[exp.Expr]:
    return [
        exp.alias_(there.copy(), f"key {n}", quoted=True) for n, (_, there) in enumerate(found.pairs, 1)
    ]


def aggregate_value(planner: Planner, found: Correlation) -> QueryValue:
    """Plan an aggregate without GROUP BY."""
    made, item = _aggregate(planner, found)
    return replace(made, without_rows=_over_no_rows(planner.sql, item))


def aggregate_of_rows(planner: Planner, found: Correlation) -> QueryValue:
    """Plan an aggregate without GROUP BY that is null over no rows."""
    made, _ = _aggregate(planner, found)
    return made


def _aggregate(planner: Planner, found: Correlation) -> tuple[QueryValue, exp.Expr]:
    """Plan an aggregate; return it without its value over no rows, and its expression."""
    query = found.query.copy()
    assert isinstance(query, exp.Select)
    item: exp.Expr = query.expressions[0].unalias()
    if (having := query.args.get("having")) is not None:
        item = exp.Case(ifs=[exp.If(this=having.this.copy(), true=item.copy())])
        query.set("having", None)
    query.set("expressions", [with_alias(item, "value"), *_keys(found)])
    with_group_keys(query, [there for _, there in found.pairs])
    plan = planner.query(query)
    return QueryValue(plan, pl.col(plan.columns[0].name), None), item


def _over_no_rows(sql: SqlText, item: exp.Expr) -> Typed | None:
    """Return the value of an expression of aggregates over no rows; None for null."""
    whole = exp.Paren(this=item.copy())
    for call in [*calls_in(whole)]:
        of = call.this if isinstance(call, exp.Filter) else call
        counts = isinstance(of, exp.Count | exp.CountIf | exp.ApproxDistinct)
        call.replace(exp.Literal.number(0) if counts else exp.Null())
    made = Compiler(sql, NameScope(sql, ())).compile(whole)
    empty = made.type == types.NULL or types.constant(made.expr).null_count()
    return None if empty else made


def single_value(planner: Planner, found: Correlation, node: exp.Subquery) -> QueryValue:
    """Plan a query that must not return several rows."""
    query = found.query.copy()
    if isinstance(query, exp.Select):
        if found.pairs and query.args.get("limit") is not None:
            raise planner.sql.error(
                "a correlated scalar subquery does not support LIMIT",
                query.args["limit"],
                "write an aggregate, such as MAX(price) or MAX_BY(price, at)",
            )
        item = query.expressions[0].unalias()
        query.set("expressions", [with_alias(item, "value"), *_keys(found)])
        if is_grouped(query):
            with_group_keys(query, [there for _, there in found.pairs])
        rows = query.subquery("found")
    else:
        alias = exp.TableAlias(
            this=exp.to_identifier("found"), columns=[exp.to_identifier("value", quoted=True)]
        )
        rows = exp.Subquery(this=query, alias=alias)
    value = exp.column("value", quoted=True)
    keys = [exp.column(f"key {n}", quoted=True) for n in range(1, len(found.pairs) + 1)]
    most = exp.alias_(exp.Max(this=value), "value", quoted=True)
    count = exp.alias_(exp.Count(this=exp.Star()), "rows", quoted=True)
    grouped = exp.select(most, *(each.copy() for each in keys), count).from_(rows)
    if keys:
        grouped = grouped.group_by(*(each.copy() for each in keys))
    plan = planner.query(grouped)
    kind, text = plan.columns[0].type, as_sql(node).replace(";", ",")
    several = refusing(
        pl.col("rows") > 1,
        f"the scalar subquery {text} returned several rows; aggregate it, for example with MAX",
        kind,
    )
    columns = plan.columns[:-1]
    exprs = (
        pl.coalesce(several, pl.col("value")).alias("value"),
        *(pl.col(each.name) for each in columns[1:]),
    )
    return QueryValue(projected(plan, exprs, columns), pl.col("value"), None)
