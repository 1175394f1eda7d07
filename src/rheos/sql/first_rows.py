"""The first rows of a query: LIMIT, OFFSET, FETCH ... WITH TIES and DISTINCT ON; and ORDER BY.

They are planned as bounded row numbers. The result is an updating table, whose rows have no order. A
caller that waits for the end of the query sorts them by a further column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import Compiler
from rheos.sql.generated_columns import names_of_item
from rheos.sql.plan import PlanNode, SqlColumn, projected
from rheos.sql.ranking import WITH_TIES, OrderTerm, ascending_by
from rheos.sql.scope import NameScope, SqlRelation
from rheos.sql.text import with_alias

if TYPE_CHECKING:
    from rheos.sql.query import Planner

_ROWS = " rows in order"
_FIRST = " first rows"
_NUMBER = " number of the row"
ORDER = " order of the result"
_TERM = " sorted by "
"""Names that no query can contain."""


def is_first_rows(node: exp.Expr) -> bool:
    return (
        node.args.get("limit") is not None
        or node.args.get("offset") is not None
        or bool(_distinct_keys(node))
    )


def ordered_query(query: exp.Expr) -> exp.Expr:
    """Return the query whose ORDER BY sorts the result, which may be in parentheses."""
    while isinstance(query, exp.Subquery) and query.args.get("order") is None:
        query = query.this
    return query


def first_rows(planner: Planner, node: exp.Expr) -> PlanNode:
    """Plan a query with LIMIT, OFFSET or DISTINCT ON. ORDER BY may use columns that SELECT leaves out.
    Raise ProgramError or SchemaError."""
    rows, names = _rows_of(planner, node)
    return rows.query(rows.select(*names))


def sorted_rows(planner: Planner, node: exp.Expr) -> PlanNode:
    """Plan a query with ORDER BY. The strings of its last column, `ORDER`, are in this order. Raise
    ProgramError or SchemaError."""
    rows, names = _rows_of(planner, node)
    terms = [each.copy() for each in rows.terms]
    values = [with_alias(each.this, f"{_TERM}{place}") for place, each in enumerate(terms)]
    plan = rows.query(rows.select(*names, *values))
    compiler = Compiler(planner.sql, NameScope(planner.sql, SqlRelation.of(plan, None).tables))
    for value, each in zip(values, terms, strict=True):
        each.set("this", exp.column(value.alias, quoted=True))
    by = ascending_by(planner.sql, [OrderTerm.of(planner.sql, compiler, each) for each in terms])
    columns = plan.columns[: len(names)]
    exprs = [pl.col(each.name) for each in columns]
    return projected(plan, (*exprs, by), (*columns, SqlColumn(ORDER, types.TEXT)))


def _rows_of(planner: Planner, node: exp.Expr) -> tuple[_OrderedRows, list[exp.Column]]:
    """Return the first rows of a query, or all of them, and the columns of its result."""
    order = node.args.get("order")
    terms = [] if order is None else [each.copy() for each in order.expressions]
    keys = [exp.Ordered(this=each.copy()) for each in _distinct_keys(node)]
    within = node.copy()
    for name in ("with_", "order", "limit", "offset"):
        within.set(name, None)
    if keys:
        within.set("distinct", None)
    hidden = _with_hidden(within, [*keys, *terms])
    plan = planner.query(within)
    names = [exp.column(each.name, quoted=True) for each in plan.columns if each.name not in hidden]
    terms = _all_columns(terms, names)
    for each in [*keys, *terms]:
        _of_result(planner, each, names)
    rows = _OrderedRows(planner, plan, terms)
    if keys:
        rows = rows.first_of_each(keys, node)
    limit, offset = node.args.get("limit"), node.args.get("offset")
    skipped = 0 if offset is None else _number(planner, offset)
    if limit is not None:
        rows = rows.first(_number(planner, limit), skipped, with_ties=_with_ties(planner, limit, order))
    elif skipped:
        rows = rows.after(skipped)
    return rows, names


@dataclass(frozen=True)
class _OrderedRows:
    """The rows of a query, and the terms of their ORDER BY, which read its columns."""

    planner: Planner
    plan: PlanNode
    terms: Sequence[exp.Ordered]

    def query(self, query: exp.Expr) -> PlanNode:
        """Plan a query that reads these rows."""
        known = {**self.planner.ctes, _ROWS: self.plan}
        return replace(self.planner, ctes=known).query(query)

    def select(self, *columns: exp.Expr) -> exp.Select:
        return exp.select(*columns).from_(exp.Table(this=exp.to_identifier(_ROWS, quoted=True)))

    def first_of_each(self, keys: Sequence[exp.Ordered], node: exp.Expr) -> _OrderedRows:
        """Return the first row of each key. Raise ProgramError if ORDER BY does not start with the
        keys."""
        left = {_spelled(each) for each in keys}
        rest = [each for each in self.terms if _spelled(each) not in left]
        for term in self.terms:
            if left and _spelled(term) not in {_spelled(each) for each in keys}:
                raise self.planner.sql.error(
                    "ORDER BY must start with the expressions of DISTINCT ON",
                    node.args["order"],
                    "write SELECT DISTINCT ON (a, b) ... ORDER BY a, b, c",
                )
            left.discard(_spelled(term))
        number = _row_number(rest, [each.this.copy() for each in keys])
        return replace(self, plan=self.query(self._numbered(number, 1)))

    def first(self, count: int, skipped: int, *, with_ties: bool) -> _OrderedRows:
        """Return `count` rows after the `skipped` first ones."""
        if not count:
            return replace(self, plan=self.query(self.select(exp.Star()).where(exp.false())))
        first = self._numbered(_row_number(self.terms), count + skipped, with_ties=with_ties)
        if skipped:
            number = exp.column(_NUMBER, quoted=True)
            first = first.where(exp.GT(this=number, expression=exp.Literal.number(skipped)))
        return replace(self, plan=self.query(first))

    def after(self, skipped: int) -> _OrderedRows:
        """Return all rows but the first ones: no number bounds them, so they are the difference."""
        first = self.first(skipped, 0, with_ties=False)
        names = [exp.column(each.name, quoted=True) for each in self.plan.columns]
        both = replace(self.planner, ctes={**self.planner.ctes, _FIRST: first.plan})
        found = replace(self, planner=both)
        rest = exp.Except(
            this=self.select(*names),
            expression=exp.select(*names).from_(exp.Table(this=exp.to_identifier(_FIRST, quoted=True))),
            distinct=False,
        )
        return replace(self, plan=found.query(rest))

    def _numbered(self, number: exp.Window, count: int, *, with_ties: bool = False) -> exp.Select:
        """Return the query of the rows with the first numbers."""
        numbers = exp.alias_(number, _NUMBER, quoted=True)
        names = [
            exp.column(each.name, quoted=True) for each in self.plan.columns if each.name != _NUMBER
        ]
        ranked = self.select(*names, numbers).subquery(_ROWS)
        bound = exp.LTE(this=exp.column(_NUMBER, quoted=True), expression=exp.Literal.number(count))
        bound.meta[WITH_TIES] = with_ties
        return exp.select(exp.Star()).from_(ranked).where(bound, copy=False)


def _row_number(terms: Sequence[exp.Ordered], keys: Sequence[exp.Expr] = ()) -> exp.Window:
    # Without ORDER BY, any rows are the first ones.
    order = [each.copy() for each in terms] or [exp.Ordered(this=exp.true())]
    return exp.Window(
        this=exp.RowNumber(),
        partition_by=[*keys] or None,
        order=exp.Order(expressions=order),
        over="OVER",
    )


def _spelled(term: exp.Ordered) -> str:
    return str(term.this.sql("spark")).casefold()


def _distinct_keys(node: exp.Expr) -> list[exp.Expr]:
    """Return the expressions of DISTINCT ON."""
    clause = node.args.get("distinct")
    on = clause.args.get("on") if isinstance(clause, exp.Distinct) else None
    if on is None:
        return []
    return on.expressions if isinstance(on, exp.Tuple) else [on.unnest()]


def _with_ties(planner: Planner, limit: exp.Expr, order: exp.Expr | None) -> bool:
    options = limit.args.get("limit_options")
    if options is None or not options.args.get("with_ties"):
        return False
    if order is None:
        raise planner.sql.error(
            "WITH TIES needs ORDER BY", limit.expression, "write ROWS ONLY, or add ORDER BY"
        )
    return True


def _with_hidden(within: exp.Expr, terms: Sequence[exp.Ordered]) -> set[str]:
    """Add the expressions of ORDER BY that need columns, or aggregates, that SELECT leaves out. Return
    the names of these added columns."""
    hidden: set[str] = set()
    if not isinstance(within, exp.Select) or within.args.get("distinct") is not None:
        return hidden
    names = [name for each in within.expressions for name in names_of_item(each) or [each.name]]
    named = {name.casefold() for name in names}
    has_star = any(each.is_star for each in within.expressions)
    added: dict[str, str] = {}
    for each in terms:
        columns = [*each.find_all(exp.Column)]
        is_named = has_star or all(column.name.casefold() in named for column in columns)
        if each.find(exp.AggFunc) is None and is_named:
            continue
        name = added.setdefault(_spelled(each), f" order {len(added)}")
        if name not in hidden:
            hidden.add(name)
            within.append("expressions", with_alias(each.this, name))
        each.this.replace(exp.column(name, quoted=True))
    return hidden


def _number(planner: Planner, clause: exp.Expr) -> int:
    planner.sql.only(clause, ("expression", "limit_options"))
    number = clause.args["expression"]
    found = None
    if number.find(exp.Column, exp.Query) is None:
        value = Compiler(planner.sql, NameScope(planner.sql, ())).compile(number)
        found = pl.select(value.expr).item() if types.is_integer(value.type) else None
    if found is None or found < 0:
        raise planner.sql.error(
            f"{clause.key.upper()} takes a constant integer",
            clause,
            f"write {clause.key.upper()} 10",
        )
    return int(found)


def _all_columns(terms: list[exp.Ordered], names: Sequence[exp.Column]) -> list[exp.Ordered]:
    """Return the terms of ORDER BY ALL: the columns of the result, or the one that has this name."""
    if len(terms) != 1 or not isinstance(terms[0].this, exp.Var) or terms[0].name.casefold() != "all":
        return terms
    found = []
    for name in [each for each in names if each.name.casefold() == "all"] or names:
        term = terms[0].copy()
        term.set("this", name.copy())
        found.append(term)
    return found


def _of_result(planner: Planner, each: exp.Ordered, names: list[exp.Column]) -> None:
    """Replace columns of the result in ORDER BY, which are given by name (also with their table) or by
    position."""
    by = each.this
    if isinstance(by, exp.Literal) and not by.is_string:
        by.replace(names[planner.sql.place(by, len(names))].copy())
    for column in [*each.find_all(exp.Column)]:
        column.set("table", None)
