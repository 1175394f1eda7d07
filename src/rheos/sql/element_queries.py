"""Queries over the elements of an array of the outer row: (SELECT SUM(x) FROM UNNEST(t.xs) AS u(x)),
also in EXISTS, IN and ARRAY(SELECT ...), and aggregates of such a query in LATERAL.

They read no table, so they are values that are computed with the row: no rows are kept, and none are
retracted.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl
from sqlglot import exp

from rheos.core import aggregates as agg
from rheos.core.aggregates import Agg
from rheos.core.operators.row_expressions import refusing
from rheos.sql import types
from rheos.sql.aggregates import aggregated
from rheos.sql.expressions.array_functions import inner_type
from rheos.sql.expressions.lambdas import Elements
from rheos.sql.expressions.table import Compiler, OwnCall, Typed
from rheos.sql.grouping import calls_in
from rheos.sql.laterals import elements_of
from rheos.sql.list_aggregates import over_list
from rheos.sql.text import SqlText, as_sql, kind

_SUPPORTED = {"expressions", "from_", "where", "order", "limit", "kind"}
_TABLES = (
    *(exp.From, exp.Join, exp.Lateral, exp.Table, exp.CTE, exp.DDL, exp.DML),
    *(exp.Subquery, exp.SetOperation),
)
"""Nodes whose queries are tables, and not values."""


class ElementQuery(OwnCall):
    """A query over the elements of an array, as the value of an expression."""

    arg_types = {"this": True, "of": True, "value": False}

    def typed(self, compiler: Compiler) -> Typed:
        """Return the value of the query. Raise ProgramError or SchemaError."""
        rows = _Rows(compiler, self)
        match self.args["of"]:
            case "EXISTS":
                return Typed(rows.kept().list.len() > 0, types.BOOLEAN, self)
            case "IN":
                return rows.contains(self.args["value"])
            case "ARRAY":
                return replace(rows.values(), node=self)
        return rows.single_value()


def with_element_queries(statement: exp.Expr) -> exp.Expr:
    """Return the statement with an `ElementQuery` for each query over elements within an expression."""
    for query in [*statement.find_all(exp.Select)]:
        if not _reads_elements(query):
            continue
        place: exp.Expr = query
        while isinstance(place.parent, exp.Paren | exp.Subquery) and not place.parent.alias:
            place = place.parent
        match place.parent:
            case exp.Lateral() if _aggregates(query):
                _aggregate_each(query)
            case exp.Exists() as test:
                _replace(test, query, "EXISTS")
            case exp.In() as test if place.arg_key == "query":
                _replace(test, query, "IN", test.this)
            case exp.Array() as array if len(array.expressions) == 1 and place is query:
                _replace(array, query, "ARRAY")
            case None:
                continue
            case exp.Select() if place.arg_key != "expressions":
                continue
            case parent if place is query or isinstance(parent, _TABLES):
                continue
            case _:
                _replace(place, query, "SELECT")
    return statement


def _reads_elements(query: exp.Select) -> bool:
    """Return whether a query reads only the elements of an array, which columns determine."""
    start = query.args.get("from_")
    if start is None or not isinstance(start.this, exp.Unnest):
        return False
    if query.args.get("joins") or query.args.get("laterals"):
        return False
    return any(each.find(exp.Column) is not None for each in start.this.expressions)


def _aggregates(query: exp.Select) -> bool:
    """Return whether a query has one row, of aggregates."""
    calls = (call for item in query.expressions for call in calls_in(item))
    return query.args.get("group") is None and next(calls, None) is not None


def _aggregate_each(query: exp.Select) -> None:
    """Replace a query of aggregates by one without a table, whose columns are queries."""
    rest = {name: clause for name, clause in query.args.items() if name != "expressions"}
    items = [*query.expressions]
    for item in items:
        one = exp.Select(expressions=[item.unalias().copy()])
        for name, clause in rest.items():
            one.set(name, clause.copy() if isinstance(clause, exp.Expr) else clause)
        made = ElementQuery(this=one, of="SELECT")
        made.meta.update(item.meta)
        name = item.alias or as_sql(item)
        item.replace(exp.alias_(made, name, quoted=True))
    for name in rest:
        query.set(name, None)


def _replace(node: exp.Expr, query: exp.Select, of: str, value: exp.Expr | None = None) -> None:
    made = ElementQuery(this=query.copy(), of=of, value=None if value is None else value.copy())
    made.meta.update(node.meta)
    node.replace(made)


class _Rows:
    """The rows of a query over elements."""

    def __init__(self, outside: Compiler, node: ElementQuery) -> None:
        self._outside, self._node = outside, node
        _check(outside.sql, node.this)
        rows, table = elements_of(outside, node.this.args["from_"].this)
        self._query = _without_table(node.this, table)
        empty = pl.lit([], dtype=rows.list.type)
        values = replace(rows.list, expr=pl.coalesce(rows.list.expr, empty), node=node)
        columns = {each.name.casefold(): (each.of, each.type) for each in rows.columns}
        elements = Elements(outside, values, columns)
        self._rows, self._compiler = elements.rows, elements.compiler

    def kept(self) -> pl.Expr:
        """Return the list of the rows that WHERE, ORDER BY and LIMIT leave. Rows contain what the
        expressions compiled before read."""
        element = pl.element()
        if (where := self._query.args.get("where")) is not None:
            condition = self._compiler.condition(where.this, "WHERE").expr
            element = element.filter(condition.fill_null(False))
        order, limit = self._query.args.get("order"), self._query.args.get("limit")
        keys = (
            [] if order is None else [self._compiler.compile(each.this) for each in order.expressions]
        )
        rows = self._rows().list.eval(element)
        if order is not None:
            desc = [bool(each.args.get("desc")) for each in order.expressions]
            first = [
                bool(each.args.get("nulls_first", not down))
                for each, down in zip(order.expressions, desc, strict=True)
            ]
            in_order = pl.element().sort_by(
                [key.expr for key in keys],
                descending=desc,
                nulls_last=[not each for each in first],
                maintain_order=True,
            )
            rows = rows.list.eval(in_order)
        if limit is not None:
            number = self._outside.compile(limit.expression)
            if not number.is_constant or not types.is_integer(number.type):
                raise self._outside.sql.error("LIMIT takes a constant number", limit, "write LIMIT 3")
            rows = rows.list.head(number.constant)
        return rows

    def values(self) -> Typed:
        """Return the list of the values of the only column."""
        item = self._item()
        if next(calls_in(exp.Paren(this=item)), None) is not None:
            value = self.single_value()
            return Typed(pl.concat_list(value.expr), pl.List(value.type), self._node)
        value = self._compiler.compile(item)
        return Typed(self.kept().list.eval(value.expr), pl.List(value.type), self._node)

    def contains(self, value: exp.Expr) -> Typed:
        """Return whether a value is among those of the query; null if that is unknown."""
        values, before = self.values(), self._outside.instead
        tested = exp.ArrayContains(this=exp.Placeholder(), expression=value.copy())
        compiler = replace(
            self._outside,
            instead=lambda each: values if isinstance(each, exp.Placeholder) else before(each),
        )
        found = pl.when(values.expr.list.len() > 0).then(compiler.compile(tested).expr)
        return Typed(found.otherwise(pl.lit(False)), types.BOOLEAN, self._node)

    def single_value(self) -> Typed:
        """Return the value of the query, which has one row or none."""
        item = self._item()
        calls = {id(call): call for call in calls_in(exp.Paren(this=item))}
        if calls:
            found = {key: self._aggregate(call) for key, call in calls.items()}
            before = self._outside.instead
            outer = replace(self._outside, instead=lambda each: found.get(id(each)) or before(each))
            return replace(outer.compile(item), node=self._node)
        values = self.values()
        inner = inner_type(values)
        text = as_sql(self._query).replace(";", ",")
        several = refusing(
            values.expr.list.len() > 1,
            f"the scalar subquery ({text}) returned several rows; aggregate it, for example with MAX",
            inner,
        )
        return Typed(pl.coalesce(several, values.expr.list.first()), inner, self._node)

    def _item(self) -> exp.Expr:
        """Return the expression of the only column. Raise ProgramError if there are others."""
        items = self._query.expressions
        if len(items) != 1 or self._query.is_star:
            raise self._outside.sql.error(
                "a query within an expression must return one column", self._node, "select one column"
            )
        item: exp.Expr = items[0].unalias()
        return item

    def _aggregate(self, call: exp.Expr) -> Typed:
        """Return an aggregate of the rows."""
        sql = self._outside.sql
        for name in ("order", "limit"):
            if (clause := self._query.args.get(name)) is not None:
                raise sql.error(f"an aggregate of elements does not support {name.upper()}", clause)
        made = aggregated(self._compiler, call)
        value = made.argument or Typed(pl.element().is_not_null(), types.BOOLEAN, call)
        if made.type == types.BIGINT and types.is_integer(value.type):
            value = self._compiler.cast(value, types.BIGINT)
        values = self.kept().list.eval(value.expr)
        of = made.of("value")
        result = None
        if isinstance(of, Agg) and made.fold is None:
            if of == agg.collect("value"):
                result = values.list.drop_nulls()
            else:
                result = over_list(of, values, value.type, made.type, sql.written(call))
        if result is None:
            raise sql.error(
                f"{kind(call)} is not computed over the elements of an array",
                call,
                "supported are COUNT, SUM, AVG, MIN, MAX, and aggregates over lists of values",
            )
        return Typed(made.result(result), made.type, call)


def _check(sql: SqlText, query: exp.Select) -> None:
    for name, clause in query.args.items():
        if clause and name not in _SUPPORTED:
            at = clause[0] if isinstance(clause, list) else clause
            raise sql.error(
                f"a query over the elements of an array does not support {name.rstrip('_').upper()}",
                at,
                "join the table with UNNEST(...), and group the result",
            )


def _without_table(query: exp.Select, table: str | None) -> exp.Select:
    """Return the query whose columns of elements are written without the name of their table."""

    def bare(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or len(node.parts) != 2 or table is None:
            return node
        if node.table.casefold() != table.casefold():
            return node
        made = exp.column(node.this.copy())
        made.meta.update(node.meta)
        return made

    made = query.transform(bare)
    assert isinstance(made, exp.Select)
    return made
