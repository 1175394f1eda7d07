"""GROUP BY and aggregates: by key, by key and window, or over all rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core import aggregates as agg
from rheos.core.aggregates import Agg
from rheos.core.graph.changelog import OP, Changes
from rheos.core.graph.types import from_polars
from rheos.core.graph.windows import Session, Sliding, Tumbling, Window
from rheos.core.operators.changelog.table import SIGNED, can_be_kept
from rheos.sql import types
from rheos.sql.aggregates import AggregateCall, aggregated, is_aggregate, without_window
from rheos.sql.calls import folded
from rheos.sql.expressions.key_values import as_key, check_key, value_of_key
from rheos.sql.expressions.nested_values import field as field_of
from rheos.sql.expressions.order_keys import is_nested
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.grouped_plans import Aggregate, Distinct, WindowedRows
from rheos.sql.grouping_sets import GroupBy, InSets, asked, group_by, groupings, in_sets
from rheos.sql.nested_keys import comparable, values_of
from rheos.sql.plan import ColumnRole, PlanNode, Project, SqlColumn, projected, retracting
from rheos.sql.scope import Named, NameScope, SqlRelation
from rheos.sql.text import SqlText, as_sql, kind
from rheos.sql.windows import (
    OF_WINDOWS,
    WINDOW_COLUMNS,
    last_time,
    settled,
    windowed_below,
    without_windows,
)

ALL_ROWS = "all rows"
"""Key of an aggregate without a key."""

AT_ITS_END = Tumbling("1ms")
"""Window that brings rows of one earlier window together: their time is its last ms."""

_IN_WINDOW = (ColumnRole.WINDOW_START, ColumnRole.WINDOW_END)


def is_grouped(node: exp.Select) -> bool:
    parts = [*node.expressions, node.args.get("having")]
    return node.args.get("group") is not None or any(
        True for part in parts if part is not None for _ in calls_in(part)
    )


def calls_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the outermost calls of aggregates, without those of OVER, which may contain others."""
    if is_aggregate(node):
        yield node
    elif not isinstance(node, exp.Subquery | exp.Select):
        for inner in _parts_of_over(node) if isinstance(node, exp.Window) else node.iter_expressions():
            yield from calls_in(inner)


