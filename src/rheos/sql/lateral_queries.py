"""The rows of a query for each row: LATERAL (SELECT ... WHERE k = outer.k ORDER BY n DESC LIMIT 2).

The query becomes a join by its equality conditions on outer columns. A limit becomes the first rows of
each key, by ROW_NUMBER.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from rheos.sql.correlation import correlation
from rheos.sql.row_queries import reads_one_row, with_row_query
from rheos.sql.scope import Named, NameScope, SqlRelation
from rheos.sql.text import as_sql

if TYPE_CHECKING:
    from rheos.sql.query import Planner

_NUMBER = "number in the query"
_EXAMPLE = "write LATERAL (SELECT city FROM t WHERE t.k = s.k ORDER BY n DESC LIMIT 2) AS l"
_SUPPORTED = {"expressions", "from_", "joins", "laterals", "where", "order", "limit", "kind"}


def is_lateral_query(node: exp.Join) -> bool:
    """Return whether a join is with a query that may read the rows of the left side."""
    return isinstance(node.this, exp.Lateral) and isinstance(node.this.this, exp.Subquery)


def with_lateral_query(planner: Planner, left: SqlRelation, node: exp.Join) -> SqlRelation:
    """Join each row with the rows of its query. Raise ProgramError or SchemaError."""
    sql = planner.sql
    query, alias = node.this.this.this, node.this.args.get("alias")
    if reads_one_row(query):
        return with_row_query(sql, left, node, query)
    around = NameScope(sql, left.tables)
    found = correlation(planner, around, query)
    if found.rest:
        raise sql.error(
            "LATERAL supports only equality conditions with the outer query", found.rest[0], _EXAMPLE
        )
    if not isinstance(query, exp.Select) or not found.pairs:
        raise sql.error("LATERAL needs a query that reads the outer row", node.this, _EXAMPLE)
    for name, clause in query.args.items():
        if clause and name not in _SUPPORTED:
            at = clause[0] if isinstance(clause, list) else clause
            raise sql.error(f"LATERAL does not support {name.upper()}", at, _EXAMPLE)
    limit = query.args.get("limit")
    if limit is not None and query.args.get("order") is None:
        raise sql.error("LIMIT in LATERAL needs ORDER BY", limit, _EXAMPLE)
    aggregate = next(query.find_all(exp.AggFunc), None)
    if aggregate is not None:
        raise sql.error(
            "LATERAL does not support aggregates",
            aggregate,
            f"write the query as a value: (SELECT {as_sql(aggregate)} FROM ... WHERE ...) in SELECT",
        )
    name = alias.name if alias is not None and alias.name else "the query"
    keys = [f"key {place} of {name}" for place, _ in enumerate(found.pairs)]
    rows = _first_rows(found.query, [there for _, there in found.pairs], keys)
    table = exp.alias_(rows, name, table=True)
    table.args["alias"].set("this", exp.to_identifier(name, quoted=True))
    on = [
        exp.EQ(this=here.copy(), expression=exp.column(_named(key), _named(name)))
        for (here, _), key in zip(found.pairs, keys, strict=True)
    ]
    given = node.args.get("on")
    if given is not None and not (isinstance(given, exp.Boolean) and given.this):
        on.append(given)
    join = exp.Join(
        this=table, side=node.args.get("side"), kind=node.args.get("kind"), on=exp.and_(*on)
    )
    made = planner.joined(left, join)
    hidden = {*keys, _NUMBER}
    shown = tuple(each for each in made.tables[-1].columns if each.name not in hidden)
    written = [each.name for each in alias.args.get("columns") or []] if alias is not None else []
    if written:
        if len(written) != len(shown):
            raise sql.error(f"there are {len(shown)} columns, but {len(written)} names for them", alias)
        shown = tuple(Named(to, of.column) for to, of in zip(written, shown, strict=True))
    last = replace(made.tables[-1], columns=shown)
    return SqlRelation(made.plan, (*made.tables[:-1], last))


def _first_rows(query: exp.Expr, values: list[exp.Expr], keys: list[str]) -> exp.Subquery:
    """Return the query with the columns of its keys, limited for each key."""
    assert isinstance(query, exp.Select)
    query = query.copy()
    order, limit = query.args.get("order"), query.args.get("limit")
    query.set("order", None)
    query.set("limit", None)
    added = [exp.alias_(value.copy(), _named(key)) for value, key in zip(values, keys, strict=True)]
    if limit is None:
        query.set("expressions", [*query.expressions, *added])
        return exp.Subquery(this=query)
    assert order is not None, "checked with LIMIT"
    named = {each.alias: each.this for each in query.expressions if isinstance(each, exp.Alias)}
    order = order.transform(
        lambda node: (
            named[node.name].copy()
            if isinstance(node, exp.Column) and not node.table and node.name in named
            else node
        )
    )
    number = exp.Window(
        this=exp.RowNumber(), partition_by=[value.copy() for value in values], order=order, over="OVER"
    )
    added.append(exp.alias_(number, _named(_NUMBER)))
    query.set("expressions", [*query.expressions, *added])
    first = exp.LTE(this=exp.column(_named(_NUMBER)), expression=limit.expression.copy())
    return exp.Subquery(this=exp.select("*").from_(query.subquery("numbered", copy=False)).where(first))


def _named(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
