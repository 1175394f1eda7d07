"""ALTER TABLE and ALTER VIEW: other names, and other options of a connector."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from rheos.sql.connectors import WithOptions, with_options
from rheos.sql.materialized_views import MaterializedView
from rheos.sql.statement_parser import AlterTable
from rheos.sql.text import SqlText

if TYPE_CHECKING:
    from rheos.sql.catalog import DeclaredTable
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
            table = catalog.declared(name)
            if table is None or not isinstance(table.options, WithOptions):
                raise sql.error(
                    f"{name} has no options",
                    named,
                    "only a table with a connector has options",
                )
            written = catalog.written.get(name.casefold())
            changed = replace(table, options=_options(sql, node, table, table.options))
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
        listed = exp.Create(properties=exp.Properties(expressions=node.expressions))
        made = with_options(sql, listed, [*table.kinds], options)
        assert made is not None, "the table has options"
        return made
    kept = dict(options.options)
    for each in node.expressions:
        if kept.pop(each.name.lower(), None) is None:
            raise sql.unknown("option", each.name, each, kept, "the options are")
    return replace(options, options=kept)
