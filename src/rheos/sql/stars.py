"""Columns of * in SELECT: of all tables, of one table, and of a struct."""

from __future__ import annotations

import polars as pl
from sqlglot import exp

from rheos.sql.expressions.nested_values import field
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.grouping import GroupedColumns
from rheos.sql.plan import ColumnRole
from rheos.sql.scope import NameScope
from rheos.sql.text import SqlText

COUNTS_ROWS = "counts rows"
"""Key of the metadata of COUNT(t.*): whether it counts the rows of t, and not those without nulls."""

StarColumns = list[tuple[str, Typed, ColumnRole]]


def star_of(item: exp.Expr) -> exp.Star | None:
    """Return the star of a column of SELECT: of *, t.* and (struct).*; None for other columns."""
    star = item
    if isinstance(item, exp.Column):
        star = item.this
    elif isinstance(item, exp.Dot):
        star = item.expression
    return star if isinstance(star, exp.Star) else None


def columns_of_star(
    sql: SqlText, item: exp.Expr, sight: NameScope | GroupedColumns, compiler: Compiler
) -> StarColumns:
    """Return the columns of a star. Raise ProgramError or SchemaError."""
    if isinstance(item, exp.Dot):
        return _fields(compiler, item.this, item)
    if isinstance(item, exp.Column) and item.table:
        scope = sight if isinstance(sight, NameScope) else sight.scope
        aliases = {(each.alias or "").casefold() for each in scope.tables}
        struct = _struct_of(item)
        is_table = len(item.parts) == 2 and item.table.casefold() in aliases
        if not is_table and scope.reads(struct):
            return _fields(compiler, struct, item)
    table = item.table or None if isinstance(item, exp.Column) else None
    return [
        (each.name, Typed(pl.col(each.column.name), each.column.type, item), each.column.role)
        for each in sight.star(item, table)
    ]


def with_counted_columns(scope: NameScope, node: exp.Select) -> None:
    """Replace COUNT(t.*) by the count of the columns of t, which leaves out rows with a null; in
    PostgreSQL, rows of nulls alone."""
    for call in [each for item in node.expressions for each in item.find_all(exp.Count)]:
        of = call.this
        given = of.expressions if isinstance(of, exp.Distinct) else [of]
        if isinstance(of, exp.Star) or not any(each is not None and star_of(each) for each in given):
            continue
        columns = [made for each in given for made in _columns_within(scope, each)]
        if call.meta.get(COUNTS_ROWS):
            there = [exp.Not(this=exp.Is(this=each, expression=exp.Null())) for each in columns]
            columns = [exp.Case(ifs=[exp.If(this=exp.or_(*there), true=exp.true())])]
        if isinstance(of, exp.Distinct):
            of.set("expressions", columns)
        else:
            call.set("this", columns[0])
            call.set("expressions", columns[1:])


def _columns_within(scope: NameScope, node: exp.Expr) -> list[exp.Expr]:
    if star_of(node) is None or isinstance(node, exp.Dot):
        return [node.copy()]
    only = node.table or None if isinstance(node, exp.Column) else None
    shown = {id(each) for each in scope.star(node, only)}
    return [
        exp.column(each.name, table=table.alias, quoted=True)
        for table in scope.tables
        for each in table.columns
        if id(each) in shown
    ]


def _struct_of(item: exp.Column) -> exp.Column:
    """Return the column before the star."""
    *before, last = (part.copy() for part in item.parts[:-1])
    named = dict(zip(("table", "db", "catalog"), reversed(before), strict=False))
    column = exp.Column(this=last, **named)
    column.meta.update(item.meta)
    return column


def _fields(compiler: Compiler, node: exp.Expr, at: exp.Expr) -> StarColumns:
    value = compiler.compile(node)
    if not isinstance(value.type, pl.Struct):
        raise compiler.wrong_type(
            "* reads the fields of a STRUCT", value, "write t.* or column.*", at=at
        )
    return [
        (each.name, field(compiler, value, each.name, node), ColumnRole.PLAIN)
        for each in value.type.fields
    ]
