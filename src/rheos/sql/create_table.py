"""CREATE TABLE: columns, computed columns, metadata, keys, watermarks, LIKE and WITH."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
from sqlglot import exp

from rheos.core.graph.types import empty_frame, from_polars
from rheos.core.graph.watermark import Watermark
from rheos.sql import types
from rheos.sql.catalog import DeclaredTable
from rheos.sql.connectors import WithOptions, with_options
from rheos.sql.expressions.casts import named_type
from rheos.sql.expressions.intervals import interval_of
from rheos.sql.inserted_rows import InsertedRows
from rheos.sql.plan import PlanNode, SqlColumn, ValueRows, projected
from rheos.sql.statement_parser import MetadataColumn, WatermarkFor
from rheos.sql.text import SqlText

if TYPE_CHECKING:
    from rheos.sql.session import SqlSession

_NO_COLUMNS = "CREATE TABLE needs columns"
_EXAMPLE = "write CREATE TABLE t (id BIGINT, ...)"


@dataclass
class _Columns:
    """Columns and constraints of a table that is being declared."""

    sql: SqlText
    fields: dict[str, pa.Field] = field(default_factory=dict)
    """Columns that the connector reads or writes."""
    computed: dict[str, exp.Expr] = field(default_factory=dict)
    defaults: dict[str, exp.Expr] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    virtual: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=list)
    """Names of all columns."""
    key: tuple[str, ...] = ()
    watermark: WatermarkFor | None = None

    def add(self, node: exp.Expr) -> None:
        """Add a column or a constraint. Raise ProgramError or SchemaError."""
        match node:
            case exp.ColumnDef():
                self._column(node)
            case WatermarkFor():
                self.watermark = node
            case exp.PrimaryKey():
                self._keyed_by(node.expressions)
            case exp.Constraint():
                for each in node.expressions:
                    self.add(each)
            case exp.Identifier():
                raise self.sql.error("a column needs a type", node, f"write {node.name} BIGINT")
            case _:
                raise self.sql.not_computed(node)

    def _column(self, node: exp.ColumnDef) -> None:
        self.sql.only(node, ("this", "kind", "constraints"), " of a column")
        if any(node.name.casefold() == known.casefold() for known in self.order):
            raise self.sql.error(f"two columns are named {node.name!r}", node, "choose another name")
        self.order.append(node.name)
        nullable = True
        for each in node.args.get("constraints") or []:
            match each.kind:
                case exp.NotNullColumnConstraint(args=args):
                    nullable = nullable and bool(args.get("allow_null"))
                case exp.CommentColumnConstraint():
                    pass
                case exp.PrimaryKeyColumnConstraint():
                    self.key = (node.name,)
                case exp.DefaultColumnConstraint():
                    self.defaults[node.name] = each.kind.this
                case exp.ComputedColumnConstraint():
                    self.computed[node.name] = each.kind.this
                case MetadataColumn() as metadata:
                    self.metadata[node.name] = metadata.this.name if metadata.this else node.name
                    self.virtual |= {node.name} if metadata.args["virtual"] else set()
                case _:
                    raise self.sql.error(
                        "a column can only have NOT NULL, DEFAULT and PRIMARY KEY", node
                    )
        if node.name in self.computed:
            return
        if not isinstance(node.args.get("kind"), exp.DataType):
            raise self.sql.error("a column needs a type", node, "write id BIGINT")
        kind = named_type(self.sql, node.args["kind"])
        made = from_polars(pl.Schema({node.name: kind})).field(0)
        self.fields[node.name] = made.with_nullable(nullable and node.name not in self.key)

    def _keyed_by(self, parts: Iterable[exp.Expr]) -> None:
        key = []
        for part in parts:
            if part.name not in self.fields:
                raise self.sql.unknown(
                    "column", part.name, part, self.fields, "the earlier columns are"
                )
            key.append(part.name)
        self.key = tuple(key)

    def include(self, other: DeclaredTable, parts: set[str]) -> None:
        """Add the columns of another table, and those of its parts that LIKE includes."""
        of_source = {column for column in other.kinds if column not in other.computed}
        for name in other.kinds:
            if name in other.metadata and "METADATA" not in parts:
                continue
            if name in of_source:
                self.fields[name] = other.schema.field(name)
            elif "GENERATED" in parts:
                self.computed[name] = other.computed[name]
            else:
                continue
            self.order.append(name)
        self.metadata = {name: of for name, of in other.metadata.items() if name in self.order}
        self.virtual = {*other.virtual} & {*self.order}
        self.key = other.key if "CONSTRAINTS" in parts else ()
        self.defaults = {**other.defaults}


_PARTS = ("CONSTRAINTS", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS")
"""Parts of a table that LIKE includes by default."""


def create_table(sql: SqlText, session: SqlSession, node: exp.Create, name: str) -> DeclaredTable:
    """Return the table of CREATE TABLE. Raise ProgramError or SchemaError at its place in the SQL."""
    columns = _Columns(sql)
    base: WithOptions | None = None
    watermark: Watermark | None = None
    like = _like(node)
    if like is not None:
        other, parts = _copied(sql, session, like)
        columns.include(other, parts)
        of_other = other.options if "OPTIONS" in parts else None
        base = None if isinstance(of_other, InsertedRows) else of_other
        watermark = other.watermark if "WATERMARKS" in parts else None
    for each in node.this.expressions if isinstance(node.this, exp.Schema) else []:
        columns.add(each)
    if not columns.fields:
        raise sql.error(_NO_COLUMNS, node.this, _EXAMPLE)
    schema = pa.schema(list(columns.fields.values()))
    given = with_options(sql, node, columns.order, base)
    options = given or session.rows_of_statements(name, schema, columns.key)
    table = DeclaredTable(
        name=name,
        schema=schema,
        kinds={},
        watermark=None,
        key=columns.key,
        options=options,
        sql=sql,
        computed=columns.computed,
        defaults=columns.defaults,
        metadata=columns.metadata,
        virtual=frozenset(columns.virtual),
    )
    rows = with_computed(session, table, _no_rows(table), columns.order)
    kinds = {column.name: column.type for column in rows.columns}
    if columns.watermark is not None:
        watermark = watermark_of(sql, columns.watermark, kinds)
    return replace(table, kinds=kinds, watermark=watermark)


def columns_of_query(
    sql: SqlText, listed: Sequence[exp.Expr], plan: PlanNode
) -> tuple[tuple[str, ...], PlanNode]:
    """Return the key of CREATE TABLE t (...) AS SELECT, and the rows of the query with their columns in
    the order in which the names are listed. Raise ProgramError or SchemaError."""
    schema = from_polars(pl.Schema({column.name: column.type for column in plan.columns}))
    columns = _Columns(sql, {each.name: each for each in schema})
    names: list[str] = []
    for each in listed:
        if isinstance(each, exp.Identifier):
            if each.name not in columns.fields:
                raise sql.unknown("column", each.name, each, columns.fields, "the columns are")
            names.append(each.name)
        elif isinstance(each, exp.PrimaryKey | exp.Constraint):
            columns.add(each)
        else:
            raise sql.error(
                "CREATE TABLE AS takes the columns of its query",
                each,
                "name the columns in SELECT, or write CREATE TABLE and INSERT INTO",
            )
    if names and {*names} != {*columns.fields}:
        raise sql.error(
            "CREATE TABLE AS takes all columns of its query",
            listed[0],
            f"they are {', '.join(columns.fields)}",
        )
    if not names:
        return columns.key, plan
    given = {column.name: column for column in plan.columns}
    exprs = tuple(pl.col(name) for name in names)
    return columns.key, projected(plan, exprs, tuple(given[name] for name in names))


def plain_columns(sql: SqlText, listed: Sequence[exp.Expr], at: exp.Expr) -> pa.Schema:
    """Return columns that only have a name, a type and a comment. Raise ProgramError or SchemaError."""
    columns = _Columns(sql)
    for each in listed:
        columns.add(each)
    if columns.key or columns.watermark or columns.defaults or {*columns.order} != {*columns.fields}:
        raise sql.error("a column here has only a name and a type", at, "leave out the rest")
    return pa.schema(list(columns.fields.values()))


def _like(node: exp.Create) -> exp.LikeProperty | None:
    properties = node.args.get("properties")
    listed = properties.expressions if properties is not None else []
    return next((each for each in listed if isinstance(each, exp.LikeProperty)), None)


def _copied(
    sql: SqlText, session: SqlSession, like: exp.LikeProperty
) -> tuple[DeclaredTable, set[str]]:
    """Return the table that LIKE names, and the parts of it that are included."""
    other = session.catalog.declared(like.this.name)
    if other is None:
        known = session.catalog.declarations
        raise sql.unknown("table", like.this.name, like.this, known, "the tables of CREATE TABLE are")
    parts = {*_PARTS}
    for each in like.expressions:
        does, what = each.name.upper(), each.args["value"].name
        named = {*_PARTS} if what == "ALL" else {what}
        if not named <= {*_PARTS}:
            raise sql.error(f"LIKE cannot include {what}", like, f"write {', '.join(_PARTS)} or ALL")
        parts = parts - named if does == "EXCLUDING" else parts | named
    return other, parts


def _no_rows(table: DeclaredTable) -> ValueRows:
    kinds = empty_frame(table.schema).schema
    return ValueRows(
        table.schema.empty_table(), tuple(SqlColumn(name, kind) for name, kind in kinds.items())
    )


def with_computed(
    session: SqlSession, table: DeclaredTable, rows: PlanNode, order: Iterable[str]
) -> PlanNode:
    """Return the rows of the connector with the computed columns of the table, in `order`. Raise
    ProgramError or SchemaError."""
    if not table.computed:
        return rows
    source = f" rows of {table.name}"
    items = [
        exp.alias_(table.computed[name].copy(), name, quoted=True)
        if name in table.computed
        else exp.column(name, quoted=True)
        for name in order
    ]
    query = exp.select(*items).from_(exp.Table(this=exp.to_identifier(source, quoted=True)))
    return session.planned(table.sql, query, ctes={source.casefold(): rows})


def watermark_of(sql: SqlText, node: WatermarkFor, kinds: dict[str, pl.DataType]) -> Watermark:
    """Return the watermark for a column of these types. Raise ProgramError or SchemaError."""
    name = node.this.name
    if name not in kinds:
        raise sql.unknown("column", name, node.this, kinds, "the columns are")
    if not types.is_timestamp(kinds[name]):
        raise sql.wrong_type(
            f"a watermark needs a TIMESTAMP, but {name!r} is {types.name(kinds[name])}",
            node.this,
            "declare the column as TIMESTAMP(3)",
        )
    of, bound = node.expression, timedelta(0)
    if isinstance(of, exp.Sub) and isinstance(of.expression, exp.Interval):
        length = interval_of(sql, of.expression)
        if isinstance(length, timedelta):
            of, bound = of.this, length
    if not isinstance(of, exp.Column) or of.name != name:
        raise sql.error(
            "a watermark must be the time, or the time minus an interval",
            node.expression,
            f"write WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND",
        )
    return Watermark.bounded_out_of_orderness(bound, on=name)
