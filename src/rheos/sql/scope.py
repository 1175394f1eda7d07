"""Resolution of column names in a query: the visible tables, and their columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import polars as pl
from sqlglot import exp

from rheos.core.errors import ProgramError
from rheos.sql import types
from rheos.sql.clause_names import DATABASES
from rheos.sql.expressions.nested_values import field
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.plan import ColumnRole, PlanNode, SqlColumn
from rheos.sql.text import SqlText, as_sql


@dataclass(frozen=True)
class Named:
    """A column, by its name in the query."""

    name: str
    column: SqlColumn
    qualified: bool = False
    """Whether it is found only with the name of its table: a join by USING has one column for both."""


@dataclass(frozen=True)
class TableInSight:
    """A visible table."""

    alias: str | None
    columns: tuple[Named, ...]
    hidden: bool = False
    """Whether the table was computed for the query alone, so that * excludes it."""


def with_columns(
    tables: Iterable[TableInSight], columns: Mapping[str, SqlColumn]
) -> tuple[TableInSight, ...]:
    """Return the tables with their current columns in place of those of the same names."""
    return tuple(
        replace(
            table,
            columns=tuple(
                replace(of, column=columns[of.column.name])
                for of in table.columns
                if of.column.name in columns
            ),
        )
        for table in tables
    )


@dataclass(frozen=True)
class SqlRelation:
    """A plan, and the names of its columns."""

    plan: PlanNode
    tables: tuple[TableInSight, ...]

    @staticmethod
    def of(plan: PlanNode, alias: str | None) -> SqlRelation:
        named = tuple(Named(column.name, column) for column in plan.columns)
        return SqlRelation(plan, (TableInSight(alias, named),))


@dataclass(frozen=True)
class NameScope:
    """The tables in the scope of an expression."""

    sql: SqlText
    tables: tuple[TableInSight, ...]

    def column(self, node: exp.Column) -> Typed:
        """Return the column of a node. Raise SchemaError if it does not exist or is ambiguous."""
        found, rest = self.column_and_fields(node)
        if found.column.role is ColumnRole.PROCESSING_TIME and not isinstance(
            node.parent, exp.Select | exp.Alias
        ):
            raise self.sql.error(
                f"{found.name} is the processing time, which has no fixed value",
                node,
                f"use it in a window: TABLE(TUMBLE(TABLE t, DESCRIPTOR({found.name}), INTERVAL "
                "'10' SECONDS))",
            )
        if found.column.type == types.NULL:
            return Typed(pl.lit(None), types.NULL, node)
        typed = Typed(pl.col(found.column.name), found.column.type, node)
        for name in rest:
            if not isinstance(typed.type, pl.Struct):
                raise self._unknown(node)
            typed = field(Compiler(self.sql, self), typed, name, node)
        return typed

    def find(self, node: exp.Column) -> Named | None:
        """Return the column of a name; None if it does not exist."""
        try:
            return self.named(node)
        except ProgramError:
            return None

    def reads(self, node: exp.Column) -> bool:
        """Return whether a node names a column or a field of one."""
        try:
            found, rest = self.column_and_fields(node)
        except ProgramError:
            return False
        return not rest or isinstance(found.column.type, pl.Struct)

    def named(self, node: exp.Column) -> Named | None:
        """Return the column that a node names; None if it is a field of a struct or does not exist."""
        found, rest = self.column_and_fields(node)
        return None if rest else found

    def column_and_fields(self, node: exp.Column) -> tuple[Named, list[str]]:
        """Return the column, and the names of the struct fields that are read from it. Raise
        SchemaError."""
        self.sql.only(node, ("this", "table", "db", "catalog"))
        if isinstance(node.this, exp.Star):
            raise Compiler(self.sql, self).refused(node.this)
        parts = [part.name for part in node.parts]
        while len(parts) > 2 and parts[0].casefold() in DATABASES:
            del parts[0]
        if len(parts) > 1 and (tables := [each for each in self.tables if _same(each.alias, parts[0])]):
            columns = [each for table in tables for each in table.columns]
            return self._single_column(node, parts[1], columns), parts[2:]
        columns = [each for table in self.tables for each in table.columns if not each.qualified]
        if len(parts) > 1 and not any(_same(each.name, parts[0]) for each in columns):
            known = [table.alias for table in self.tables if table.alias is not None]
            raise self.sql.unknown("table", parts[0], node, known, "the tables here are")
        return self._single_column(node, parts[0], columns), parts[1:]

    def _single_column(self, node: exp.Column, name: str, columns: Iterable[Named]) -> Named:
        columns = [*columns]
        found = [each for each in columns if each.name == name]
        found = found or [each for each in columns if _same(each.name, name)]
        if len(found) > 1:
            of = [table.alias for table in self.tables if {*table.columns} & {*found} and table.alias]
            wanted = " or ".join(f"{alias}.{name}" for alias in dict.fromkeys(of))
            raise self.sql.error(
                f"{name!r} is ambiguous: it matches {len(found)} columns",
                node,
                f"write {wanted or 'the table before it'}",
            )
        if not found:
            hidden = {each for table in self.tables if table.hidden for each in table.columns}
            if not node.table and _is_alias(node, name):
                raise self.sql.error(
                    f"{name!r} is a column that this SELECT creates, so it cannot be read here",
                    node,
                    f"repeat its expression, or read it in a query around this one: "
                    f"SELECT ... FROM (SELECT ... AS {name} FROM ...) WHERE {name} > 3",
                )
            known = list(dict.fromkeys(each.name for each in columns if each not in hidden))
            raise self.sql.unknown("column", name, node, known, "the columns here are")
        return found[0]

    def _unknown(self, node: exp.Column) -> Exception:
        return self.sql.error(f"{as_sql(node)} is not a column", node)

    def star(self, node: exp.Expr, table: str | None) -> Iterator[Named]:
        """Return all columns, or those of a table."""
        if table is None:
            for each in self.tables:
                if not each.hidden:
                    yield from (column for column in each.columns if not column.qualified)
            return
        found = [each for each in self.tables if _same(each.alias, table)]
        if not found:
            known = [each.alias for each in self.tables if each.alias is not None]
            raise self.sql.unknown("table", table, node, known, "the tables here are")
        for each in found:
            yield from each.columns


def _same(one: str | None, other: str) -> bool:
    return one is not None and one.casefold() == other.casefold()


def _is_alias(node: exp.Column, name: str) -> bool:
    """Return whether the query that contains a column defines an alias with that name."""
    select = node.find_ancestor(exp.Select)
    items = [] if select is None else select.expressions
    return any(isinstance(item, exp.Alias) and _same(item.alias, name) for item in items)
