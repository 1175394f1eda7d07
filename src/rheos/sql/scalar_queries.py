"""Scalar subqueries: an aggregate of all rows, as a column of each row.

They are joins with a table of one row. Each change of the value retracts all rows, and emits them
again. Until the table has its row, the value is that over no rows: 0 for COUNT, else mostly null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from rheos.core.aggregates import Agg
from rheos.core.graph.changelog import Changes
from rheos.core.graph.exact_decimals import exact
from rheos.sql import types
from rheos.sql.expressions.table import Typed
from rheos.sql.grouped_plans import Aggregate
from rheos.sql.grouping import is_grouped
from rheos.sql.joined_plans import AllRows, JoinKeys, JoinPlan
from rheos.sql.joins import FOR_EVER, plain
from rheos.sql.plan import Filter, PlanNode, Project, Retract, SqlColumn, projected, with_keys
from rheos.sql.ranking import known_by_key
from rheos.sql.scope import Named, SqlRelation, TableInSight, with_columns

if TYPE_CHECKING:
    from rheos.sql.query import Planner


def scalar_queries(node: exp.Expr) -> Iterator[exp.Subquery]:
    """Yield the outermost scalar subqueries of an expression."""
    if isinstance(node, exp.Subquery):
        yield node
    elif not isinstance(node, exp.Query | exp.In):
        for inner in node.iter_expressions():
            yield from scalar_queries(inner)


def with_scalars(
    planner: Planner, relation: SqlRelation, nodes: Iterable[exp.Expr]
) -> tuple[SqlRelation, list[exp.Expr]]:
    """Return the rows with a column for each scalar subquery, and the expressions that read these
    columns. Raise ProgramError or SchemaError.
    """
    left = []
    for node in nodes:
        now = node
        for query in [*scalar_queries(node)]:
            relation, column = _with_value_column(planner, relation, query)
            if query is now:
                now = column
            if query.parent is not None:
                query.replace(column)
        left.append(now)
    return relation, left


def _with_value_column(
    planner: Planner, relation: SqlRelation, node: exp.Subquery
) -> tuple[SqlRelation, exp.Expr]:
    sql, query = planner.sql, node.this
    one_row = isinstance(query, exp.Select) and is_grouped(query) and not query.args.get("group")
    if not one_row or len(query.expressions) != 1:
        raise sql.error(
            "a scalar subquery must return one row and one column",
            node,
            "write (SELECT MAX(price) FROM bids): an aggregate without GROUP BY",
        )
    if planner.ttl is None:
        raise sql.error("every row would be kept forever, along with the value", node, FOR_EVER)
    found = planner.query(query)
    value = found.columns[0]
    left, keys = with_keys(relation.plan, [Typed(pl.lit(0, dtype=types.INT), types.INT, node)], "one")
    if left.changes is not None and not left.changes.key:
        raise sql.error(
            "the rows are updated and have no key: with append-only rows, only one scalar subquery "
            "is supported",
            node,
            "compute both values in one query, and join with it",
        )
    left = known_by_key(sql, node, left, [*keys])
    taken, place = {column.name for column in left.columns}, 1
    while f"value {place}" in taken:
        place += 1
    name, one = f"value {place}", f"value {place} is one"
    columns = (SqlColumn(one, types.INT), SqlColumn(name, value.type))
    exprs = (pl.lit(0, dtype=types.INT).alias(one), pl.col(value.name).alias(name))
    right = Project(found, exprs, columns, Changes((one,), retracts=True))
    changes = Changes((), retracts=True)
    if left.changes is not None:
        changes = Changes(tuple(dict.fromkeys((*left.changes.key, *keys))), retracts=True)
    of_left = plain(left.columns)
    made: PlanNode = JoinPlan(
        left,
        right,
        JoinKeys(keys, (one,)),
        "left",
        AllRows(planner.ttl),
        (*of_left, *columns),
        len(of_left),
        changes,
    )
    made = _with_default(made, name, pl.col(one).is_null(), _over_no_rows(found))
    given = {column.name: column for column in made.columns}
    hidden = TableInSight(None, (Named(name, columns[1]),), hidden=True)
    tables = (*with_columns(relation.tables, given), hidden)
    column = exp.column(exp.to_identifier(name, quoted=True))
    return SqlRelation(made, tables), column


def _over_no_rows(plan: PlanNode) -> pl.DataFrame | None:
    """Return the row of an aggregate over no rows; None if it is not known before the job runs."""
    if isinstance(plan, Aggregate):
        kinds = {column.name: column.type for column in plan.columns}
        made = {name: made.of_no_rows for name, made in plan.aggregates if isinstance(made, Agg)}
        row = [*(plan.only_key or ()), *made.values()]
        return pl.DataFrame([row], kinds, orient="row") if len(row) == len(kinds) else None
    if not isinstance(plan, Project | Filter | Retract):
        return None
    below = _over_no_rows(plan.input)
    if below is None or isinstance(plan, Retract):
        return below
    if isinstance(plan, Filter):
        return below.filter(exact([plan.condition], below.lazy()))
    named = zip(plan.exprs, plan.columns, strict=True)
    return below.select(exact([expr.alias(column.name) for expr, column in named], below.lazy()))


def _with_default(
    plan: PlanNode, name: str, missing: pl.Expr, default: pl.DataFrame | None
) -> PlanNode:
    """Return the rows with the default in a column where `missing` holds."""
    if default is None or default.is_empty() or default.to_series().null_count():
        return plan
    number = default.to_series()
    value = pl.lit(number.item(), dtype=number.dtype)
    chosen = pl.when(missing).then(value).otherwise(pl.col(name)).alias(name)
    exprs = (chosen if each.name == name else pl.col(each.name) for each in plan.columns)
    return projected(plan, (*exprs,), plan.columns)
