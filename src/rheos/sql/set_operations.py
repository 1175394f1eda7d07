"""UNION, INTERSECT and EXCEPT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from rheos.core.graph.changelog import Changes
from rheos.sql import types
from rheos.sql.expressions.table import CAST
from rheos.sql.grouping import distinct
from rheos.sql.laterals import exploded
from rheos.sql.nested_keys import check_keys
from rheos.sql.plan import ColumnRole, PlanNode, Project, SqlColumn, Union, projected, retracting
from rheos.sql.unused_names import unused_name
from rheos.sql.windows import settled

if TYPE_CHECKING:
    from rheos.sql.query import Planner

NO_END = "a stream has no end, so its rows cannot be sorted or counted"
_ROWS = " rows"
"""Name of the rows that INTERSECT and EXCEPT group: no query can contain it."""


def set_operation(planner: Planner, node: exp.SetOperation) -> PlanNode:
    """Plan a set operation. Raises ProgramError, SchemaError at the place in the SQL."""
    match node:
        case exp.Union():
            return _union(planner, node)
        case exp.Intersect() | exp.Except():
            return _compared(planner, node)
    raise planner.sql.not_computed(node)


def _sides(planner: Planner, node: exp.SetOperation) -> list[PlanNode]:
    """Return both queries, which must have the same number of columns."""
    for name in ("order", "limit", "offset"):
        if (clause := node.args.get(name)) is not None:
            raise planner.sql.error(f"{NO_END}: {clause.key.upper()} is not computed", clause)
    planner.sql.only(node, ("with_", "this", "expression", "distinct", "by_name"))
    sides = [planner.query(node.this), planner.query(node.expression)]
    if node.args.get("by_name"):
        return _by_name(sides)
    widths = [len(side.columns) for side in sides]
    if len(set(widths)) > 1:
        raise planner.sql.error(
            f"{node.key.upper()} needs queries with the same number of columns, but these have "
            f"{widths[0]} and {widths[1]}",
            node.expression,
        )
    return sides


def _by_name(sides: Sequence[PlanNode]) -> list[PlanNode]:
    """Return both queries with all columns of both, in one order. A missing column is null."""
    known: dict[str, SqlColumn] = {}
    for side in sides:
        for column in side.columns:
            known.setdefault(column.name.casefold(), column)
    made = []
    for side in sides:
        mine = {column.name.casefold(): column for column in side.columns}
        columns = [
            mine.get(name, replace(column, role=ColumnRole.PLAIN)) for name, column in known.items()
        ]
        exprs = [
            pl.col(mine[name].name) if name in mine else pl.lit(None, dtype=column.type)
            for name, column in known.items()
        ]
        made.append(projected(side, tuple(exprs), tuple(columns)))
    return made


def _union(planner: Planner, node: exp.Union) -> PlanNode:
    united = _united(planner, _sides(planner, node), node)
    if not node.args.get("distinct"):
        return united
    check_keys(planner.sql, united, "UNION", node)
    return distinct(united)


def _compared(planner: Planner, node: exp.Intersect | exp.Except) -> PlanNode:
    """Plan INTERSECT and EXCEPT: group rows by all columns, and count the rows of each side.

    The counts determine whether a row is in the result and, with ALL, how often.
    """
    sides = _sides(planner, node)
    columns = sides[0].columns
    names = {column.name.casefold() for column in columns}
    here, there, count = (unused_name(name, names) for name in ("here", "there", "count"))
    check_keys(planner.sql, sides[0], node.key.upper(), node)
    changing = any(side.changes is not None for side in sides)
    marked = []
    for side, mine in zip(sides, (here, there), strict=True):
        mark = pl.lit(1, dtype=types.BIGINT)
        made = side
        if changing and side.changes is None:
            # The other one changes: rows that are the same make one row of a table, with their number.
            number = exp.alias_(exp.Count(this=exp.Star()), count, quoted=True)
            made, mark = _by_all(planner, side, side.columns, number), pl.col(count)
        exprs = [pl.col(column.name) for column in side.columns]
        exprs += [mark if name == mine else pl.lit(0, dtype=types.BIGINT) for name in (here, there)]
        numbers = (SqlColumn(name, types.BIGINT) for name in (here, there))
        marked.append(projected(made, tuple(exprs), (*side.columns, *numbers)))
    counts = [exp.Sum(this=exp.column(name, quoted=True)) for name in (here, there)]
    united = _united(planner, marked, node)
    if not node.args.get("distinct"):
        return _as_often(planner, united, columns, _count_in_result(node, *counts), count)
    wanted = exp.GT if isinstance(node, exp.Intersect) else exp.EQ
    is_there = wanted(this=counts[1], expression=exp.Literal.number(0))
    return _by_all(planner, united, columns, having=exp.and_(_positive(counts[0]), is_there))


def _count_in_result(node: exp.Intersect | exp.Except, here: exp.Expr, there: exp.Expr) -> exp.Expr:
    """Return how often a row is in the result, from its number on each side."""
    if isinstance(node, exp.Intersect):
        return exp.Least(this=here, expressions=[there], ignore_nulls=False)
    return exp.Sub(this=here, expression=there)


def _as_often(
    planner: Planner, plan: PlanNode, columns: Sequence[SqlColumn], often: exp.Expr, count: str
) -> PlanNode:
    """Return the grouped rows, each repeated by its count."""
    number = exp.alias_(often, count, quoted=True)
    groups = _by_all(planner, plan, columns, number, having=_positive(often))
    lists = SqlColumn(f"{count} of rows", pl.List(types.BOOLEAN))
    exprs = [pl.col(column.name) for column in groups.columns]
    repeated = pl.lit(True).repeat_by(pl.col(count)).alias(lists.name)
    wide = projected(groups, (*exprs, repeated), (*groups.columns, lists))
    each, _ = exploded(wide, lists, outer=False)
    return projected(each, tuple(exprs[: len(columns)]), groups.columns[: len(columns)])


def _positive(number: exp.Expr) -> exp.Expr:
    return exp.GT(this=number, expression=exp.Literal.number(0))


def _by_all(
    planner: Planner,
    plan: PlanNode,
    columns: Sequence[SqlColumn],
    *more: exp.Expr,
    having: exp.Expr | None = None,
) -> PlanNode:
    """Return distinct rows of these columns, with the aggregates `more` of each."""
    names = [exp.column(column.name, quoted=True) for column in columns]
    table = exp.Table(this=exp.to_identifier(_ROWS, quoted=True))
    groups = exp.select(*names, *more).from_(table).group_by(*names)
    if having is not None:
        groups = groups.having(having)
    return replace(planner, ctes={**planner.ctes, _ROWS: plan}).query(groups)


def _united(planner: Planner, sides: list[PlanNode], node: exp.SetOperation) -> PlanNode:
    columns = []
    for of in zip(*(settled(side) for side in sides), strict=True):
        kind: pl.DataType | None = of[0].type
        for other in of[1:]:
            kind = None if kind is None else types.common(kind, other.type)
        if kind is None:
            raise planner.sql.wrong_type(
                f"column {of[0].name!r} is {types.name(of[0].type)} in one query, but "
                f"{types.name(of[1].type)} in the other",
                node.expression,
                CAST,
            )
        roles = {column.role for column in of}
        columns.append(
            SqlColumn(of[0].name, kind, roles.pop() if len(roles) == 1 else ColumnRole.PLAIN)
        )
    changing = any(side.changes is not None for side in sides)
    united = tuple(_fitted(side, tuple(columns), changing) for side in sides)
    changes = Changes((), retracts=True) if changing else None
    return Union(united, tuple(columns), changes)


def _fitted(side: PlanNode, columns: tuple[SqlColumn, ...], changing: bool) -> PlanNode:
    """Return the columns of a union. If a side is a changelog, all become one without a key."""
    exprs = []
    for column, wanted in zip(side.columns, columns, strict=True):
        cast = types.cast(pl.col(column.name), column.type, wanted.type)
        assert cast is not None, "they have a common type"
        exprs.append(cast)
    if not changing:
        return Project(side, tuple(exprs), columns, None)
    return Project(retracting(side), tuple(exprs), columns, Changes((), retracts=True))
