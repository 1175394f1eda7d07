"""Queries in LATERAL that read only the values of the outer row: LATERAL (SELECT t.price * 2 AS twice),
LATERAL (SELECT x FROM UNNEST(t.list) AS u(x) WHERE x > 1), LATERAL (VALUES (t.a), (t.b)).

They are computed with the row itself, without a join.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.element_queries import ElementQuery
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.generated_columns import generators_in, with_generators
from rheos.sql.laterals import exploded, is_lateral, lateral, lateral_join
from rheos.sql.plan import PlanNode, SqlColumn, filtered, projected
from rheos.sql.scope import Named, NameScope, SqlRelation, TableInSight
from rheos.sql.stars import columns_of_star, star_of
from rheos.sql.text import SqlText, as_sql
from rheos.sql.unused_names import unused_name

_SUPPORTED = {"expressions", "from_", "joins", "laterals", "where", "kind"}
_NOT_OF_ONE_ROW = (exp.AggFunc, exp.Window, exp.Subquery)
_JOINED = "write CROSS JOIN LATERAL (...), or LEFT JOIN UNNEST(t.items) AS i ON TRUE"


def reads_one_row(query: exp.Expr) -> bool:
    """Return whether a query has no tables but those computed from the outer row."""
    if isinstance(query, exp.Values):
        return True
    if not isinstance(query, exp.Select):
        return False
    start = query.args.get("from_")
    tables = [] if start is None else [start.this]
    tables += [each.this for each in query.args.get("joins") or []]
    return all(is_lateral(each) for each in tables)


def with_row_query(sql: SqlText, left: SqlRelation, node: exp.Join, query: exp.Expr) -> SqlRelation:
    """Return each row with the rows of its query. Raise ProgramError or SchemaError."""
    side, on = str(node.args.get("side") or ""), node.args.get("on")
    if side not in ("", "LEFT") or (side and _may_be_empty(query)):
        raise sql.error(
            f"LATERAL over the values of a row does not support {side} JOIN", query, _JOINED
        )
    if isinstance(query, exp.Values):
        plan, values = _value_rows(sql, left, query)
    else:
        plan, values = _selected_rows(sql, left, query)
    alias = node.this.args.get("alias")
    table = alias.name if alias is not None else None
    written = [] if alias is None else [each.name for each in alias.args.get("columns") or []]
    if written and len(written) != len(values):
        raise sql.error(f"there are {len(values)} columns, but {len(written)} names for them", alias)
    taken = {column.name for column in plan.columns}
    exprs, columns = [pl.col(name.name) for name in plan.columns], [*plan.columns]
    named = []
    for name, (own, value) in zip(written or [own for own, _ in values], values, strict=True):
        if value.type == types.NULL:
            raise sql.wrong_type(
                f"the column {own!r} is always NULL, so it has no type",
                value.node,
                "write CAST(NULL AS STRING)",
            )
        unique = unused_name(name, taken, f" of {table or 'the query'}")
        taken.add(unique)
        exprs.append(value.expr.alias(unique))
        columns.append(SqlColumn(unique, value.type))
        named.append(Named(name, columns[-1]))
    plan = projected(plan, tuple(exprs), tuple(columns))
    tables = (*left.tables, TableInSight(table or None, tuple(named)))
    if on is not None and not (isinstance(on, exp.Boolean) and on.this):
        plan = filtered(plan, Compiler(sql, NameScope(sql, tables)).condition(on, "ON").expr)
    return SqlRelation(plan, tables)


_Values = Sequence[tuple[str, Typed]]


def _may_be_empty(query: exp.Expr) -> bool:
    if isinstance(query, exp.Values):
        return False
    return any(query.args.get(name) for name in ("from_", "where")) or _has_call_of_rows(query)


def _has_call_of_rows(query: exp.Expr) -> bool:
    return any(next(generators_in(each), None) is not None for each in query.expressions)


def _selected_rows(sql: SqlText, left: SqlRelation, query: exp.Expr) -> tuple[PlanNode, _Values]:
    """Return the rows of a SELECT, and its columns."""
    for name, clause in query.args.items():
        if clause and name not in _SUPPORTED:
            at = clause[0] if isinstance(clause, list) else clause
            raise sql.error(f"LATERAL over the values of a row does not support {name.upper()}", at)
    parts = query.walk(prune=lambda part: isinstance(part, ElementQuery))
    wrong = next((part for part in parts if isinstance(part, _NOT_OF_ONE_ROW)), None)
    if wrong is not None:
        raise sql.error(
            f"LATERAL over the values of a row does not support {as_sql(wrong)}",
            wrong,
            "use a function of lists, such as AGGREGATE, ARRAY_MAX or SIZE",
        )
    query = query.copy()
    assert isinstance(query, exp.Select), "the others are VALUES"
    relation = left
    if (start := query.args.get("from_")) is not None:
        relation = lateral(sql, relation, start.this, outer=False)
    for each in query.args.get("joins") or []:
        relation = lateral_join(sql, relation, each)
    for each in query.args.get("laterals") or []:
        relation = lateral(sql, relation, each, outer=bool(each.args.get("outer")))
    relation = _with_own_names_first(relation, len(left.tables))
    if (where := query.args.get("where")) is not None:
        condition = Compiler(sql, NameScope(sql, relation.tables)).condition(where.this, "WHERE")
        relation = replace(relation, plan=filtered(relation.plan, condition.expr))
    relation = with_generators(sql, relation, query)
    scope = NameScope(sql, relation.tables)
    own = NameScope(sql, relation.tables[len(left.tables) :])
    compiler = Compiler(sql, scope)
    values: list[tuple[str, Typed]] = []
    for item in query.expressions:
        if star_of(item) is not None:
            within = scope if isinstance(item, exp.Column) and item.table else own
            values += [(name, value) for name, value, _ in columns_of_star(sql, item, within, compiler)]
        else:
            name = item.alias or (item.name if isinstance(item, exp.Column) else as_sql(item))
            values.append((name, compiler.compile(item.unalias())))
    return relation.plan, values


def _with_own_names_first(relation: SqlRelation, outer: int) -> SqlRelation:
    """Return the relation with the names of the query hiding those of the outer row."""
    own = {each.name.casefold() for table in relation.tables[outer:] for each in table.columns}
    hidden = tuple(
        replace(
            table,
            columns=tuple(
                replace(each, qualified=each.qualified or each.name.casefold() in own)
                for each in table.columns
            ),
        )
        for table in relation.tables[:outer]
    )
    return replace(relation, tables=(*hidden, *relation.tables[outer:]))


def _value_rows(sql: SqlText, left: SqlRelation, query: exp.Values) -> tuple[PlanNode, _Values]:
    """Return the rows of VALUES, and its columns."""
    compiler = Compiler(sql, NameScope(sql, left.tables))
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in query.expressions]
    wrong = next((row for row in rows if len(row) != len(rows[0])), None)
    if wrong is not None or not rows[0]:
        raise sql.error("all rows of VALUES need the same number of columns", query)
    places = [
        compiler.common([compiler.compile(row[place]) for row in rows], "VALUES")
        for place in range(len(rows[0]))
    ]
    names = [f"col{place + 1}" for place in range(len(places))]
    fields = {name: kind for name, (_, kind) in zip(names, places, strict=True)}
    structs = [
        pl.struct(values[at].expr.alias(name) for name, (values, _) in zip(names, places, strict=True))
        for at in range(len(rows))
    ]
    taken = {column.name for column in left.plan.columns}
    lists = SqlColumn(unused_name("rows", taken), pl.List(pl.Struct(fields)))
    exprs = [pl.col(column.name) for column in left.plan.columns]
    every = pl.concat_list(structs).alias(lists.name)
    wide = projected(left.plan, (*exprs, every), (*left.plan.columns, lists))
    plan, element = exploded(wide, lists, outer=False)
    return plan, [
        (name, Typed(pl.col(element).struct.field(name), kind, query)) for name, kind in fields.items()
    ]
