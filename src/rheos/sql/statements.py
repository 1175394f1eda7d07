"""CREATE TABLE, CREATE VIEW, CREATE FUNCTION, INSERT INTO and SET: the statements of a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
from sqlglot import exp

from rheos.api.joins import FOREVER
from rheos.core.connectors.contract import Sink
from rheos.core.connectors.sink_capabilities import CollectsRows
from rheos.core.errors import ProgramError
from rheos.core.graph.types import from_polars
from rheos.core.graph.windows import Watermark
from rheos.core.protocol.durations import duration_ms
from rheos.sql import types
from rheos.sql.catalog import DeclaredTable
from rheos.sql.connectors import with_options
from rheos.sql.create_function import create_function
from rheos.sql.dialect import DescribeTable, Explain, ShowTables, WatermarkFor
from rheos.sql.expressions.casts import named_type
from rheos.sql.expressions.literals import interval_of
from rheos.sql.plan import PlanNode, SqlColumn, projected, renamed
from rheos.sql.ranking import check_result
from rheos.sql.show_statements import described, tables_shown
from rheos.sql.text import SqlText

if TYPE_CHECKING:
    from rheos.api.streams import DataStream
    from rheos.sql.session import SqlSession


_ROWS_THAT_STAY = (
    "group by a window, so that rows are append-only: FROM TABLE(TUMBLE(TABLE t, "
    "DESCRIPTOR(ts), INTERVAL '1' HOUR)) ... GROUP BY window_start, window_end; or write to a "
    "table with a key: of postgres, redis, opensearch or cassandra, or of kafka with the "
    "option 'key'"
)


_STATEMENTS = (
    "the statements are CREATE TABLE, CREATE VIEW, CREATE FUNCTION, INSERT INTO, SET, EXPLAIN, "
    "SHOW TABLES and DESCRIBE"
)


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
    node: exp.Insert
    table: str
    plan: PlanNode
    sink: Sink

    def write(self, rows: DataStream) -> None:
        """Write the rows. Raise ProgramError if they change and the sink only appends."""
        if isinstance(self.sink, CollectsRows):
            rows.collect(self.table)
            return
        try:
            rows.sink_to(self.sink, name=self.table)
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
            case exp.Create() if node.args.get("kind") == "TABLE":
                self._table(node)
            case exp.Create() if node.args.get("kind") == "VIEW":
                self._view(node)
            case exp.Create() if node.args.get("kind") == "FUNCTION":
                create_function(self.sql, self.session, node)
            case exp.Insert():
                self._insert(node)
            case exp.Set():
                self._set(node)
            case Explain():
                self.session.say(self.session.explanation(self.sql, node.this))
            case ShowTables():
                self.session.say(tables_shown(self.session.catalog))
            case DescribeTable():
                self.session.say(described(self.sql, self.session.catalog, node.this))
            case exp.Query():
                raise self.sql.error(
                    "the rows of this query are not used",
                    node,
                    "write INSERT INTO a table SELECT ..., or CREATE VIEW name AS SELECT ...",
                )
            case exp.DDL() | exp.DML() | exp.Drop() | exp.Command():
                raise self.sql.not_computed(node, _STATEMENTS)
            case _:
                raise self.sql.error("this is not a statement", node, _STATEMENTS)

    def _name(self, node: exp.Expr) -> str:
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise self.sql.not_computed(node)
        self.sql.only(node, ("this",), " of a table's name")
        if self.session.catalog.knows(node.name):
            raise self.sql.error(f"the table {node.name!r} already exists", node, "choose another name")
        return node.name

    def _view(self, node: exp.Create) -> None:
        self.sql.only(node, ("this", "kind", "expression", "properties"), " of CREATE VIEW")
        for each in node.args["properties"].expressions if node.args.get("properties") else []:
            if not isinstance(each, exp.TemporaryProperty):
                raise self.sql.not_computed(each)
        named = node.this
        columns = named.expressions if isinstance(named, exp.Schema) else []
        name = self._name(named.this if isinstance(named, exp.Schema) else named)
        if node.expression is None:
            raise self.sql.error(
                "CREATE VIEW needs a query", named, f"write CREATE VIEW {name} AS SELECT ... FROM ..."
            )
        plan = self.session.planned(self.sql, node.expression)
        if columns:
            if len(columns) != len(plan.columns):
                raise self.sql.error(
                    f"the query has {len(plan.columns)} columns, but {len(columns)} names are listed",
                    named,
                    f"they are {', '.join(column.name for column in plan.columns)}",
                )
            plan = renamed(plan, tuple(each.name for each in columns))
        self.session.catalog.add(name, plan)

    # --- tables ---------------------------------------------------------------------------------------

    def _table(self, node: exp.Create) -> None:
        self.sql.only(node, ("this", "kind", "properties"), " of CREATE TABLE")
        if not isinstance(node.this, exp.Schema):
            raise self.sql.error(
                "CREATE TABLE needs columns", node.this, "write CREATE TABLE t (id BIGINT, ...)"
            )
        name = self._name(node.this.this)
        kinds: dict[str, pl.DataType] = {}
        fields: list[pa.Field] = []
        watermark: Watermark | None = None
        key: tuple[str, ...] = ()
        for each in node.this.expressions:
            match each:
                case exp.ColumnDef():
                    kind, nullable = self._column(each)
                    if any(each.name.casefold() == known.casefold() for known in kinds):
                        raise self.sql.error(
                            f"two columns are named {each.name!r}", each, "choose another name"
                        )
                    kinds[each.name] = kind
                    made = from_polars(pl.Schema({each.name: kind})).field(0)
                    fields.append(made.with_nullable(nullable))
                case WatermarkFor():
                    watermark = self._watermark(each, kinds)
                case exp.PrimaryKey():
                    for part in each.expressions:
                        if part.name not in kinds:
                            raise self.sql.unknown(
                                "column", part.name, part, kinds, "the earlier columns are"
                            )
                    key = tuple(part.name for part in each.expressions)
                case exp.Identifier():
                    raise self.sql.error("a column needs a type", each, f"write {each.name} BIGINT")
                case _:
                    raise self.sql.not_computed(each)
        if not kinds:
            raise self.sql.error(
                "CREATE TABLE needs columns", node.this, "write CREATE TABLE t (id BIGINT, ...)"
            )
        options = with_options(self.sql, node)
        self.session.catalog.declare(
            DeclaredTable(name, pa.schema(fields), kinds, watermark, key, options, self.sql)
        )

    def _column(self, node: exp.ColumnDef) -> tuple[pl.DataType, bool]:
        self.sql.only(node, ("this", "kind", "constraints"), " of a column")
        nullable = True
        for constraint in node.args.get("constraints") or []:
            match constraint.kind:
                case exp.NotNullColumnConstraint(args=args) if not args.get("allow_null"):
                    nullable = False
                case exp.CommentColumnConstraint():
                    pass
                case _:
                    raise self.sql.error("the only constraint of a column is NOT NULL", node)
        if not isinstance(node.args.get("kind"), exp.DataType):
            raise self.sql.error("a column needs a type", node, "write id BIGINT")
        return named_type(self.sql, node.args["kind"]), nullable

    def _watermark(self, node: WatermarkFor, kinds: dict[str, pl.DataType]) -> Watermark:
        name = node.this.name
        if name not in kinds:
            raise self.sql.unknown("column", name, node.this, kinds, "the earlier columns are")
        if not types.is_timestamp(kinds[name]):
            raise self.sql.wrong_type(
                f"a watermark needs a TIMESTAMP, but {name!r} is {types.name(kinds[name])}",
                node.this,
                "declare the column as TIMESTAMP(3)",
            )
        of, bound = node.expression, timedelta(0)
        if isinstance(of, exp.Sub) and isinstance(of.expression, exp.Interval):
            length = interval_of(self.sql, of.expression)
            if isinstance(length, timedelta):
                of, bound = of.this, length
        if not isinstance(of, exp.Column) or of.name != name:
            raise self.sql.error(
                "a watermark must be the time, or the time minus an interval",
                node.expression,
                f"write WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND",
            )
        return Watermark.bounded_out_of_orderness(bound, on=name)

    # --- INSERT ---------------------------------------------------------------------------------------

    def _insert(self, node: exp.Insert) -> None:
        self.sql.only(node, ("this", "expression"), " of INSERT")
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
        names = [*target.kinds]
        if isinstance(node.this, exp.Schema):
            names = [each.name for each in node.this.expressions]
            for place, each in enumerate(node.this.expressions):
                if each.name not in target.kinds:
                    raise self.sql.unknown("column", each.name, each, target.kinds, "the columns are")
                if each.name in names[:place]:
                    raise self.sql.error(f"{each.name!r} is listed twice", each, "remove one of them")
        plan = self.session.planned(self.sql, node.expression)
        if len(plan.columns) != len(names):
            raise self.sql.error(
                f"the query has {len(plan.columns)} columns, but {target.name} takes {len(names)}",
                named,
                f"they are {', '.join(names)}",
            )
        plan = self._fitted(plan, target, names, node)
        if target.key and (plan.changes is None or plan.changes.key != target.key):
            found = "none" if plan.changes is None else ", ".join(plan.changes.key) or "none"
            raise self.sql.error(
                f"the key of the table is {', '.join(target.key)}, but the key of the rows is {found}",
                named,
                "group by the columns of the table's key",
            )
        check_result(self.sql, plan)
        sink = target.options.sink(self.sql)
        self.session.inserts.append(Insert(self.sql, node, target.name, plan, sink))

    def _fitted(
        self, plan: PlanNode, target: DeclaredTable, names: list[str], node: exp.Insert
    ) -> PlanNode:
        """Return the rows with the columns of the table, assigned by position."""
        by_name = dict(zip(names, plan.columns, strict=True))
        written = dict(zip(names, _items(node.expression, len(names)), strict=True))
        exprs, columns = [], []
        for name, kind in target.kinds.items():
            given = by_name.get(name)
            if given is None:
                exprs.append(pl.lit(None, dtype=kind))
            elif given.type != kind and types.common(given.type, kind) != kind:
                item = written[name]
                of = given.name if item is None else item.unalias().sql("spark")
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

    # --- SET ------------------------------------------------------------------------------------------

    def _set(self, node: exp.Set) -> None:
        if not node.expressions:
            raise self.sql.error("SET needs a name and a value", node, "write SET state_ttl = '7d'")
        for item in node.expressions:
            pair = item.this
            name = pair.this.name if isinstance(pair, exp.EQ) else ""
            if name != "state_ttl" or not isinstance(pair.expression, exp.Literal):
                raise self.sql.error(
                    f"{name or item.sql('spark')!r} is not a setting of a query",
                    item,
                    "the only one is SET state_ttl = '7d'; pass settings of the job to rheos run",
                )
            said = pair.expression.name
            try:
                if said != FOREVER:
                    duration_ms(said)
            except ProgramError as error:
                raise self.sql.error(error.what, pair.expression, "write '7d', or 'forever'") from None
            self.session.ttl = said
