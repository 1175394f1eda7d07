"""SHOW TABLES and DESCRIBE, as strings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import exp

from rheos.sql import types
from rheos.sql.catalog import Catalog, DeclaredModel
from rheos.sql.create_model import unknown_model
from rheos.sql.explain import row_mode
from rheos.sql.expressions.table import function_names
from rheos.sql.inserted_rows import InsertedRows
from rheos.sql.plan import ColumnRole, Scan
from rheos.sql.statement_parser import Show
from rheos.sql.text import SqlText


def shown(sql: SqlText, catalog: Catalog, node: Show) -> str:
    """Return what SHOW asks for, as lines. Raise SchemaError if it names an unknown table."""
    like = node.args.get("like")
    match node.this:
        case "COLUMNS":
            return described(sql, catalog, node.args["of"], like)
        case "CREATE":
            return _created(sql, catalog, node.args["of"])
        case "FUNCTIONS":
            return "\n".join(_matching(sorted({*catalog.functions, *function_names()}), like))
        case "USER FUNCTIONS":
            return (
                "\n".join(_matching(sorted(catalog.functions), like)) or "no functions are registered"
            )
        case "MODELS":
            models = [each.model.name for each in catalog.models.values()]
            return "\n".join(_matching(models, like)) or "no models are registered"
        case "CREATE MODEL":
            return _model(sql, catalog, node.args["of"]).written or "Python has registered this model"
        case "MODEL COLUMNS":
            return _described_model(_model(sql, catalog, node.args["of"]))
        case "VIEWS":
            views = [each for each in catalog.names.values() if "view" in _kind(catalog, each)]
            return "\n".join(_matching(views, like)) or "no views are registered"
    return _tables(catalog, _matching([*catalog.names.values()], like))


def _matching(names: Sequence[str], like: exp.Expr | None) -> list[str]:
    """Return the names that LIKE, ILIKE or NOT LIKE selects."""
    if like is None:
        return [*names]
    condition = like.this if isinstance(like, exp.Not) else like
    characters = {"%": ".*", "_": "."}
    pattern = "".join(characters.get(each, re.escape(each)) for each in condition.expression.name)
    flags = re.IGNORECASE if isinstance(condition, exp.ILike) else 0
    return [
        each
        for each in names
        if (re.fullmatch(pattern, each, flags) is None) == isinstance(like, exp.Not)
    ]


def _model(sql: SqlText, catalog: Catalog, node: exp.Expr) -> DeclaredModel:
    found = catalog.models.get(node.name.casefold())
    if found is None:
        raise unknown_model(sql, catalog.models, node)
    return found


def _described_model(of: DeclaredModel) -> str:
    """Return a line for each input and output of a model: its name, type and role."""
    fields = [
        (each.name, types.name(types.of_arrow(each.type)), role)
        for role, schema in (("input", of.model.inputs), ("output", of.model.outputs))
        for each in schema
    ]
    width = max(len(name) for name, *_ in fields)
    return "\n".join(f"{name.ljust(width)}  {kind}, {role}" for name, kind, role in fields)


def _created(sql: SqlText, catalog: Catalog, node: exp.Expr) -> str:
    """Return the statement that has created a table."""
    written = catalog.written.get(node.name.casefold())
    if written is None:
        known = [catalog.names[name] for name in catalog.written]
        raise sql.unknown("table", node.name, node, known, "the tables that SQL has created are")
    return written


def _tables(catalog: Catalog, names: Sequence[str]) -> str:
    """Return a line for each of these tables: its name and kind."""
    width = max(map(len, names), default=0)
    lines = [f"{name.ljust(width)}  {_kind(catalog, name)}" for name in names]
    return "\n".join(lines) or "no tables are registered"


def _kind(catalog: Catalog, name: str) -> str:
    declared = catalog.declared(name)
    if declared is not None:
        if isinstance(declared.options, InsertedRows):
            return f"table, {row_mode(declared.options.changes)}"
        return f"table, connector {declared.options.name!r}"
    plan = catalog.tables.get(name.casefold())
    if plan is None:
        return "lookup"
    return f"{'stream' if isinstance(plan, Scan) else 'view'}, {row_mode(plan.changes)}"


def described(sql: SqlText, catalog: Catalog, node: exp.Expr, like: exp.Expr | None = None) -> str:
    """Return a line for each column of a table whose name matches: its name, type and role. Raise
    SchemaError."""
    if not catalog.knows(node.name):
        raise sql.unknown("table", node.name, node, catalog.names.values(), "the tables are")
    columns = [*_columns(catalog, node.name)]
    if like is not None:
        names = _matching([name for name, _ in columns], like)
        return "\n".join(f"{name}  {what}" for name, what in columns if name in names) or (
            "no column matches"
        )
    width = max((len(name) for name, _ in columns), default=0)
    return "\n".join(f"{name.ljust(width)}  {what}" for name, what in columns) or (
        "the columns of a lookup are known only when it is used"
    )


def _columns(catalog: Catalog, name: str) -> Iterator[tuple[str, str]]:
    declared = catalog.declared(name)
    if declared is not None:
        on = None if declared.watermark is None else declared.watermark.on
        not_null = {field.name for field in declared.schema if not field.nullable}
        for column, kind in declared.kinds.items():
            words = [types.name(kind)]
            words += ["NOT NULL"] if column in not_null else []
            words += ["computed"] if column in declared.computed else []
            words += ["metadata"] if column in declared.metadata else []
            words += ["event time"] if column == on else []
            words += ["key"] if column in declared.key else []
            yield column, ", ".join(words)
        return
    plan = catalog.tables.get(name.casefold())
    for each in () if plan is None else plan.columns:
        time = ", event time" if each.role == ColumnRole.EVENT_TIME else ""
        key = ", key" if plan is not None and plan.changes and each.name in plan.changes.key else ""
        yield each.name, f"{types.name(each.type)}{time}{key}"
