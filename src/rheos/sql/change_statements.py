"""UPDATE, DELETE and TRUNCATE: changes of tables without a connector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from rheos.core.graph.exact_decimals import exact_one
from rheos.sql import types
from rheos.sql.expressions.table import Compiler
from rheos.sql.inserted_rows import InsertedPlan, InsertedRows, computed
from rheos.sql.plan import SqlColumn
from rheos.sql.scope import NameScope, SqlRelation
from rheos.sql.text import SqlText, as_sql

if TYPE_CHECKING:
    from rheos.sql.catalog import DeclaredTable
    from rheos.sql.session import SqlSession


_PARTS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Update: ("this", "expressions", "where"),
    exp.Delete: ("this", "where"),
    exp.TruncateTable: ("expressions",),
}
"""By statement: the parts that are computed."""


def changed_tables(statements: Iterable[exp.Expr]) -> Iterator[str]:
    """Return the tables whose rows these statements update or delete, in lower case."""
    for each in statements:
        for node in _targets(each):
            yield node.name.casefold()


def _targets(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.TruncateTable):
        return list(node.expressions)
    return [node.this] if isinstance(node, exp.Update | exp.Delete) else []


def change_rows(
    sql: SqlText, session: SqlSession, node: exp.Update | exp.Delete | exp.TruncateTable
) -> None:
    """Execute the statement. Raise ProgramError or SchemaError at its place in the SQL."""
    for named in _targets(node):
        sql.only(node, _PARTS[type(node)], f" of {node.key.upper()}")
        table, rows = _table(sql, session, named, node)
        if isinstance(node, exp.TruncateTable):
            rows.delete(pl.repeat(True, len(rows.current), eager=True))
            session.rows_changed(rows)
            continue
        relation = SqlRelation.of(InsertedPlan.of(table, rows), named.alias_or_name)
        compiler = Compiler(sql, NameScope(sql, relation.tables))
        which = _chosen_rows(compiler, rows, node)
        if isinstance(node, exp.Delete):
            rows.delete(which)
        else:
            _update(compiler, table, rows, which, node.expressions)
        session.rows_changed(rows)


def _table(
    sql: SqlText, session: SqlSession, named: exp.Expr, node: exp.Expr
) -> tuple[DeclaredTable, InsertedRows]:
    """Return the table of a statement, and its rows."""
    what = node.key.upper() if not isinstance(node, exp.TruncateTable) else "TRUNCATE"
    table = session.catalog.declared(named.name)
    if table is None:
        known = session.catalog.declarations
        raise sql.unknown("table", named.name, named, known, "the tables of CREATE TABLE are")
    rows = table.options
    if not isinstance(rows, InsertedRows):
        raise sql.error(
            f"{what} changes tables without a connector, but {table.name} has the connector "
            f"{rows.name!r}",
            named,
            "change the rows in that system, or write changes to a table with a PRIMARY KEY",
        )
    if rows.queries:
        raise sql.error(
            f"{what} changes rows that the script contains, but {table.name} also has those of a query",
            named,
            "filter the rows in that query",
        )
    if rows.is_read and rows.changes is None:
        raise sql.error(
            f"queries already read {table.name} as append-only rows",
            named,
            "declare PRIMARY KEY (id) in CREATE TABLE, or change the rows before the queries",
        )
    rows.changing = True
    return table, rows


def _chosen_rows(compiler: Compiler, rows: InsertedRows, node: exp.Update | exp.Delete) -> pl.Series:
    """Return a mask of the rows that WHERE selects."""
    where = node.args.get("where")
    frame = rows.current
    if where is None:
        return pl.repeat(True, len(frame), eager=True)
    condition = compiler.condition(where.this, "WHERE").expr
    made = frame.with_columns(exact_one(condition, frame.lazy()).alias("which rows"))
    return made.to_series(-1).fill_null(False)


def _update(
    compiler: Compiler,
    table: DeclaredTable,
    rows: InsertedRows,
    which: pl.Series,
    items: Iterable[exp.Expr],
) -> None:
    kinds = table.writable
    names = {name.casefold(): name for name in kinds}
    values: dict[str, pl.Expr] = {name: pl.col(name) for name in kinds}
    for each in items:
        if not isinstance(each, exp.EQ) or not isinstance(each.this, exp.Column):
            raise compiler.sql.error("SET takes assignments", each, "write SET price = price + 1")
        name = names.get(each.this.name.casefold())
        if name is None:
            raise compiler.sql.unknown("column", each.this.name, each.this, kinds, "the columns are")
        values[name] = _assigned(compiler, each.expression, name, kinds[name])
    columns = tuple(SqlColumn(name, kind) for name, kind in kinds.items())
    after = computed(rows.current.filter(which), tuple(values.values()), columns)
    check_not_null(compiler.sql, table, after, next(iter(items)))
    rows.update(which, after)


def _assigned(compiler: Compiler, node: exp.Expr, name: str, to: pl.DataType) -> pl.Expr:
    """Return a value of SET as the type of its column. Numbers are converted."""
    value = compiler.assigned(node, to)
    numbers = types.is_number(value.type) and types.is_number(to)
    if not numbers and types.common(value.type, to) != to:
        raise compiler.sql.wrong_type(
            f"{name!r} is {types.name(to)}, but this is {types.name(value.type)}",
            node,
            f"write CAST({as_sql(node)} AS {types.name(to)})",
        )
    return compiler.cast(value, to).expr


def check_not_null(sql: SqlText, table: DeclaredTable, rows: pl.DataFrame, at: exp.Expr) -> None:
    """Raise ProgramError if a column that is NOT NULL, or part of the key, has a null."""
    for each in table.schema:
        if (not each.nullable or each.name in table.key) and rows[each.name].null_count():
            raise sql.error(
                f"{each.name!r} of {table.name} must not be null",
                at,
                "write a value, or leave out NOT NULL and PRIMARY KEY",
            )
