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
