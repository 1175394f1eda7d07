"""IN, EXISTS, NOT IN and NOT EXISTS with a query.

They are semi-joins and anti-joins with the distinct rows of the query. Columns that must equal columns
of the outer query are part of the values. Other conditions on columns of both are conditions of the
join.

NOT IN is true for no row once the query returns a null, and never for a null, except if the query
returns no row at all. If nulls are possible, a second anti-join removes these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Literal

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.correlation import Correlation, correlation, with_group_keys
from rheos.sql.expressions.comparisons import equal_keys
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.grouping import distinct, is_grouped
from rheos.sql.joined_plans import AllRows, JoinKeys, JoinPlan
from rheos.sql.joins import kept_for, plain, retractions_of
from rheos.sql.plan import PlanNode, SqlColumn, may_be_null, projected, rekeyed, with_keys
from rheos.sql.scope import Named, NameScope, SqlRelation, TableInSight, with_columns
from rheos.sql.text import as_sql, with_alias

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
    if isinstance(of, exp.Exists) and isinstance(tested := bare_query(of.this), exp.Query):
        return Membership(node, any_row(tested), (), absent)
    query = of.args.get("query") if isinstance(of, exp.In) else None
    if query is None:
        return None
    values = of.this.expressions if isinstance(of.this, exp.Tuple) else [of.this]
    return Membership(node, bare_query(query), values, absent)


def bare_query(query: exp.Expr) -> exp.Expr:
    """Return a query without its parentheses."""
    while isinstance(query, exp.Subquery | exp.Paren):
        query = query.this
    return query


def any_row(query: exp.Query) -> exp.Query:
    """Return the query of EXISTS without ORDER BY, and without a LIMIT that leaves a row: both concern
    only which of the rows it returns."""
    limit = query.args.get("limit")
    count = limit.expression if isinstance(limit, exp.Limit) else None
    if isinstance(count, exp.Literal) and int(count.this) > 0 and not query.args.get("offset"):
        query.set("limit", None)
    if not query.args.get("limit"):
        query.set("order", None)
    return query


@dataclass(frozen=True)
class _Sides:
    """Values of the outer query, and the rows of the nested query in which they are looked up."""

    outer: list[Typed]
    inner: PlanNode
    """Rows with a column for each of these values, then with those that `rest` reads."""
    rest: pl.Expr | None
    """Condition on a row and a row of `inner`."""


def with_membership(planner: Planner, relation: SqlRelation, of: Membership) -> SqlRelation:
    """Return the rows that fulfil the condition. Raise ProgramError or SchemaError."""
    if not isinstance(of.query, exp.Query):
        raise planner.sql.error("EXISTS takes a query", of.query, "write EXISTS (SELECT ...)")
    found = correlation(planner, NameScope(planner.sql, relation.tables), of.query)
    sides = _sides(planner, relation, of, found)
    made = _joined(planner, relation, of, sides, "anti" if of.absent else "semi")
    if of.absent and of.values:
        made = _without_unknown(planner, made, of, found, sides)
    return made


def _joined(
    planner: Planner,
    relation: SqlRelation,
    of: Membership,
    sides: _Sides,
    how: Literal["semi", "anti"],
) -> SqlRelation:
    """Return the rows with partners, or without them."""
    what = "the rows of both queries would be kept forever"
    names = tuple(column.name for column in sides.inner.columns[: len(sides.outer)])
    right = distinct(sides.inner)
    left, keys = with_keys(relation.plan, sides.outer, f"of {names[0]}")
    left = rekeyed(left, keys)
    changes = None
    if how == "anti" or left.changes is not None or right.changes is not None:
        changes = retractions_of(left, keys)
    of_left = plain(left.columns)
    made = JoinPlan(
        left,
        right,
        JoinKeys(keys, names),
        how,
        AllRows(kept_for(planner.sql, planner.ttl, (left, right), what, of.node)),
        of_left,
        len(of_left),
        changes,
        sides.rest,
    )
    given = {column.name: column for column in made.columns}
    return SqlRelation(made, with_columns(relation.tables, given))


def _sides(planner: Planner, relation: SqlRelation, of: Membership, found: Correlation) -> _Sides:
    sql, query = planner.sql, found.query
    scope = NameScope(sql, relation.tables)
    compiler = Compiler(sql, scope)
    outer = [compiler.compile(value) for value in (*of.values, *(here for here, _ in found.pairs))]
    check_conditions(planner, found)
    keys = [there for _, there in found.pairs]
    read = _read(planner, found)
    if not of.values or keys or found.rest:
        values = [each.unalias() for each in query.expressions] if of.values else []
        ones = [] if outer else [exp.Literal.number(1)]
        query = selecting(query, [*values, *ones, *keys, *read], keys)
    if not outer:
        outer = [Typed(pl.lit(1, dtype=types.INT), types.INT, of.node)]
    inner = planner.query(query)
    width = len(outer) + len(read)
    if len(inner.columns) != width:
        raise sql.error(
            "IN needs a query with one column for each value, but this has "
            f"{len(inner.columns) - width + len(of.values)}",
            of.query,
            "write WHERE x IN (SELECT y FROM ...)",
        )
    there = [Typed(pl.col(column.name), column.type, of.query) for column in inner.columns]
    both = [equal_keys(compiler, pair, "IN") for pair in zip(outer, there[: len(outer)], strict=True)]
    casts = [*(other for _, other in both), *there[len(outer) :]]
    names = _names(len(casts), relation.plan)
    columns = tuple(SqlColumn(name, each.type) for name, each in zip(names, casts, strict=True))
    exprs = tuple(each.expr.alias(name) for name, each in zip(names, casts, strict=True))
    made = projected(inner, exprs, columns)
    rest = _condition(
        planner, relation, found, dict(zip(_texts(read), columns[len(outer) :], strict=True))
    )
    return _Sides([one for one, _ in both], made, rest)


def _texts(columns: Sequence[exp.Expr]) -> list[str]:
    return [as_sql(each) for each in columns]


def check_conditions(planner: Planner, found: Correlation) -> None:
    """Check the conditions of a nested query on columns of both queries. Raise ProgramError."""
    limit = found.query.args.get("limit") or found.query.args.get("offset")
    if limit is not None and (found.pairs or found.rest):
        raise planner.sql.error(
            "IN and EXISTS with a correlated subquery do not support LIMIT",
            limit,
            "join with LATERAL (SELECT ... LIMIT 1)",
        )
    for part in found.rest:
        if part.find(exp.Query) is not None:
            raise planner.sql.error(
                "a condition on both queries cannot contain another query", part, "use a join"
            )
    if (found.pairs or found.rest) and isinstance(found.query, exp.Select):
        wrong = [*found.rest, *(here for here, _ in found.pairs if not found.query.args.get("group"))]
        if is_grouped(found.query) and wrong:
            raise planner.sql.error(
                "a correlated subquery with aggregates supports only equality conditions with the "
                "outer query, and GROUP BY",
                wrong[0].parent if isinstance(wrong[0].parent, exp.EQ) else wrong[0],
                "write WHERE its column = an outer column; or use a join",
            )


def _read(planner: Planner, found: Correlation) -> list[exp.Expr]:
    """Return the columns of the nested query in its conditions on both queries."""
    if not found.rest:
        return []
    assert isinstance(found.query, exp.Select)
    within = NameScope(planner.sql, planner.tables_of(found.query))
    columns = [each for part in found.rest for each in part.find_all(exp.Column)]
    mine = {as_sql(each): each for each in columns if within.reads(each)}
    return [*mine.values()]


def _condition(
    planner: Planner, relation: SqlRelation, found: Correlation, read: dict[str, SqlColumn]
) -> pl.Expr | None:
    """Return the conditions on both queries as one; None if the query has only equalities."""
    if not found.rest:
        return None

    def renamed(node: exp.Expr) -> exp.Expr:
        column = read.get(as_sql(node)) if isinstance(node, exp.Column) else None
        if column is None:
            return node
        made = exp.column(exp.to_identifier(column.name, quoted=True))
        made.this.meta.update(node.this.meta)
        return made

    named = tuple(Named(column.name, column) for column in read.values())
    tables = (*relation.tables, TableInSight(None, named, hidden=True))
    compiler = Compiler(planner.sql, NameScope(planner.sql, tables))
    parts = [compiler.condition(part.transform(renamed), "WHERE").expr for part in found.rest]
    return pl.all_horizontal(parts) if len(parts) > 1 else parts[0]


def _without_unknown(
    planner: Planner, relation: SqlRelation, of: Membership, found: Correlation, sides: _Sides
) -> SqlRelation:
    """Return the rows without those for which NOT IN is unknown because of a null."""
    count = len(of.values)
    inner = [column.name for column in sides.inner.columns]
    here = any(may_be_null(relation.plan, each.expr) for each in sides.outer[:count])
    there = any(may_be_null(sides.inner, pl.col(name)) for name in inner[:count])
    if not (here or there):
        return relation
    if count > 1 or sides.rest is not None:
        raise planner.sql.error(
            "NOT IN is true for no row once the query returns a null",
            of.query,
            "filter out nulls in the subquery: WHERE y IS NOT NULL; or write NOT EXISTS (SELECT 1 "
            "FROM u WHERE u.y = x)",
        )
    keys = inner[count:]
    names = _names(len(keys) + 2, relation.plan)
    is_null = pl.col(inner[0]).is_null().alias(names[-1])
    one = pl.lit(1, dtype=types.INT).alias(names[0])
    exprs = [
        one,
        *(pl.col(key).alias(name) for key, name in zip(keys, names[1:], strict=False)),
        is_null,
    ]
    kinds = [types.INT, *(column.type for column in sides.inner.columns[count:]), types.BOOLEAN]
    columns = tuple(SqlColumn(name, kind) for name, kind in zip(names, kinds, strict=True))
    ones = Typed(pl.lit(1, dtype=types.INT), types.INT, of.node)
    unknown = reduce(or_, [pl.col(names[-1]), *([sides.outer[0].expr.is_null()] if here else [])])
    again = _Sides([ones, *sides.outer[count:]], projected(sides.inner, tuple(exprs), columns), unknown)
    return _joined(planner, relation, of, again, "anti")


def _names(count: int, plan: PlanNode) -> tuple[str, ...]:
    """Return unused names for the columns of a query."""
    taken, place = {column.name for column in plan.columns}, 1
    while any(name.endswith(f" of query {place}") or f"of query {place} " in name for name in taken):
        place += 1
    return tuple(f"value {n} of query {place}" for n in range(1, count + 1))


def selecting(query: exp.Expr, values: Sequence[exp.Expr], keys: list[exp.Expr]) -> exp.Expr:
    """Return the query with these columns; a query that is not a SELECT becomes a subquery. `keys` are
    added to its GROUP BY."""
    named = [with_alias(each, f"value {n}") for n, each in enumerate(values, 1)]
    if isinstance(query, exp.Select) and (not is_grouped(query) or keys):
        made = query.copy()
        made.set("expressions", named)
        made.set("distinct", None)
        if is_grouped(query):
            with_group_keys(made, keys)
        return made
    assert isinstance(query, exp.Query)
    return exp.select(*named).from_(query.copy().subquery("found"))
