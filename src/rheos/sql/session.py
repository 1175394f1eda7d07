"""SQL state of an environment: its tables, and the streams of its queries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rheos.api.function_typing import declared_type
from rheos.api.time_to_live import FOREVER
from rheos.core.connectors.lookup import Lookup
from rheos.core.errors import ConfigurationError, ProgramError

try:
    from sqlglot import exp
except ImportError:
    raise ConfigurationError("SQL needs the package sqlglot", hint="pip install 'rheos[sql]'") from None

from rheos.core.graph.changelog import OP, Changes
from rheos.core.models.column_models import ColumnModel
from rheos.core.site import call_site, done_for, located
from rheos.sql.catalog import Catalog, DeclaredModel, DeclaredTable, scan
from rheos.sql.change_statements import changed_tables
from rheos.sql.connectors import WithOptions
from rheos.sql.create_table import with_computed
from rheos.sql.dialect import parse
from rheos.sql.dialect_meanings import CHANGED
from rheos.sql.explain import explained
from rheos.sql.functions import called, resolved
from rheos.sql.inserted_rows import InsertedPlan, InsertedRows
from rheos.sql.lineage import origins_of
from rheos.sql.lowering import Lowering
from rheos.sql.materialized_views import MaterializedView
from rheos.sql.nullable_keys import with_changes
from rheos.sql.plan import EventTimePlan, PlanNode
from rheos.sql.plan_pushdown import pushed
from rheos.sql.query import Planner
from rheos.sql.ranking import check_result, numbered
from rheos.sql.statements import Insert, ScriptStatements
from rheos.sql.text import SourceDialect, SqlText, dialect_of

if TYPE_CHECKING:
    from rheos.api.environment import Environment
    from rheos.api.streams import DataStream
    from rheos.api.time_to_live import TimeToLive

_NAME = re.compile(r"[^\W\d]\w*")


class SqlSession:
    """The SQL state of one environment."""

    def __init__(
        self, env: Environment, explain: Callable[[Callable[[], DataStream], str], str]
    ) -> None:
        """Create the state of an environment. `explain` describes how the stream that its argument
        creates would run, after a logical plan."""
        self._env = env
        self._explain = explain
        self.catalog = Catalog(read=self._read)
        self.lowering = Lowering(env)
        self.ttl: TimeToLive | None = None
        """Time to live of state that a script has set."""
        self.dialect = SourceDialect.SPARK
        """System whose meaning queries have."""
        self.sorts = False
        """Whether ORDER BY adds the column `ORDER` to a result, by which its reader sorts the rows."""
        self.changing: set[str] = set()
        """Tables whose rows the statements update or delete, in lower case."""
        self.say: Callable[[str], None] = print
        """Function that EXPLAIN, SHOW TABLES and DESCRIBE print with."""
        self.writes: list[Insert | MaterializedView] = []
        """Statements whose rows the job writes or keeps: INSERT INTO and CREATE MATERIALIZED VIEW."""
        self._results = 0
        """Number of queries without a name of their own."""
        self._lowered = 0
        """Number of them that are already part of the program."""

    def note(self, sql: SqlText, at: exp.Expr, text: str) -> None:
        """Report a part of a statement that Rheos ignores because it does not change results."""
        self.say(f"note: {sql.placed(text, at)}")

    @property
    def written(self) -> list[tuple[str, PlanNode]]:
        """Return the tables that INSERT INTO writes and the materialized views, with their plans."""
        return [(each.name, each.plan) for each in self.writes]

    def origins(self) -> Mapping[str, Mapping[str, Sequence[tuple[str, str]]]]:
        """Return the source columns of the columns that are written, by table and column."""
        return origins_of(self.written)

    def forget_view(self, name: str) -> None:
        """Forget a materialized view that is not yet part of the program."""
        done, new = self.writes[: self._lowered], self.writes[self._lowered :]
        folded = name.casefold()
        self.writes = done + [
            each
            for each in new
            if not (isinstance(each, MaterializedView) and each.name.casefold() == folded)
        ]

    def register(self, name: Any, table: DataStream | Lookup) -> None:
        """Make a stream or a lookup known to queries. Raise ProgramError."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ProgramError(
                f"the name of a table must be a single word, not {name!r}",
                hint='write env.register("bids", bids)',
            )
        if self.catalog.knows(name):
            raise ProgramError(
                f"the table {name!r} already exists", hint="register the stream with another name"
            )
        if isinstance(table, Lookup):
            self.catalog.add_lookup(name, table)
        else:
            self.catalog.add(name, scan(name, table))

    def register_function(self, name: Any, fn: Any, returns: Any = None) -> None:
        """Make a Python function known to queries. Raise ProgramError or SchemaError."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ProgramError(
                f"the name of a function must be a single word, not {name!r}",
                hint='write env.register_function("dollars", dollars)',
            )
        if name.casefold() in self.catalog.functions:
            raise ProgramError(
                f"the function {name!r} already exists", hint="register it with another name"
            )
        self.catalog.functions[name.casefold()] = called(name, fn, returns)

    def register_model(
        self, name: Any, predictor: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> None:
        """Make a model known to queries. Raise ProgramError or SchemaError."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ProgramError(
                f"the name of a model must be a single word, not {name!r}",
                hint='write env.register_model("minutes", ...)',
            )
        if name.casefold() in self.catalog.models:
            raise ProgramError(
                f"the model {name!r} already exists", hint="register it with another name"
            )
        takes, returns = (declared_type(dict(each)).schema for each in (inputs, outputs))
        model = ColumnModel(name, predictor, takes, returns)
        model.check()
        self.catalog.models[name.casefold()] = DeclaredModel(model, "python")

    def prepare(self, statements: Iterable[exp.Expr]) -> None:
        """Note what later statements of a script decide about earlier ones: which tables change."""
        self.changing.update(changed_tables(statements))

    def rows_of_statements(self, name: str, schema: pa.Schema, key: tuple[str, ...]) -> InsertedRows:
        """Return the rows, so far none, of a table without a connector."""
        return InsertedRows(schema, key, name.casefold() in self.changing)

    def rows_changed(self, rows: InsertedRows) -> None:
        """Make later queries read the rows of a table as they are now."""
        if rows.is_lowered:
            rows.is_lowered = False
            self.lowering = self.lowering.renewed()

    def _read(self, table: DeclaredTable) -> PlanNode:
        """Return the rows of a declared table."""
        timed = table.watermark is not None and table.watermark.on in table.schema.names
        if isinstance(table.options, InsertedRows):
            table.options.is_read = True
            plan: PlanNode = InsertedPlan.of(table, table.options)
        else:
            plan = self._of_connector(table, table.options, timed=timed)
        plan = with_computed(self, table, plan, table.kinds)
        if table.watermark is not None and not timed:
            plan = EventTimePlan.of(plan, table.watermark)
        return plan

    def _of_connector(self, table: DeclaredTable, options: WithOptions, *, timed: bool) -> PlanNode:
        """Return the rows that a connector reads."""
        source = options.source(table)
        stream = self._env.from_source(
            source, watermark=table.watermark if timed else None, name=table.name
        )
        adds_op = OP in stream.schema.names and OP not in table.schema.names
        if table.key:
            op = OP if OP in stream.schema.names else None
            stream = stream.upserts(table.key, op)
        elif adds_op and "format" in options.options:
            # The format emits the previous row of each update.
            stream = with_changes(stream, Changes((), retracts=True))
        elif adds_op:
            raise table.sql.error(
                f"the rows of {table.name} are changes of a table, whose key is not declared",
                options.at,
                "add PRIMARY KEY (id) NOT ENFORCED to the columns",
            )
        return scan(table.name, stream)

    def planned(
        self,
        sql: SqlText,
        query: exp.Expr,
        ttl: TimeToLive | None = None,
        ctes: Mapping[str, PlanNode] | None = None,
        *,
        sorts: bool = False,
    ) -> PlanNode:
        """Plan a query, which may name the tables of `ctes`. Raise ProgramError or SchemaError."""
        effective_ttl = self.ttl if ttl is None else ttl
        resolved(query, self.catalog.functions)
        changed = {each.meta[CHANGED]: each for each in query.walk() if CHANGED in each.meta}
        for text, at in changed.items():
            self.note(sql, at, text)
        plan = Planner(sql, self.catalog, ctes or {}, effective_ttl, self.note).query(
            query, sorts=sorts
        )
        return numbered(sql, plan, effective_ttl)

    def script(self, text: Any, file: str | None = None) -> None:
        """Execute the statements of a string. If it is the content of a file, errors begin with the
        line of their statement."""
        sql = replace(_text(text), file=file, dialect=self.dialect)
        with _add_sql(sql):
            parsed = parse(sql)
        self.prepare(parsed)
        for each in parsed:
            self.carry_out(sql, each)
        self.write()

    def carry_out(self, sql: SqlText, statement: exp.Expr) -> None:
        """Execute a statement; its inserts and materialized views take effect with the next `write`.
        Raises ProgramError, SchemaError."""
        site = sql.site_of(statement) or call_site()
        with done_for(site), located(site), _add_sql(sql, statement):
            ScriptStatements(sql, self).run(statement)

    def write(self) -> None:
        """Add the INSERTs and materialized views since the last call to the program, planned together.
        Raise ProgramError or SchemaError."""
        new = self.writes[self._lowered :]
        self._lowered = len(self.writes)
        for each, plan in zip(new, pushed([each.plan for each in new]), strict=True):
            site = each.sql.site_of(each.node) or call_site()
            with done_for(site), located(site), _add_sql(each.sql, each.node):
                each.write(self.lowering, plan)

    def model(self, sql: SqlText, name: str, query: exp.Expr) -> None:
        """Make a query known by a name. Raise ProgramError or SchemaError."""
        site = sql.site_of(query) or call_site()
        with done_for(site), located(site), _add_sql(sql, query):
            if self.catalog.knows(name):
                raise sql.error(f"the table {name!r} already exists", query, "rename the file")
            self.catalog.add(name, self.planned(sql, query))

    def stream(self, sql: SqlText, query: exp.Expr) -> DataStream:
        """Return the stream of a query. Raises ProgramError, SchemaError."""
        site = sql.site_of(query) or call_site()
        with done_for(site), located(site), _add_sql(sql, query):
            return self.lowering.stream(self._pushed(sql, query))

    def explanation(self, sql: SqlText, query: exp.Expr, table: DeclaredTable | None = None) -> str:
        """Describe the plan of a query whose rows go to `table`, if any, and how it would run.
        Raise ProgramError or SchemaError."""
        if not isinstance(query, exp.Query | exp.Values):
            raise sql.error("EXPLAIN takes a query", query, "write EXPLAIN SELECT ... FROM ...")
        return self._explanation(self._pushed(sql, query), table)

    def _explanation(self, plan: PlanNode, table: DeclaredTable | None = None) -> str:
        """Describe a query without changing the program or the ids of later operators."""

        def made() -> DataStream:
            lowering = Lowering(self._env)
            if table is None:
                return lowering.stream(plan)
            return lowering.by_key(plan, table, self.ttl or FOREVER)

        return self._explain(made, explained(plan))

    def _pushed(self, sql: SqlText, query: exp.Expr, ttl: TimeToLive | None = None) -> PlanNode:
        """Return the plan of a single query after pushdown."""
        plan = self.planned(sql, query, ttl, sorts=self.sorts)
        check_result(sql, plan)
        [made] = pushed([plan])
        return made

    def query(
        self,
        text: Any,
        ttl: TimeToLive | None = None,
        dialect: str | None = None,
        *,
        before: Callable[[exp.Expr], None] = lambda query: None,
    ) -> DataStream:
        """Return the stream of a query. Raise ProgramError or SchemaError. `before` may change the
        parsed query before it is planned."""
        sql = replace(_text(text), dialect=self.dialect if dialect is None else dialect_of(dialect))
        with _add_sql(sql):
            query, plan = self._planned_alone(sql, ttl, before)
            # A copy: the same stream may be the result of another query, too.
            at = self.lowering.stream(plan).transformation
            return at.stream_titled(self._named(query))

    def _named(self, query: exp.Expr) -> str:
        """Return the table or view that the query reads as it is, or "result-N"."""
        table = query.find(exp.Table)
        if table is not None and table.name and query == exp.select("*").from_(table):
            return table.name
        self._results += 1
        return f"result-{self._results}"

    def explained(self, text: Any, ttl: TimeToLive | None = None) -> str:
        """Describe the plan of a query, and how it would run. Raise ProgramError or SchemaError."""
        sql = replace(_text(text), dialect=self.dialect)
        with _add_sql(sql):
            return self._explanation(self._planned_alone(sql, ttl)[1])

    def _planned_alone(
        self,
        sql: SqlText,
        ttl: TimeToLive | None,
        before: Callable[[exp.Expr], None] = lambda query: None,
    ) -> tuple[exp.Expr, PlanNode]:
        """Return the one query that a string contains, and its plan."""
        statements = parse(sql)
        if not statements:
            raise sql.error("this SQL contains no query", None, "write SELECT ... FROM ...")
        if len(statements) != 1:
            raise sql.error(
                "sql() takes one query", statements[1], "use a separate env.sql(...) for each"
            )
        [statement] = statements
        if not isinstance(statement, exp.Query | exp.Values):
            hint = "write SELECT ... FROM ...; for other statements use env.sql_script(...)"
            raise sql.error("sql() takes a query", statement, hint)
        before(statement)
        return statement, self._pushed(sql, statement, ttl)


def _text(text: Any) -> SqlText:
    if not isinstance(text, str) or not text.strip():
        raise ProgramError(
            f"sql() takes a string, not {text!r}", hint='write env.sql("SELECT user, price FROM bids")'
        )
    return SqlText(text)


@contextmanager
def _add_sql(sql: SqlText, at: exp.Expr | None = None) -> Iterator[None]:
    """Add the SQL to errors of the streams that a query becomes."""
    try:
        yield
    except ProgramError as error:
        if error.detail is None:
            error.detail = sql.begin(at)
        raise
