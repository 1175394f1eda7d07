"""Rows whose columns are all keys, as in DISTINCT: nested columns become strings, which are equal for
equal values."""

from __future__ import annotations

import polars as pl
from sqlglot import exp

from rheos.sql.expressions.key_values import check_key, key_of, value_of_key
from rheos.sql.expressions.order_keys import is_nested
from rheos.sql.plan import Columns, PlanNode, SqlColumn, projected
from rheos.sql.text import SqlText


def check_keys(sql: SqlText, plan: PlanNode, where: str, at: exp.Expr | None) -> None:
    """Raise SchemaError if rows cannot be compared, because a column is a map."""
    for column in plan.columns:
        check_key(sql, column.type, f"{where}, as column {column.name!r} is", at)


def comparable(plan: PlanNode) -> PlanNode:
    """Return the rows with the keys of nested columns instead of their values."""
    if not any(is_nested(column.type) for column in plan.columns):
        return plan
    keys = [key_of(pl.col(column.name), column.type) for column in plan.columns]
    columns = (
        SqlColumn(column.name, kind, column.role)
        for column, (_, kind) in zip(plan.columns, keys, strict=True)
    )
    return projected(plan, tuple(expr for expr, _ in keys), tuple(columns))


def values_of(columns: Columns) -> tuple[pl.Expr, ...]:
    """Return the values of these columns from the rows of `comparable`."""
    return tuple(
        value_of_key(pl.col(each.name), each.type) if is_nested(each.type) else pl.col(each.name)
        for each in columns
    )
