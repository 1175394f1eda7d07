"""Numbers of equal rows, which make all columns and the number a key."""

from __future__ import annotations

import polars as pl
from sqlglot import exp

from rheos.core import aggregates as agg
from rheos.core.graph.changelog import Changes
from rheos.core.graph.types import from_polars
from rheos.core.state.key_groups import is_key_type
from rheos.sql import types
from rheos.sql.grouped_plans import Aggregate
from rheos.sql.plan import Explode, PlanNode, SqlColumn, projected, retracting
from rheos.sql.text import SqlText
from rheos.sql.unused_names import unused_name


def numbered_copies(sql: SqlText, node: exp.Expr, plan: PlanNode) -> PlanNode:
    """Return changes of rows without a key as changes of rows with one. Raise SchemaError if the rows
    cannot be compared."""
    for column in plan.columns:
        if not is_key_type(from_polars(pl.Schema({"key": column.type})).types[0]):
            raise sql.wrong_type(
                f"the rows are updated and have no key, and {column.name!r}, which is "
                f"{types.name(column.type)}, cannot be compared",
                node,
                "keep the columns of GROUP BY in the subquery",
            )
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
