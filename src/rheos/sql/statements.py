"""The statements of a script: CREATE, ALTER, DROP, INSERT INTO, SET, EXPLAIN, SHOW and DESCRIBE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from rheos.api.time_to_live import FOREVER
from rheos.core.connectors.contract import Sink
from rheos.core.connectors.sink_capabilities import CollectsRows
from rheos.core.errors import ProgramError
from rheos.core.graph.types import from_polars
from rheos.sql import types
from rheos.sql.alter_table import alter_table, hinted_table
from rheos.sql.catalog import DeclaredTable
from rheos.sql.change_statements import change_rows, check_not_null
from rheos.sql.connectors import with_options
from rheos.sql.create_function import create_function
from rheos.sql.create_model import create_model, drop_model
from rheos.sql.create_table import columns_of_query, create_table
from rheos.sql.expressions.table import Compiler
from rheos.sql.functions import resolved
from rheos.sql.inserted_rows import InsertedRows, known_rows, tables_read
from rheos.sql.materialized_views import materialized_view, split_key
from rheos.sql.model_parser import CreateModel, DropModel
from rheos.sql.option_hints import hinted_options
from rheos.sql.plan import Columns, PlanNode, SqlColumn, projected, renamed
from rheos.sql.ranking import check_result
from rheos.sql.scope import NameScope
from rheos.sql.set_statement import reset_setting, set_setting
from rheos.sql.show_statements import described, shown
from rheos.sql.statement_parser import (
    AlterTable,
    DescribeTable,
    Explain,
    RefusedStatement,
    Reset,
    ServerStatement,
    Show,
)
from rheos.sql.text import SqlText, as_sql
from rheos.sql.values import value_rows
from rheos.sql.view_watermarks import split_watermark, with_watermark

if TYPE_CHECKING:
    from rheos.api.time_to_live import TimeToLive
    from rheos.sql.lowering import Lowering
    from rheos.sql.session import SqlSession


_ROWS_THAT_STAY = (
    "group by a window, so that rows are append-only: FROM TABLE(TUMBLE(TABLE t, "
    "DESCRIPTOR(ts), INTERVAL '1' HOUR)) ... GROUP BY window_start, window_end; or write to a "
    "table with a key: of postgres, redis, opensearch, clickhouse, mongodb or cassandra, or of kafka "
    "with the option 'key'"
)


_STATEMENTS = (
    "the statements are CREATE and DROP of TABLE, VIEW, FUNCTION and MODEL, INSERT INTO, UPDATE, "
    "DELETE, SET, EXPLAIN, SHOW and DESCRIBE"
)
_OF_VIEWS = (exp.TemporaryProperty, exp.MaterializedProperty, exp.SchemaCommentProperty)
"""Clauses of CREATE VIEW without an effect on its rows. MATERIALIZED makes the rows readable."""


def _properties(node: exp.Create) -> Sequence[exp.Expr]:
    """Return the clauses of CREATE VIEW between its keywords."""
    properties = node.args.get("properties")
    return [] if properties is None else list(properties.expressions)


def _is_materialized(node: exp.Create) -> bool:
    return any(isinstance(each, exp.MaterializedProperty) for each in _properties(node))


def _changing(query: exp.Expr) -> exp.Expr:
    """Return the node that an error about updated rows points to: the GROUP BY of a query, if any."""
    return next(query.find_all(exp.Group), query)


def _items(query: exp.Expr, width: int) -> Sequence[exp.Expr | None]:
    """Return the nodes of a query's columns; None if they are not listed one by one."""
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    items = query.expressions
    if isinstance(query, exp.Values) and isinstance(items[0], exp.Tuple):
        items = items[0].expressions
    if len(items) != width or any(each.is_star for each in items):
        return [None] * width
    return list(items)


@dataclass(frozen=True, eq=False)
class Insert:
    """Rows to write to a table."""

    sql: SqlText
    node: exp.Expr
    table: DeclaredTable
    plan: PlanNode
    sink: Sink
    ttl: TimeToLive
    """Time to live of the state that folds changes by the key of the table."""

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.table.name

    def write(self, lowering: Lowering, plan: PlanNode) -> None:
        """Write the rows of the plan after pushdown. Raise ProgramError if they change and the sink
        only appends."""
        rows = lowering.by_key(plan, self.table, self.ttl)
        if isinstance(self.sink, CollectsRows):
            rows.collect(self.table.name)
            return
        try:
            rows.sink_to(self.sink, name=self.table.name)
        except ProgramError as error:
            if self.plan.changes is None:
                raise
            raise self.sql.error(error.what, _changing(self.node.expression), _ROWS_THAT_STAY) from None


