"""Numbers of equal rows, which make all columns and the number a key."""

from __future__ import annotations

import polars as pl
from sqlglot import exp

from rheos.core import aggregates as agg
from rheos.core.graph.changelog import Changes
from rheos.sql import types
from rheos.sql.expressions.order_keys import is_nested, is_ordered
from rheos.sql.grouped_plans import Aggregate
from rheos.sql.nested_keys import comparable, values_of
from rheos.sql.plan import Columns, Explode, PlanNode, SqlColumn, names_of, projected, retracting
from rheos.sql.text import SqlText
from rheos.sql.unused_names import unused_name


def numbered_copies(sql: SqlText, node: exp.Expr, plan: PlanNode) -> PlanNode:
    """Return changes of rows without a key as changes of rows with one. Raise SchemaError if the rows
    cannot be compared."""
    for column in plan.columns:
        if is_nested(column.type) and not is_ordered(column.type):
            raise sql.wrong_type(
                f"the rows are updated and have no key, and {column.name!r}, which is "
                f"{types.name(column.type)}, cannot be compared",
                node,
                "keep the columns of GROUP BY in the subquery",
            )
    rows = comparable(plan)
    if rows is not plan:
        return _with_values(numbered_copies(sql, node, rows), plan.columns)
    keys = tuple(column.name for column in plan.columns)
    count = unused_name("number of copies", keys)
    counted = Aggregate(
        retracting(plan),
        keys,
        ((count, agg.count()),),
        None,
        (*plan.columns, SqlColumn(count, types.BIGINT)),
        Changes(keys, retracts=False),
    )
    wide = projected(
        retracting(counted),
        (*(pl.col(key) for key in keys), pl.int_ranges(pl.lit(0), pl.col(count)).alias(count)),
        (*plan.columns, SqlColumn(count, pl.List(types.BIGINT))),
    )
    columns = (*plan.columns, SqlColumn(count, types.BIGINT))
    return Explode(wide, count, columns, Changes((*keys, count), retracts=True))


def _with_values(plan: PlanNode, columns: Columns) -> PlanNode:
    """Return the rows with these columns, followed by their keys and the number of the copy."""
    nested = [column.name for column in columns if is_nested(column.type)]
    names = {name: unused_name(f"key of {name}", names_of(plan)) for name in nested}
    exprs = (*values_of(columns), *map(pl.col, nested), pl.col(plan.columns[-1].name))
    keys = (SqlColumn(name, types.TEXT) for name in names.values())
    return projected(plan, exprs, (*columns, *keys, plan.columns[-1]))
