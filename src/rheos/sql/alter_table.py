"""ALTER TABLE and ALTER VIEW: other names, and other options of a connector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from rheos.sql.connectors import WithOptions, with_options
from rheos.sql.materialized_views import MaterializedView
from rheos.sql.option_hints import hinted_options
from rheos.sql.statement_parser import AlterTable
from rheos.sql.text import SqlText

if TYPE_CHECKING:
    from rheos.sql.catalog import Catalog, DeclaredTable
    from rheos.sql.session import SqlSession


def alter_table(sql: SqlText, session: SqlSession, node: AlterTable) -> None:
    """Execute ALTER TABLE or ALTER VIEW, which affects later statements. Raise ProgramError."""
    catalog, named, change = session.catalog, node.this, node.args["change"]
    name = named.name
    if not catalog.knows(name):
        if node.args.get("exists"):
            return
        kind = node.args["kind"].lower()
        raise sql.unknown(kind, name, named, catalog.names.values(), "the tables are")
    match change.name:
        case "RENAME":
            _rename(sql, session, node)
            name = node.expressions[0].name
        case "SET" | "RESET":
            table, options = with_connector(sql, catalog, named)
            written = catalog.written.get(name.casefold())
            changed = replace(table, options=_options(sql, node, table, options))
            catalog.remove(name)
            catalog.declare(changed)
            if written is not None:
                catalog.written[name.casefold()] = written
        case _:
            raise sql.error(
                "ALTER changes the name or the options of a table, not its columns",
                change,
                "change CREATE TABLE, or write CREATE OR REPLACE TABLE",
            )
    if (text := catalog.written.get(name.casefold())) is not None:
        catalog.written[name.casefold()] = f"{text};\n{sql.statement(node)}"


def with_connector(
    sql: SqlText, catalog: Catalog, named: exp.Expr
) -> tuple[DeclaredTable, WithOptions]:
    """Return a table whose options a statement changes, and the options. Raise ProgramError."""
    table = catalog.declared(named.name)
    if table is None or not isinstance(table.options, WithOptions):
        raise sql.error(
            f"{named.name} has no options", named, "only a table with a connector has options"
        )
    return table, table.options


def changed_options(
    sql: SqlText, listed: Sequence[exp.Expr], table: DeclaredTable, options: WithOptions
) -> WithOptions:
    """Return the options of a table with the listed ones. Raise ProgramError."""
    node = exp.Create(properties=exp.Properties(expressions=[each.copy() for each in listed]))
    made = with_options(sql, node, [*table.kinds], options)
    assert made is not None, "the table has options"
    return made


def hinted_table(sql: SqlText, catalog: Catalog, node: exp.Expr) -> DeclaredTable:
    """Return a table with the options of the hint after its name. Raise ProgramError."""
    table, options = with_connector(sql, catalog, node)
    options = changed_options(sql, hinted_options(node), table, options)
    # Errors of the options are at their places in this statement.
    return replace(table, options=options, sql=sql)


def _rename(sql: SqlText, session: SqlSession, node: AlterTable) -> None:
    catalog, [new] = session.catalog, node.expressions
    name = node.this.name
    if catalog.knows(new.name) and new.name.casefold() != name.casefold():
        raise sql.error(f"the table {new.name!r} already exists", new, "choose another name")
    table = catalog.declared(name)
    is_kept = any(isinstance(each, MaterializedView) and each.name == name for each in session.writes)
    has_rows = table is not None and not isinstance(table.options, WithOptions)
    if is_kept or has_rows or name.casefold() in catalog.lookups:
        raise sql.error(
            "only tables with a connector and views can be renamed",
            node.this,
            "create it with the other name",
        )
    catalog.rename(name, new.name)


def _options(sql: SqlText, node: AlterTable, table: DeclaredTable, options: WithOptions) -> WithOptions:
    """Return the options of a connector after SET or RESET."""
    if node.args["change"].name == "SET":
        return changed_options(sql, node.expressions, table, options)
    kept = dict(options.options)
    for each in node.expressions:
        if kept.pop(each.name.lower(), None) is None:
            raise sql.unknown("option", each.name, each, kept, "the options are")
    return replace(options, options=kept)
