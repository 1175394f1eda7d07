"""Columns of SELECT that return rows: SELECT id, EXPLODE(tags) AS tag, UNNEST(prices) AS price.

The calls are computed side by side, before groups and after conditions. If they read aggregates or OVER
columns, the query without them is planned first, and they are columns of a query around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from rheos.sql.expressions.generators import (
    GENERATORS,
    ONE_OF_A_QUERY,
    RowsOfCall,
    is_generator,
    named,
    zipped,
)
from rheos.sql.expressions.table import Compiler
from rheos.sql.grouping import is_grouped
from rheos.sql.laterals import exploded
from rheos.sql.plan import PlanNode, SqlColumn, projected, with_keys
from rheos.sql.scope import Named, NameScope, SqlRelation, TableInSight
from rheos.sql.text import SqlText, as_sql, kind, with_alias

if TYPE_CHECKING:
    from rheos.sql.query import Planner

_ROWS = " rows of groups"
"""Name that no query can contain."""


def generators_in(node: exp.Expr) -> Iterator[exp.Anonymous]:
    """Yield the outermost calls that return rows, without those of queries within."""
    if isinstance(node, exp.Anonymous) and is_generator(node):
        yield node
    elif not isinstance(node, exp.Query):
        for inner in node.iter_expressions():
            yield from generators_in(inner)


def names_of_item(item: exp.Expr) -> list[str]:
    """Return the names of a column of SELECT in the query."""
    if isinstance(item, exp.Aliases):
        return [each.name for each in item.expressions]
    return [item.alias] if isinstance(item, exp.Alias) else []


def _plain(item: exp.Expr) -> exp.Expr:
    value = item.this if isinstance(item, exp.Aliases) else item.unalias()
    assert isinstance(value, exp.Expr)
    return value


# --- before groups ------------------------------------------------------------------------------------


def with_generators(sql: SqlText, relation: SqlRelation, node: exp.Select) -> SqlRelation:
    """Return the rows with those of the calls in SELECT and GROUP BY, which are replaced by columns.
    Raise ProgramError or SchemaError."""
    group = node.args.get("group")
    parts = [*node.expressions, *([] if group is None else group.expressions)]
    calls = {as_sql(call): call for part in parts for call in generators_in(part)}
    if not calls:
        return relation
    _check_number(sql, [*calls.values()])
    compiler = Compiler(sql, NameScope(sql, relation.tables))
    found = {text: GENERATORS[call.name.casefold()](compiler, call) for text, call in calls.items()}
    made = _GeneratedColumns(sql, relation, found)
    node.set("expressions", [new for item in node.expressions for new in made.items(item)])
    for key in [] if group is None else [*group.expressions]:
        made.replace_calls(key)
    return made.relation


def _check_number(sql: SqlText, calls: Sequence[exp.Anonymous]) -> None:
    if len(calls) < 2:
        return
    for call in calls:
        if call.name.casefold().removesuffix("_outer") in ONE_OF_A_QUERY:
            raise sql.error(
                f"{kind(call)} is the only call that returns rows in a SELECT",
                call,
                "write LATERAL VIEW EXPLODE(list) e AS item for each, or UNNEST(a, b) in FROM",
            )


class _GeneratedColumns:
    """The rows of a query with those of its calls, and columns for what the query reads of them."""

    def __init__(self, sql: SqlText, relation: SqlRelation, found: dict[str, RowsOfCall]) -> None:
        rows = zipped([*found.values()]) if len(found) > 1 else next(iter(found.values()))
        plan, [values] = with_keys(relation.plan, [rows.list], "in SELECT")
        list_column = SqlColumn(values, rows.list.type)
        self._plan, self._element = exploded(plan, list_column, outer=rows.is_outer)
        self._sql, self._tables, self._found = sql, relation.tables, found
        self._is_zipped = len(found) > 1
        self._exprs: dict[str, pl.Expr] = {}
        self._columns: list[SqlColumn] = []

    @property
    def relation(self) -> SqlRelation:
        kept = [column for column in self._plan.columns if column.name != self._element]
        exprs = [*(pl.col(column.name) for column in kept), *self._exprs.values()]
        plan = projected(self._plan, tuple(exprs), (*kept, *self._columns))
        made = tuple(Named(column.name, column) for column in self._columns)
        return SqlRelation(plan, (*self._tables, TableInSight(None, made, hidden=True)))

    def items(self, item: exp.Expr) -> list[exp.Expr]:
        """Return the columns of SELECT in place of one."""
        value, names = _plain(item), names_of_item(item)
        if not (isinstance(value, exp.Anonymous) and is_generator(value)):
            if next(generators_in(item), None) is None:
                return [item]
            made = item if names else with_alias(item, as_sql(item))
            self.replace_calls(made)
            return [made]
        rows = self._found[as_sql(value)]
        if rows.may_be_whole and len(names) < 2:
            rows = rows.whole("element")
        rows = named(self._sql, rows, names, item)
        base = self._base(value)
        return [
            exp.alias_(
                self._column(value, f"{place}", each.of(base), each.type), each.name, quoted=True
            )
            for place, each in enumerate(rows.columns)
        ]

    def replace_calls(self, node: exp.Expr) -> None:
        """Replace the calls within an expression by their values: structs, if they have several
        columns."""
        for call in [*generators_in(node)]:
            rows = self._found[as_sql(call)]
            rows = rows if len(rows.columns) == 1 else rows.whole("")
            [column] = rows.columns
            call.replace(self._column(call, "value", column.of(self._base(call)), column.type))

    def _base(self, call: exp.Expr) -> pl.Expr:
        whole = pl.col(self._element)
        place = [*self._found].index(as_sql(call))
        return whole.struct.field(f"rows {place}") if self._is_zipped else whole

    def _column(self, call: exp.Expr, what: str, expr: pl.Expr, of: pl.DataType) -> exp.Column:
        """Return a column of the value, which is added to the rows."""
        name = f" {as_sql(call)} {what}"
        if name not in self._exprs:
            self._exprs[name] = expr.alias(name)
            self._columns.append(SqlColumn(name, of))
        column = exp.column(exp.to_identifier(name, quoted=True))
        column.this.meta.update(call.meta)
        return column


# --- after groups -------------------------------------------------------------------------------------


def after_groups(node: exp.Select) -> bool:
    """Return whether calls in SELECT that return rows are computed after groups and OVER columns."""
    with_calls = [item for item in node.expressions if next(generators_in(item), None) is not None]
    if not with_calls:
        return False
    if any(isinstance(part, exp.Window) for item in node.expressions for part in item.walk()):
        return True
    return is_grouped(node) and not all(_is_key(node, item) for item in with_calls)


def _is_key(node: exp.Select, item: exp.Expr) -> bool:
    """Return whether a column of SELECT is a key of GROUP BY: by its name, its place or its SQL."""
    group = node.args.get("group")
    place = next(n for n, each in enumerate(node.expressions, 1) if each is item)
    written = {name.casefold() for name in names_of_item(item)} | {as_sql(_plain(item)), f"{place}"}
    return group is not None and any(
        as_sql(key) in written or (isinstance(key, exp.Column) and key.name.casefold() in written)
        for key in group.expressions
    )


def generated_after_groups(planner: Planner, node: exp.Select) -> PlanNode:
    """Plan a query whose groups or OVER columns are arguments of calls that return rows. Raise
    ProgramError or SchemaError."""
    within = node.copy()
    outer: list[exp.Expr] = []
    hidden: list[exp.Expr] = []
    within.set("with_", None)
    within.set("distinct", None)
    group = within.args.get("group")
    for key in [] if group is None else group.expressions:
        if isinstance(key, exp.Literal) and not key.is_string:
            place = planner.sql.place(key, len(node.expressions))
            key.replace(_plain(node.expressions[place]).copy())

    def lifted(part: exp.Expr) -> exp.Expr:
        """Return what the outer query reads in place of an expression of groups."""
        if next(generators_in(part), None) is not None:
            for inner in [*part.iter_expressions()]:
                inner.replace(lifted(inner))
            return part
        if part.find(exp.Column, exp.AggFunc, exp.Window) is None:
            return part
        name = f" argument {len(hidden)}"
        hidden.append(with_alias(part, name))
        column = exp.column(exp.to_identifier(name, quoted=True))
        column.this.meta.update(part.meta)
        return column

    shown = []
    for item in node.expressions:
        if item.is_star:
            raise planner.sql.error(
                "* is not computed next to a call that returns rows, and groups or OVER columns",
                item,
                "list the columns, or compute the groups in a query in FROM",
            )
        if next(generators_in(item), None) is not None:
            outer.append(lifted(item.copy()))
            continue
        name = item.alias_or_name or as_sql(item)
        shown.append(with_alias(_plain(item), name))
        outer.append(exp.column(exp.to_identifier(name, quoted=True)))
    within.set("expressions", [*shown, *hidden])
    plan = planner.query(within)
    rows = exp.Table(this=exp.to_identifier(_ROWS, quoted=True))
    around = exp.select(*outer).from_(rows)
    around.set("distinct", node.args.get("distinct"))
    return replace(planner, ctes={**planner.ctes, _ROWS.casefold(): plan}).query(around)
