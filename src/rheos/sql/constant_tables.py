"""Joins with tables that the query itself contains: CROSS JOIN (VALUES (1), (2)) AS v(n).

Each row is joined with these rows at once, so that the join keeps no state, and its result is
append-only if the other side is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import polars as pl

from rheos.core.graph.row_functions import of_columns
from rheos.sql.inserted_rows import known_rows
from rheos.sql.laterals import exploded
from rheos.sql.plan import PlanNode, SqlColumn, ValueRows, projected
from rheos.sql.unused_names import unused_name

MOST_CONSTANT_ROWS = 1000
"""Rows of the largest table that is joined so."""


def paired_with_constants(left: PlanNode, right: PlanNode) -> PlanNode | None:
    """Return all pairs of rows, if one side is a small constant table; None otherwise. The columns of
    the two sides have different names."""
    columns = (*left.columns, *right.columns)
    made = _with_rows(left, right) or _with_rows(right, left)
    if made is None:
        return None
    roles = {column.name: column for column in made.columns}
    return projected(
        made,
        tuple(pl.col(column.name) for column in columns),
        tuple(roles[column.name] for column in columns),
    )


def _with_rows(plan: PlanNode, table: PlanNode) -> PlanNode | None:
    rows = known_rows(table) if _is_constant(table) else None
    if rows is None or len(rows) > MOST_CONSTANT_ROWS:
        return None
    names = [column.name for column in table.columns]
    every = rows.select(names).to_struct("row").implode()
    lists = SqlColumn(unused_name("rows", {column.name for column in plan.columns}), every.dtype)
    own = [pl.col(column.name) for column in plan.columns]
    repeated = of_columns(partial(_repeated, every), own[:1], every.dtype).alias(lists.name)
    wide = projected(plan, (*own, repeated), (*plan.columns, lists))
    each, element = exploded(wide, lists, outer=False)
    fields = [pl.col(element).struct.field(name) for name in names]
    return projected(each, (*own, *fields), (*each.columns[: len(own)], *table.columns))


def _repeated(every: pl.Series, columns: Sequence[pl.Series]) -> pl.Series:
    return every.new_from_index(0, len(columns[0]))


def _is_constant(plan: PlanNode) -> bool:
    inputs = plan.upstream()
    return isinstance(plan, ValueRows) or (bool(inputs) and all(map(_is_constant, inputs)))