@dataclass(frozen=True)
class ScriptStatements:
    """Execution of the statements of a string."""

    sql: SqlText
    session: SqlSession

    def run(self, node: exp.Expr) -> None:
        """Execute the statements. Raise ProgramError or SchemaError at the place in the SQL."""
        match node:
            case exp.Create():
                self._create(node)
            case exp.Drop():
                self._drop(node)
            case exp.Insert():
                self._insert(node)
            case exp.Update() | exp.Delete() | exp.TruncateTable():
                change_rows(self.sql, self.session, node)
            case AlterTable():
                alter_table(self.sql, self.session, node)
            case CreateModel():
                create_model(self.sql, self.session, node)
            case DropModel():
                drop_model(self.sql, self.session, node)
            case RefusedStatement():
                raise self.sql.error(node.this, node, node.args["hint"])
            case exp.Set():
                set_setting(self.sql, self.session, node)
            case Reset():
                reset_setting(self.session, node)
            case ServerStatement():
                plain = "tables have plain names, and packages are installed"
                note = node.args.get("note") or f"{node.this} has no effect: {plain}"
                self.session.note(self.sql, node, note)
            case Explain():
                self.session.say(self._explained(node.this))
            case Show():
                self.session.say(shown(self.sql, self.session.catalog, node))
            case DescribeTable():
                self.session.say(described(self.sql, self.session.catalog, node.this))
            case exp.Query():
                raise self.sql.error(
                    "the rows of this query are not used",
                    node,
                    "write INSERT INTO a table SELECT ..., or CREATE VIEW name AS SELECT ...; to print "
                    "its rows, run rheos sql < FILE",
                )
            case exp.DDL() | exp.DML() | exp.Command():
                raise self.sql.not_computed(node, _STATEMENTS)
            case _:
                raise self.sql.error("this is not a statement", node, _STATEMENTS)

    def _explained(self, node: exp.Expr) -> str:
        """Describe a query, or the query of INSERT and how its rows reach the table."""
        if not isinstance(node, exp.Insert):
            return self.session.explanation(self.sql, node)
        named = node.this.this if isinstance(node.this, exp.Schema) else node.this
        target = self.session.catalog.declared(named.name)
        return self.session.explanation(self.sql, node.expression, target)

    # --- CREATE and DROP ------------------------------------------------------------------------------

    def _create(self, node: exp.Create) -> None:
        kind, catalog = node.args.get("kind"), self.session.catalog
        if kind == "FUNCTION":
            create_function(self.sql, self.session, node)
            return
        if kind not in ("TABLE", "VIEW"):
            raise self.sql.not_computed(node, _STATEMENTS)
        parts = ("this", "kind", "properties", "expression", "replace", "exists")
        self.sql.only(node, parts, f" of CREATE {kind}")
        named = node.this.this if isinstance(node.this, exp.Schema) else node.this
        if not isinstance(named, exp.Table) or not isinstance(named.this, exp.Identifier):
            raise self.sql.not_computed(named)
        self.sql.only(named, ("this",), " of a table's name")
        name = named.name
        if catalog.knows(name):
            if node.args.get("exists"):
                return
            if not node.args.get("replace"):
                hint = "choose another name, or write CREATE OR REPLACE"
                raise self.sql.error(f"the table {name!r} already exists", named, hint)
        if kind == "VIEW":
            plan, key = self._view(node, name)
            self._forget(name)
            catalog.add(name, plan)
            if _is_materialized(node):
                view = materialized_view(self.sql, node, name, plan, key, self.session.ttl or FOREVER)
                self.session.writes.append(view)
        elif node.expression is not None:
            self._table_of_query(node, name)
        else:
            table = create_table(self.sql, self.session, node, name)
            catalog.remove(name)
            catalog.declare(table)
        catalog.written[name.casefold()] = self.sql.statement(node)

    def _view(self, node: exp.Create, name: str) -> tuple[PlanNode, exp.PrimaryKey | None]:
        """Return the rows of a view, and the key that the statement declares."""
        for each in _properties(node):
            if not isinstance(each, _OF_VIEWS):
                raise self.sql.not_computed(each)
        listed = node.this.expressions if isinstance(node.this, exp.Schema) else []
        columns, watermark = split_watermark(listed)
        columns, key = split_key(columns)
        if key is not None and not _is_materialized(node):
            raise self.sql.error(
                "only a materialized view has a PRIMARY KEY",
                key,
                f"write CREATE MATERIALIZED VIEW {name}, or leave out the key",
            )
        if node.expression is None:
            raise self.sql.error(
                "CREATE VIEW needs a query",
                node.this,
                f"write CREATE VIEW {name} AS SELECT ... FROM ...",
            )
        plan = self.session.planned(self.sql, node.expression)
        if columns and len(columns) != len(plan.columns):
            raise self.sql.error(
                f"the query has {len(plan.columns)} columns, but {len(columns)} names are listed",
                node.this,
                f"they are {', '.join(column.name for column in plan.columns)}",
            )
        if columns:
            plan = renamed(plan, tuple(each.name for each in columns))
        plan = plan if watermark is None else with_watermark(self.sql, plan, watermark)
        return plan, key

    def _table_of_query(self, node: exp.Create, name: str) -> None:
        """Create a table with the columns of a query, and insert its rows."""
        plan = self.session.planned(self.sql, node.expression)
        listed = node.this.expressions if isinstance(node.this, exp.Schema) else []
        key, plan = columns_of_query(self.sql, listed, plan)
        kinds = {column.name: column.type for column in plan.columns}
        schema = from_polars(pl.Schema(kinds))
        given = with_options(self.sql, node, [*kinds])
        options = given or self.session.rows_of_statements(name, schema, key)
        table = DeclaredTable(name, schema, kinds, None, key, options, self.sql)
        self.session.catalog.remove(name)
        self.session.catalog.declare(table)
        self._write(node, table, plan)

    def _drop(self, node: exp.Drop) -> None:
        catalog = self.session.catalog
        for each in node.args["tables"] if node.args.get("tables") else [node.this]:
            if node.args["kind"] == "FUNCTION":
                known = catalog.functions.pop(each.name.casefold(), None) is not None
            else:
                known = catalog.knows(each.name)
                self._forget(each.name)
            if not known and not node.args.get("exists"):
                kind, names = node.args["kind"].lower(), catalog.names.values()
                raise self.sql.unknown(kind, each.name, each, names, "the tables are")

    def _forget(self, name: str) -> None:
        """Forget a table or view. If it is a materialized view of this script, the job will not keep
        its rows."""
        self.session.catalog.remove(name)
        self.session.forget_view(name)

    # --- INSERT ---------------------------------------------------------------------------------------

    def _insert(self, node: exp.Insert) -> None:
        if node.args.get("overwrite"):
            raise self.sql.error(
                "INSERT OVERWRITE is not computed yet",
                node,
                "write INSERT INTO, and 'mode' = 'overwrite' in WITH of a table of files",
            )
        self.sql.only(node, ("this", "expression", "by_name"), " of INSERT")
        named = node.this.this if isinstance(node.this, exp.Schema) else node.this
        target = self.session.catalog.declared(named.name)
        if not named.name or node.expression is None:
            raise self.sql.error(
                "INSERT INTO needs a table and a query",
                node,
                "write INSERT INTO t SELECT ... FROM ...",
            )
        if target is None:
            known = self.session.catalog.declarations
            raise self.sql.unknown(
                "table", named.name, named, known, "the tables that can be written are"
            )
        if hinted_options(named):
            target = hinted_table(self.sql, self.session.catalog, named)
        plan = self._inserted_plan(node, named, target)
        names, fixed = self._written_columns(node, named, target, plan.columns)
        if len(plan.columns) != len(names):
            raise self.sql.error(
                f"the query has {len(plan.columns)} columns, but {target.name} takes {len(names)}",
                named,
                f"they are {', '.join(names)}",
            )
        plan = self._fitted(plan, target, names, fixed, node)
        self._write(node, target, plan)

    def _inserted_plan(self, node: exp.Insert, named: exp.Expr, target: DeclaredTable) -> PlanNode:
        """Return the plan of the rows. Literals of VALUES get the types of their columns."""
        if not isinstance(node.expression, exp.Values):
            return self.session.planned(self.sql, node.expression)
        resolved(node.expression, self.session.catalog.functions)
        names, _ = self._written_columns(node, named, target, ())
        return value_rows(self.sql, node.expression, [target.writable[name] for name in names])

    def _write(self, node: exp.Expr, target: DeclaredTable, plan: PlanNode) -> None:
        """Add the rows of a plan to those that the script writes. Raise ProgramError."""
        check_result(self.sql, plan)
        if isinstance(target.options, InsertedRows):
            self._add(node, target, target.options, plan)
            return
        sink = target.options.sink(target)
        ttl = self.session.ttl or FOREVER
        self.session.writes.append(Insert(self.sql, node, target, plan, sink, ttl))

    def _add(self, node: exp.Expr, target: DeclaredTable, rows: InsertedRows, plan: PlanNode) -> None:
        """Add the rows of a plan to a table without a connector. Raise ProgramError."""
        known = known_rows(plan)
        if known is not None:
            check_not_null(self.sql, target, known, node.expression)
            rows.insert(known)
        elif plan.changes is not None:
            raise self.sql.error(
                "the rows of this query are updated, so they cannot be inserted",
                _changing(node.expression),
                "write CREATE MATERIALIZED VIEW name AS SELECT ...",
            )
        elif rows in tables_read(plan):
            raise self.sql.error(
                f"{target.name} would read its own rows", node.expression, "insert into another table"
            )
        else:
            rows.queries.append(plan)
        self.session.rows_changed(rows)

    def _written_columns(
        self, node: exp.Insert, named: exp.Expr, target: DeclaredTable, columns: Columns
    ) -> tuple[list[str], dict[str, exp.Expr]]:
        """Return the columns of the table that the query's columns go to, in their order, and the
        values of PARTITION (column = value)."""
        fixed: dict[str, exp.Expr] = {}
        partition = named.args.get("partition")
        for each in [] if partition is None else partition.expressions:
            if not isinstance(each, exp.EQ):
                raise self.sql.error("PARTITION sets columns", each, "write PARTITION (day = '2026')")
            fixed[self._column_of(target, each.this)] = each.expression
        if node.args.get("by_name"):
            return [self._column_of(target, column.name, named) for column in columns], fixed
        if not isinstance(node.this, exp.Schema):
            return [name for name in target.writable if name not in fixed], fixed
        names: list[str] = []
        for each in node.this.expressions:
            name = self._column_of(target, each)
            if name in names:
                raise self.sql.error(f"{each.name!r} is listed twice", each, "remove one of them")
            names.append(name)
        return names, fixed

    def _column_of(
        self, target: DeclaredTable, written: exp.Expr | str, at: exp.Expr | None = None
    ) -> str:
        """Return the column of a table that a statement names."""
        name = written if isinstance(written, str) else written.name
        found = [each for each in target.writable if each.casefold() == name.casefold()]
        if not found:
            place = written if isinstance(written, exp.Expr) else at
            assert place is not None
            raise self.sql.unknown("column", name, place, target.writable, "the columns are")
        return found[0]

    def _default(self, target: DeclaredTable, name: str, kind: pl.DataType) -> pl.Expr:
        """Return the value of a column that INSERT INTO leaves out."""
        if name not in target.defaults:
            return pl.lit(None, dtype=kind)
        compiler = Compiler(target.sql, NameScope(target.sql, ()))
        value = compiler.assigned(target.defaults[name], kind)
        return compiler.cast(value, kind).expr

    def _fitted(
        self,
        plan: PlanNode,
        target: DeclaredTable,
        names: list[str],
        fixed: Mapping[str, exp.Expr],
        node: exp.Insert,
    ) -> PlanNode:
        """Return the rows with the columns of the table. Those of the query are assigned by position,
        `fixed` ones have one value."""
        by_name = dict(zip(names, plan.columns, strict=True))
        written = dict(zip(names, _items(node.expression, len(names)), strict=True))
        exprs, columns = [], []
        for name, kind in target.writable.items():
            given = by_name.get(name)
            if name in fixed:
                compiler = Compiler(self.sql, NameScope(self.sql, ()))
                exprs.append(compiler.cast(compiler.compile(fixed[name]), kind).expr)
            elif given is None:
                exprs.append(self._default(target, name, kind))
            elif not types.fits(given.type, kind):
                item = written[name]
                of = given.name if item is None else as_sql(item.unalias())
                raise self.sql.wrong_type(
                    f"{name!r} of {target.name} is {types.name(kind)}, but the query returns "
                    f"{types.name(given.type)}",
                    node.this if item is None else item,
                    f"write CAST({of} AS {types.name(kind)})",
                )
            else:
                cast = types.cast(pl.col(given.name), given.type, kind)
                assert cast is not None
                exprs.append(cast)
            columns.append(SqlColumn(name, kind))
        return projected(plan, tuple(exprs), tuple(columns))
