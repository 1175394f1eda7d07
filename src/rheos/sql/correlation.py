"""Correlated queries: the conditions of a nested query that read columns of the outer query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from rheos.sql.join_conditions import few_parts
from rheos.sql.scope import NameScope

if TYPE_CHECKING:
    from rheos.sql.query import Planner


@dataclass(frozen=True)
class Correlation:
    """A nested query, apart from its conditions on outer columns."""

    query: exp.Expr
    """The query without these conditions."""
    pairs: list[tuple[exp.Expr, exp.Expr]]
    """Expressions that must be equal: of the outer query, and of the nested one."""
    rest: list[exp.Expr]
    """Other conditions on outer columns."""


def correlation(planner: Planner, around: NameScope, query: exp.Expr) -> Correlation:
    """Split the WHERE of a nested query. Raise ProgramError or SchemaError."""
    where = query.args.get("where")
    if not isinstance(query, exp.Select) or where is None:
        return Correlation(query, [], [])
    within = NameScope(planner.sql, planner.tables_of(query))
    own, pairs, rest = [], [], []
    for part in few_parts(where.this):
        sides = [part.this, part.expression] if isinstance(part, exp.EQ) else [part]
        reads = [_reads(planner, within, around, side) for side in sides]
        if not any(outer for _, outer in reads):
            own.append(part)
        elif {*reads} == {(True, False), (False, True)}:
            here, there = sides if reads[0] == (False, True) else sides[::-1]
            pairs.append((here, there))
        else:
            rest.append(part)
    if not pairs and not rest:
        return Correlation(query, [], [])
    bare = query.copy()
    bare.set("where", exp.Where(this=exp.and_(*(part.copy() for part in own))) if own else None)
    return Correlation(bare, pairs, rest)


def _reads(planner: Planner, within: NameScope, around: NameScope, node: exp.Expr) -> tuple[bool, bool]:
    """Return whether an expression reads columns of the query, and whether it reads those of the outer
    query."""
    inner = outer = False
    for column in free_columns(planner, node):
        if within.reads(column):
            inner = True
        elif around.reads(column):
            outer = True
        elif any(column.table and column.table == table.alias for table in around.tables):
            around.column(column)
    return inner, outer


def free_columns(planner: Planner, node: exp.Expr) -> Iterator[exp.Column]:
    """Yield the columns in an expression, except for those that a query within it defines."""
    if isinstance(node, exp.Column):
        yield node
        return
    scope = None
    if isinstance(node, exp.Select):
        scope = NameScope(planner.sql, planner.tables_of(node))
    for each in node.iter_expressions():
        for column in free_columns(planner, each):
            if scope is None or not scope.reads(column):
                yield column


def with_group_keys(query: exp.Select, keys: list[exp.Expr]) -> None:
    """Add keys to the GROUP BY of a query."""
    if not keys:
        return
    group = query.args.get("group") or exp.Group(expressions=[])
    group.set("expressions", [*group.expressions, *(each.copy() for each in keys)])
    query.set("group", group)