def _parts_of_over(node: exp.Window) -> Iterator[exp.Expr]:
    """Yield the expressions within a call with OVER: its arguments and filter, and those of OVER."""
    of = node.this
    while isinstance(of, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        if isinstance(of, exp.Filter):
            yield of.expression
        of = of.this
    yield from of.iter_expressions()
    for inner in node.iter_expressions():
        if inner is not node.this:
            yield inner


@dataclass(frozen=True)
class GroupedColumns:
    """Columns of SELECT after GROUP BY."""

    sql: SqlText
    scope: NameScope
    plan: PlanNode
    found: Mapping[str, Typed]
    """Columns by the SQL of a key or of a call."""
    keys: Mapping[str, Named]
    """Keys that are columns."""

    @property
    def compiler(self) -> Compiler:
        return Compiler(self.sql, self, self._instead)

    def _instead(self, node: exp.Expr) -> Typed | None:
        known = self.found.get(spelled(self.scope, node))
        return known and Typed(known.expr, known.type, node)

    def column(self, node: exp.Column) -> Typed:
        self.scope.column(node)
        whole, fields = self.scope.column_and_fields(node)
        value = self.found.get(_quoted(whole.column.name))
        if value is not None:
            for name in fields:
                value = field_of(self.compiler, value, name, node)
            return value
        raise self.sql.error(
            f"{as_sql(node)!r} is neither in GROUP BY nor in an aggregate",
            node,
            f"group by it, or aggregate it: MAX({as_sql(node)})",
        )

    def named(self, node: exp.Column) -> Named | None:
        return self.keys.get(spelled(self.scope, node))

    def star(self, node: exp.Expr, table: str | None) -> Iterator[Named]:
        raise self.sql.error("* is not allowed with GROUP BY", node, "list the columns of GROUP BY")


def spelled(scope: NameScope, node: exp.Expr) -> str:
    """Return the SQL of an expression, after inserting the columns that it is computed from."""

    def resolved(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and not isinstance(part.this, exp.Star):
            found = scope.find(part)
            if found is not None:
                return exp.column(exp.to_identifier(found.column.name, quoted=True))
        return part

    made = node.transform(resolved)
    # Spark's words for ARRAY_AGG have no ORDER BY.
    orders = [each.this for each in made.find_all(exp.ArrayAgg) if isinstance(each.this, exp.Order)]
    return " ".join(as_sql(each) for each in [made, *orders])


def _quoted(column: str) -> str:
    """Return the SQL of a column, as `spelled` returns it."""
    return as_sql(exp.column(exp.to_identifier(column, quoted=True)))


@dataclass
class _Grouping:
    """State of planning one GROUP BY."""

    sql: SqlText
    relation: SqlRelation
    exprs: list[pl.Expr] = field(default_factory=list)
    columns: list[SqlColumn] = field(default_factory=list)
    """Columns computed before grouping, for keys and aggregates."""

    @property
    def scope(self) -> NameScope:
        return NameScope(self.sql, self.relation.tables)

    @property
    def compiler(self) -> Compiler:
        return Compiler(self.sql, self.scope)

    def computed(self, name: str, value: Typed) -> str:
        """Return the column for a computed value."""
        for expr, column in zip(self.exprs, self.columns, strict=True):
            if column.name == name and expr.meta.eq(value.expr):
                return name
        while name == OP or any(column.name == name for column in self.columns):
            name += "'"
        self.exprs.append(value.expr)
        self.columns.append(SqlColumn(name, value.type))
        return name


def grouped(sql: SqlText, node: exp.Select, relation: SqlRelation) -> GroupedColumns:
    """Return the plan of the groups, and the names that SELECT and HAVING can use. Raise
    ProgramError."""
    work = _Grouping(sql, relation)
    scope, compiler = work.scope, work.compiler
    found: dict[str, Typed] = {}
    names: dict[str, Named] = {}
    in_window: dict[ColumnRole, exp.Expr] = {}
    keys: list[str] = []
    clause = _group_by(sql, node, scope)
    written, sets = clause.keys, _in_sets(work, clause)
    for place, key in enumerate(written):
        text = spelled(scope, key)
        named = scope.find(key) if isinstance(key, exp.Column) else None
        if named is not None and named.column.role in _IN_WINDOW:
            in_window[named.column.role] = key
            continue
        if named is not None and named.column.role == ColumnRole.WINDOW_TIME:
            continue
        value = compiler.compile(key) if sets is None else sets.keys[place]
        if value.type == types.NULL:
            value = compiler.cast(value, types.BOOLEAN)
        check_key(sql, value.type, "GROUP BY", key)
        name = work.computed(named.name if named is not None else text, as_key(value))
        keys.append(name)
        nested = is_nested(value.type)
        given = value_of_key(pl.col(name), value.type) if nested else pl.col(name)
        found[text] = Typed(given, value.type, key)
        if named is not None and not nested:
            names[text] = Named(named.name, SqlColumn(name, value.type, ColumnRole.PLAIN))
    found |= _groupings(work, node, sets, [spelled(scope, key) for key in written], keys)
    window, source, keys = _window(work, in_window, keys, written)
    calls = _calls(sql, node, scope)
    made = {text: aggregated(compiler, call) for text, call in calls.items()}
    if window is None:
        keeps = partial(_can_keep, changing=source.changes is not None)
        made = {text: without_window(compiler, calls[text], each, keeps) for text, each in made.items()}
    aggregates = tuple(_aggregate(work, text, calls[text], each) for text, each in made.items())
    plan = _planned(work, source, keys, aggregates, window, [*calls.values()])
    behind = plan
    for text, each in made.items():
        value = Typed(each.result(pl.col(text)), each.type, calls[text])
        if each.fold is not None:
            behind, column = folded(behind, each.fold, text, text)
            value = Typed(pl.col(column.name), column.type, calls[text])
        found[text] = value
    if window is not None:
        _see_window(scope, found, names, plan)
    return GroupedColumns(sql, scope, behind, found, names)


def _group_by(sql: SqlText, node: exp.Select, scope: NameScope) -> GroupBy:
    """Return the keys of GROUP BY: expressions, or columns of SELECT by alias or position."""

    def resolve(key: exp.Expr) -> exp.Expr:
        of = key
        if isinstance(key, exp.Literal) and not key.is_string:
            of = node.expressions[sql.place(key, len(node.expressions))].unalias()
        elif isinstance(key, exp.Column) and not key.table and scope.find(key) is None:
            aliases = (
                item for item in node.expressions if item.alias.casefold() == key.name.casefold()
            )
            of = next((item.unalias() for item in aliases), key)
        if next(calls_in(of), None) is not None:
            raise sql.error("an aggregate cannot be a GROUP BY key", key, "group by columns")
        return of

    group = node.args.get("group")
    if group is None:
        return GroupBy((), None)
    return group_by(sql, group, resolve, lambda key: spelled(scope, key))


def _in_sets(work: _Grouping, clause: GroupBy) -> InSets | None:
    """Return the rows repeated for each set of keys; None if there is only one set. Window bounds are
    in all sets."""
    if clause.sets is None:
        return None
    scope = work.scope
    of_windows = set()
    for place, key in enumerate(clause.keys):
        named = scope.find(key) if isinstance(key, exp.Column) else None
        if named is not None and named.column.role in OF_WINDOWS:
            of_windows.add(place)
            if not all(place in some for some in clause.sets):
                raise work.sql.error(
                    "every grouping set must include the window",
                    key,
                    "write GROUP BY window_start, window_end, ROLLUP(...)",
                )
    null = Typed(pl.lit(None), types.BOOLEAN, exp.Null())
    values = [
        null if place in of_windows else work.compiler.compile(key)
        for place, key in enumerate(clause.keys)
    ]
    made = in_sets(work.relation.plan, values, clause.sets)
    work.relation = SqlRelation(made.plan, work.relation.tables)
    return made


def _groupings(
    work: _Grouping, node: exp.Select, sets: InSets | None, texts: Sequence[str], keys: list[str]
) -> dict[str, Typed]:
    """Return calls of GROUPING and GROUPING_ID, by their SQL. The set becomes a key."""
    sql, scope, found = work.sql, work.scope, {}
    if sets is not None:
        keys.append(work.computed("grouping set", sets.set))
    parts = [*node.expressions, *([node.args["having"]] if node.args.get("having") else [])]
    for call in groupings(parts):
        if sets is None:
            raise sql.error(
                f"{kind(call)} needs several grouping sets, but there is a single one",
                call,
                "write GROUP BY ROLLUP(a, b), CUBE(a, b) or GROUPING SETS ((a, b), (a))",
            )
        places = asked(sql, call, texts, lambda each: spelled(scope, each))
        bits = sets.left_out(places, pl.col(keys[-1])).cast(types.BIGINT)
        found[spelled(scope, call)] = Typed(bits, types.BIGINT, call)
    return found


def _calls(sql: SqlText, node: exp.Select, scope: NameScope) -> dict[str, exp.Expr]:
    """Return the calls of aggregates in SELECT and HAVING, by their SQL."""
    parts = [*node.expressions, *([node.args["having"]] if node.args.get("having") else [])]
    calls: dict[str, exp.Expr] = {}
    for part in parts:
        for call in calls_in(part):
            inner = [each for each in call.walk() if each is not call and is_aggregate(each)]
            own = call.this if isinstance(call, exp.Filter) else call
            if any(each is not own for each in inner):
                raise sql.error("an aggregate cannot contain another aggregate", call, "use a subquery")
            calls.setdefault(spelled(scope, call), call)
    return calls


def _window(
    work: _Grouping,
    in_window: Mapping[ColumnRole, exp.Expr],
    keys: list[str],
    written: Sequence[exp.Expr],
) -> tuple[Window | None, PlanNode, list[str]]:
    """Return the windows of the groups, the rows that are aggregated, and the keys."""
    sql, plan = work.sql, work.relation.plan
    if not in_window:
        return None, plan, keys
    call = windowed_below(plan)
    if len(in_window) < 2 and not _decides_window(next(iter(in_window)), call, plan):
        raise sql.error(
            "a window must be grouped by both its start and its end",
            next(iter(in_window.values())),
            "write GROUP BY window_start, window_end",
        )
    if call is None:
        # Rows of windows that are over: those of one window have its last time.
        for role, key in in_window.items():
            value = work.compiler.compile(key)
            keys.append(work.computed(f"of {role.name.lower()}", value))
        return AT_ITS_END, plan, keys
    source = without_windows(plan)
    if source is None:
        raise sql.error(
            "the columns of a window are known only when it ends, so WHERE cannot read them",
            next(iter(in_window.values())),
            "use HAVING, or a query around this one",
        )
    if isinstance(call.window, Session) and call.keys is not None and {*call.keys} != {*keys}:
        raise sql.error(
            f"the sessions are partitioned by {', '.join(call.keys) or 'no key'}, but GROUP BY "
            f"has {', '.join(keys) or 'no key'}",
            written[0],
            "write SESSION(TABLE bids PARTITION BY ..., ...) with the keys of GROUP BY",
        )
    return call.window, source, keys


def _decides_window(bound: ColumnRole, call: WindowedRows | None, plan: PlanNode) -> bool:
    """Return whether one bound decides which window of its key a row is in."""
    if call is not None and isinstance(call.window, Tumbling | Sliding | Session):
        return True
    # Rows of windows that are over: those of one end come together.
    return bound is ColumnRole.WINDOW_END


def _aggregate(
    work: _Grouping, text: str, call: exp.Expr, each: AggregateCall
) -> tuple[str, Agg | pl.Expr]:
    """Return the aggregate of a column that is computed before the grouping. Its name is that of the
    call."""
    if each.argument is None:
        return text, each.of("")
    value = each.argument
    column = isinstance(value.node, exp.Column) and value.expr.meta.is_column()
    name = value.expr.meta.output_name() if column else f"in {text}"
    made = each.of(work.computed(name, value))
    if isinstance(made, Agg):
        made = replace(made, written=work.sql.written(call))
    return text, made


def _planned(
    work: _Grouping,
    source: PlanNode,
    keys: Sequence[str],
    aggregates: tuple[tuple[str, Agg | pl.Expr], ...],
    window: Window | None,
    calls: Sequence[exp.Expr],
) -> PlanNode:
    sql = work.sql
    if source.changes is not None:
        if window is not None:
            raise sql.error(
                "windows need append-only rows, but these are updated",
                calls[0] if calls else None,
                "group without a window; or window the rows before they are aggregated",
            )
        source = retracting(source)
    constant = Typed(pl.lit(0, dtype=types.BIGINT), types.BIGINT, exp.Null())
    only_key = None if keys or window is not None else (0,)
    if window is None:
        for (_, made), call in zip(aggregates, calls, strict=True):
            _check_unbounded(sql, made, call, changing=source.changes is not None)
        keys = keys or [work.computed(ALL_ROWS, constant)]
    if not aggregates:
        aggregates = (("COUNT(*)", agg.count()),)
    if not work.columns:
        work.computed(ALL_ROWS, constant)
    input = _compute_before(source, tuple(work.exprs), tuple(work.columns))
    results = tuple(result_column(input, name, made) for name, made in aggregates)
    kinds = {column.name: column for column in input.columns}
    in_front = tuple(kinds[key] for key in keys)
    if window is None:
        changes: Changes | None = Changes(tuple(keys), retracts=False)
        columns = (*in_front, *results)
    else:
        changes, columns = None, (*in_front, *WINDOW_COLUMNS[:2], *results)
    return Aggregate(input, tuple(keys), aggregates, window, columns, changes, only_key)


def _compute_before(
    source: PlanNode, exprs: tuple[pl.Expr, ...], columns: tuple[SqlColumn, ...]
) -> PlanNode:
    """Return the plan of the columns computed before grouping. In a changelog, each change contains a
    complete row."""
    if source.changes is None:
        return projected(source, exprs, columns)
    return Project(source, exprs, columns, Changes((), retracts=True))


def result_column(input: PlanNode, name: str, made: Agg | pl.Expr) -> SqlColumn:
    assert isinstance(made, Agg)
    schema = from_polars(pl.Schema({column.name: column.type for column in input.columns}))
    return SqlColumn(name, types.of_arrow(made.result_type(schema)))


def _can_keep(made: Agg | pl.Expr, *, changing: bool) -> bool:
    """Return whether a table can keep an aggregate, whose rows may be retracted if they are
    `changing`."""
    return isinstance(made, Agg) and can_be_kept(made) and (isinstance(made, SIGNED) or not changing)


def _check_unbounded(sql: SqlText, made: Agg | pl.Expr, call: exp.Expr, *, changing: bool) -> None:
    """Check that an aggregate without a window can be updated row by row."""
    of = call.this if isinstance(call, exp.Filter) else call
    if not _can_keep(made, changing=False):
        raise sql.error(
            f"{kind(of)} keeps all values, and without a window it would keep them forever",
            call,
            "group by a window: FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR)) ... "
            "GROUP BY window_start, window_end",
        )
    if not _can_keep(made, changing=changing):
        raise sql.error(
            f"{kind(of)} cannot retract a row, but the rows are updated",
            call,
            "updated rows support COUNT, SUM, AVG, MIN and MAX; or keep only the first rows "
            "with ROW_NUMBER()",
        )


def _see_window(
    scope: NameScope, found: dict[str, Typed], names: dict[str, Named], plan: PlanNode
) -> None:
    """Record the columns of the window's bounds, by their names in the query."""
    start, end = (column.name for column in WINDOW_COLUMNS[:2])
    assert isinstance(plan, Aggregate)
    again = plan.window is AT_ITS_END
    made = {
        ColumnRole.WINDOW_START: pl.col("of window_start" if again else start),
        ColumnRole.WINDOW_END: pl.col("of window_end" if again else end),
    }
    made[ColumnRole.WINDOW_TIME] = last_time(made[ColumnRole.WINDOW_END])
    for table in scope.tables:
        for named in table.columns:
            role = named.column.role
            expr = made.get(role)
            if expr is None:
                continue
            text = _quoted(named.column.name)
            found[text] = Typed(expr, named.column.type, exp.Null())
            if role == ColumnRole.WINDOW_TIME:
                role = ColumnRole.EVENT_TIME
            names[text] = Named(named.name, SqlColumn(named.column.name, named.column.type, role))


def distinct(plan: PlanNode) -> PlanNode:
    """Return distinct rows; of a changelog, the distinct current rows."""
    rows = comparable(plan)
    if rows is not plan:
        return projected(distinct(rows), values_of(plan.columns), settled(plan))
    if plan.changes is None:
        return Distinct(plan, settled(plan))
    keys = tuple(column.name for column in plan.columns)
    input = retracting(plan)
    count = SqlColumn("how often", types.BIGINT)
    counted = Aggregate(
        input,
        keys,
        ((count.name, agg.count()),),
        None,
        (*plan.columns, count),
        Changes(keys, retracts=False),
    )
    return projected(counted, tuple(pl.col(name) for name in keys), plan.columns)
