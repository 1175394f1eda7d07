"""IN, EXISTS, NOT IN and NOT EXISTS with a query.

They are joins with the distinct rows of the query: an inner join, or a left join that keeps rows
without a partner. Columns that must equal columns of the outer query are part of the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from rheos.core.graph.changelog import Changes
from rheos.sql import types
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.grouping import distinct, is_grouped
from rheos.sql.join_conditions import parts_of
from rheos.sql.joined_plans import AllRows, JoinKeys, JoinPlan
from rheos.sql.joins import FOR_EVER, plain
from rheos.sql.plan import Filter, PlanNode, SqlColumn, projected, with_keys
from rheos.sql.ranking import known_by_key
from rheos.sql.scope import NameScope, SqlRelation, with_columns

if TYPE_CHECKING:
    from rheos.sql.query import Planner


@dataclass(frozen=True)
class Membership:
    """A condition that tests rows against the rows of a query."""

    node: exp.Expr
    query: exp.Expr
    values: Sequence[exp.Expr]
    """Values that the query's columns must equal; empty for EXISTS."""
    absent: bool
    """Whether rows match if the query lacks them."""


def membership(node: exp.Expr) -> Membership | None:
    """Return the membership test in a condition; None if it contains none."""
    of, absent = node, False
    while isinstance(of, exp.Not | exp.Paren):
        absent ^= isinstance(of, exp.Not)
        of = of.this
    if isinstance(of, exp.Exists):
        return Membership(node, _bare(of.this), (), absent)
    query = of.args.get("query") if isinstance(of, exp.In) else None
    if query is None:
        return None
    values = of.this.expressions if isinstance(of.this, exp.Tuple) else [of.this]
    return Membership(node, _bare(query), values, absent)


def _bare(query: exp.Expr) -> exp.Expr:
    while isinstance(query, exp.Subquery | exp.Paren):
        query = query.this
    return query


def with_membership(planner: Planner, relation: SqlRelation, of: Membership) -> SqlRelation:
    """Return the rows that fulfil the condition. Raise ProgramError or SchemaError."""
    sql = planner.sql
    if planner.ttl is None:
        raise sql.error("the rows of both queries would be kept forever", of.node, FOR_EVER)
    scope = NameScope(sql, relation.tables)
    outer, inner = _sides(planner, scope, of)
    compiler = Compiler(sql, scope)
    both = [
        compiler.common((one, other), "IN")[0]
        for one, other in zip(outer, _typed(inner, of), strict=True)
    ]
    names = _names(len(both), relation.plan)
    columns = tuple(SqlColumn(name, there.type) for name, (_, there) in zip(names, both, strict=True))
    there = tuple(there.expr.alias(name) for name, (_, there) in zip(names, both, strict=True))
    right = distinct(projected(inner, there, columns))
    left, keys = with_keys(relation.plan, [here for here, _ in both], f"of {names[0]}")
    if left.changes is not None and not left.changes.key:
        raise sql.error(
            "the rows are updated and have no key: combined with append-only rows, only one NOT IN "
            "or NOT EXISTS is supported",
            of.node,
            "combine both queries with UNION",
        )
    left = known_by_key(sql, of.node, left, [*keys])
    if of.absent and of.values:
        # For null, membership is unknown.
        present = pl.all_horizontal([pl.col(key).is_not_null() for key in keys])
        left = Filter(left, present, left.columns, left.changes)
    changes = None
    if of.absent or left.changes is not None or right.changes is not None:
        key = () if left.changes is None else tuple(dict.fromkeys((*left.changes.key, *keys)))
        changes = Changes(key, retracts=True)
    of_left = plain(left.columns)
    made: PlanNode = JoinPlan(
        left,
        right,
        JoinKeys(keys, names),
        "left" if of.absent else "inner",
        AllRows(planner.ttl),
        (*of_left, *columns),
        len(of_left),
        changes,
    )
    if of.absent:
        # A row that finds one is taken back, and is not given with it.
        made = Filter(made, pl.col(names[0]).is_null(), made.columns, changes)
    given = {column.name: column for column in made.columns}
    return SqlRelation(made, with_columns(relation.tables, given))


def _names(count: int, plan: PlanNode) -> tuple[str, ...]:
    """Return unused names for the columns of a query."""
    taken, place = {column.name for column in plan.columns}, 1
    while f"value 1 of query {place}" in taken:
        place += 1
    return tuple(f"value {n} of query {place}" for n in range(1, count + 1))


def _typed(plan: PlanNode, of: Membership) -> list[Typed]:
    return [Typed(pl.col(column.name), column.type, of.query) for column in plan.columns]


# --- both sides ---------------------------------------------------------------------------------------


def _sides(planner: Planner, scope: NameScope, of: Membership) -> tuple[list[Typed], PlanNode]:
    """Return the values to look for, and the rows in which to look, one column for each."""
    sql, compiler = planner.sql, Compiler(planner.sql, scope)
    outer = [compiler.compile(value) for value in of.values]
    query = of.query
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    if isinstance(query, exp.Select):
        query, pairs = _correlated(planner, scope, query)
    outer += [compiler.compile(here) for here, _ in pairs]
    if not of.values:
        # The SELECT list of EXISTS is irrelevant.
        query = _selecting(query, [there for _, there in pairs] or [exp.Literal.number(1)])
        outer = outer or [Typed(pl.lit(1, dtype=types.INT), types.INT, of.node)]
    elif pairs:
        assert isinstance(query, exp.Select)
        query = _selecting(
            query, [*(each.unalias() for each in query.expressions), *(b for _, b in pairs)]
        )
    inner = planner.query(query)
    if len(inner.columns) != len(outer):
        raise sql.error(
            "IN needs a query with one column for each value, but this has "
            f"{len(inner.columns) - len(pairs)}",
            of.query,
            "write WHERE x IN (SELECT y FROM ...)",
        )
    if of.absent and of.values:
        _check_no_nulls(planner, of, query, inner)
    return outer, inner


def _correlated(
    planner: Planner, scope: NameScope, query: exp.Select
) -> tuple[exp.Select, list[tuple[exp.Expr, exp.Expr]]]:
    """Return the query without its conditions on outer columns, and the pairs of columns in these
    conditions.
    """
    sql = planner.sql
    where = query.args.get("where")
    if where is None:
        return query, []
    within = NameScope(sql, planner.from_of(query).tables)
    left, pairs = [], []
    for part in parts_of(where.this):
        sides = [part.this, part.expression] if isinstance(part, exp.EQ) else [part]
        reads = [_reads(within, scope, side) for side in sides]
        if not any(outer for _, outer in reads):
            left.append(part)
            continue
        apart = len(reads) == 2 and {*reads} == {(True, False), (False, True)}
        if not apart or is_grouped(query):
            raise sql.error(
                "a correlated subquery supports only equality conditions with the outer query",
                part,
                "write WHERE its column = an outer column; or use a join",
            )
        here, there = sides if reads[0] == (False, True) else sides[::-1]
        pairs.append((here, there))
    if not pairs:
        return query, []
    bare = query.copy()
    bare.set("where", exp.Where(this=exp.and_(*(part.copy() for part in left))) if left else None)
    return bare, pairs


def _reads(within: NameScope, around: NameScope, node: exp.Expr) -> tuple[bool, bool]:
    """Return whether an expression reads columns of the query, and whether it reads those of the outer
    query.
    """
    inner = outer = False
    for column in node.find_all(exp.Column):
        if within.find(column) is not None:
            inner = True
        elif around.find(column) is not None:
            outer = True
        elif any(column.table and column.table == table.alias for table in around.tables):
            around.column(column)
    return inner, outer


def _selecting(query: exp.Expr, values: Sequence[exp.Expr]) -> exp.Expr:
    """Return the query with these columns; a query that is not a SELECT becomes a subquery."""
    named = [exp.alias_(each.copy(), f"value {n}", quoted=True) for n, each in enumerate(values, 1)]
    if isinstance(query, exp.Select) and not is_grouped(query):
        made = query.copy()
        made.set("expressions", named)
        made.set("distinct", None)
        return made
    assert isinstance(query, exp.Query)
    return exp.select(*named).from_(query.copy().subquery("found"))


def _check_no_nulls(planner: Planner, of: Membership, query: exp.Expr, inner: PlanNode) -> None:
    """Check that the values of NOT IN cannot be null. With a null, NOT IN is true for no row, which is
    seldom intended.
    """
    if isinstance(query, exp.Select) and (where := query.args.get("where")) is not None:
        known = {
            part.this.this.sql()
            for part in parts_of(where.this)
            if isinstance(part, exp.Not)
            and isinstance(part.this, exp.Is)
            and isinstance(part.this.expression, exp.Null)
        }
        if all(each.unalias().sql() in known for each in query.expressions[: len(of.values)]):
            return
    raise planner.sql.error(
        "NOT IN is true for no row once the query returns a null",
        of.query,
        "filter out nulls in the subquery: WHERE y IS NOT NULL; or write NOT EXISTS (SELECT 1 "
        "FROM u WHERE u.y = x)",
    )
