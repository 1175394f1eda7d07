"""Joins: of rows close in time, of rows in one window, with versions, and of all rows for a limited
time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import polars as pl
from sqlglot import exp

from rheos.api.time_to_live import FOREVER
from rheos.core.graph.changelog import Changes
from rheos.sql import types
from rheos.sql.constant_tables import paired_with_constants
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.grouped_plans import Aggregate, Dedup, TopN
from rheos.sql.grouping import ALL_ROWS
from rheos.sql.inserted_rows import is_known
from rheos.sql.join_conditions import ColumnsOfSides, JoinCondition
from rheos.sql.joined_plans import (
    AllRows,
    AsOfArrival,
    AsOfTime,
    CloseInTime,
    InOneWindow,
    JoinKeys,
    JoinPlan,
    Meeting,
    Versions,
)
from rheos.sql.plan import (
    SET_EVENT_TIME,
    CallPlan,
    ColumnRole,
    Columns,
    Filter,
    Names,
    PlanNode,
    Project,
    Retract,
    SqlColumn,
    ValueRows,
    filtered,
    projected,
    rekeyed,
    renamed,
    with_keys,
)
from rheos.sql.scope import Named, NameScope, SqlRelation, TableInSight, with_columns
from rheos.sql.text import SqlText
from rheos.sql.unused_names import unused_name
from rheos.sql.windows import is_clock, windowed_below, without_windows

if TYPE_CHECKING:
    from rheos.api.time_to_live import TimeToLive

How = Literal["inner", "left", "right", "full"]

_SIDES: dict[str, How] = {"": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}

_DELETED = "the version is deleted"
_FOR_EVER = (
    "limit it: SET state_ttl = '7d', or 'forever'; in Python, env.sql(..., state_ttl=\"7d\"); or limit "
    "the distance in event time: AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR"
)


def kept_for(
    sql: SqlText, ttl: TimeToLive | None, rows: Iterable[PlanNode], what: str, at: exp.Expr
) -> TimeToLive:
    """Return the time for which a join keeps these rows: forever, if the script contains them. Raise
    ProgramError with `what` is wrong if nothing limits it."""
    if ttl is None and all(map(is_known, rows)):
        return FOREVER
    if ttl is None:
        raise sql.error(what, at, _FOR_EVER)
    return ttl


@dataclass(frozen=True)
class Joining:
    """State of planning one join."""

    sql: SqlText
    node: exp.Join
    how: How
    ttl: TimeToLive | None
    as_of: exp.Expr | None
    """Time in FOR SYSTEM_TIME AS OF."""

    def relation(
        self, left: SqlRelation, right: SqlRelation, conditions: Sequence[exp.Expr]
    ) -> SqlRelation:
        """Return the pairs. Raise ProgramError or SchemaError."""
        right = _rename_columns(left, right, self.node.this.alias_or_name)
        tables = (*left.tables, *right.tables)
        names = [frozenset(column.name for column in each.plan.columns) for each in (left, right)]
        sides = ColumnsOfSides(self.sql, NameScope(self.sql, tables), names[0], names[1])
        using = self._using(left, right)
        found = sides.taken_apart(conditions)
        for pair in using:
            sides.equate(found, self.node, *(each.column for each in pair))
        plans = self._filtered(left.plan, right.plan, found, sides.scope)
        pairs = None
        if self.how == "inner" and self.as_of is None and not (found.equal or found.windows):
            pairs = paired_with_constants(*plans)
        plan = pairs or self._join_plan(plans[0], plans[1], found, sides.scope)
        # Event times are whole milliseconds, and columns may be finer.
        after = [*found.rest, *found.in_time] if self.how == "inner" else []
        if self.as_of is not None:
            after += found.of_right
        compiler = Compiler(self.sql, sides.scope)
        made = _without_deleted(plan)
        for each in after:
            made = filtered(made, compiler.condition(each, "ON").expr)
        given = {column.name: column for column in plan.columns}
        seen = with_columns(tables, given)
        relation = SqlRelation(made, seen)
        return _with_shared_columns(relation, using, self.how) if using else relation

    def _using(self, left: SqlRelation, right: SqlRelation) -> list[tuple[Named, Named]]:
        """Return the columns that USING or NATURAL compares."""
        named = [*(self.node.args.get("using") or [])]
        if self.node.args.get("method") == "NATURAL":
            theirs = {
                each.name.casefold() for each in NameScope(self.sql, right.tables).star(self.node, None)
            }
            mine = NameScope(self.sql, left.tables).star(self.node, None)
            named = [exp.to_identifier(each.name) for each in mine if each.name.casefold() in theirs]
        return [(_column_of(self.sql, left, each), _column_of(self.sql, right, each)) for each in named]

    def _filtered(
        self, left: PlanNode, right: PlanNode, found: JoinCondition, scope: NameScope
    ) -> tuple[PlanNode, PlanNode]:
        """Return both sides without rows that cannot have a partner and are not preserved."""
        compiler = Compiler(self.sql, scope)
        kept_left, kept_right = self.how in ("left", "full"), self.how in ("right", "full")
        for each in [] if kept_left else found.of_left:
            left = filtered(left, compiler.condition(each, "ON").expr)
        # The version at a time is chosen from all rows.
        for each in [] if kept_right or self.as_of is not None else found.of_right:
            right = filtered(right, compiler.condition(each, "ON").expr)
        return left, right

    # --- how they meet --------------------------------------------------------------------------------

    def _join_plan(
        self, left: PlanNode, right: PlanNode, found: JoinCondition, scope: NameScope
    ) -> JoinPlan:
        meeting: Meeting
        if self.as_of is not None:
            right = _versions(right, _columns_of([there for _, there in found.equal]))
            meeting = self._as_of(left, right, found, scope)
            if right.changes is not None:
                taken = {each.name for each in (*left.columns, *right.columns)}
                right = Versions.of(right, unused_name(_DELETED, taken))
        elif found.windows:
            return self._in_window(left, right, found)
        elif found.lower is not None and found.upper is not None:
            meeting = self._in_time(left, right, found)
        else:
            meeting = self._all_rows(left, right, found)
        where = self._condition_of_partners(found, scope, meeting)
        left, right, keys = _keyed(left, right, found.equal)
        left, right = rekeyed(left, keys.left), rekeyed(right, keys.right)
        changes = None
        if isinstance(meeting, AllRows) and (self.how != "inner" or left.changes or right.changes):
            changes = Changes(_key_of_pairs(left, right, keys), retracts=True)
        time = ColumnRole.EVENT_TIME if isinstance(meeting, AsOfTime) else ColumnRole.PLAIN
        of_left = plain(left.columns, time)
        columns = (*of_left, *plain(right.columns))
        return JoinPlan(left, right, keys, self.how, meeting, columns, len(of_left), changes, where)

    def _condition_of_partners(
        self, found: JoinCondition, scope: NameScope, meeting: Meeting
    ) -> pl.Expr | None:
        """Return the condition of partners in an outer join: its result depends on which
        rows have no partner."""
        if self.how == "inner":
            return None
        parts = [*found.rest]
        parts += found.of_left if self.how in ("left", "full") else []
        of_versions = self.as_of is not None
        parts += found.of_right if self.how in ("right", "full") or of_versions else []
        if isinstance(meeting, AllRows):
            parts += found.in_time
        elif parts:
            raise self.sql.error(
                f"a {self.how.upper()} JOIN by time supports only equality conditions between the two "
                "sides",
                parts[0],
                "move it to WHERE, or to a subquery for its side",
            )
        compiler = Compiler(self.sql, scope)
        made = [compiler.condition(part, "ON").expr for part in parts]
        return pl.all_horizontal(made) if len(made) > 1 else next(iter(made), None)

    def _as_of(
        self, left: PlanNode, right: PlanNode, found: JoinCondition, scope: NameScope
    ) -> AsOfTime | AsOfArrival:
        time = self.as_of
        named = scope.find(time) if isinstance(time, exp.Column) else None
        of_clock = named is not None and named.column.role is ColumnRole.PROCESSING_TIME
        if of_clock or (time is not None and is_clock(time)):
            self._check_versions(left, right, found, any_changes=True)
            return AsOfArrival()
        of_left = {each.name for each in left.columns if each.role == ColumnRole.EVENT_TIME}
        if named is None or named.column.name not in of_left:
            raise self.sql.error(
                "FOR SYSTEM_TIME AS OF takes the event time of the left side, or PROCTIME()",
                time,
                f"write FOR SYSTEM_TIME AS OF {next(iter(of_left), 'PROCTIME()')}",
            )
        if not any(each.role == ColumnRole.EVENT_TIME for each in right.columns):
            raise self.sql.error(
                "a versioned table needs event time, but this table has no event time",
                self.node.this,
                SET_EVENT_TIME,
            )
        self._check_versions(left, right, found, any_changes=False)
        return AsOfTime()

    def _check_versions(
        self, left: PlanNode, right: PlanNode, found: JoinCondition, *, any_changes: bool
    ) -> None:
        """Raise ProgramError unless the right side has a version of each key. `any_changes` is whether
        it may be the changes of a query."""
        if self.how not in ("inner", "left") or found.in_time or not found.equal:
            raise self.sql.error(
                "FOR SYSTEM_TIME AS OF needs an inner or a LEFT JOIN with equality conditions",
                self.node.this,
                "write LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency",
            )
        if right.changes is None or (right.changes.retracts and not any_changes):
            self._stay(left, right, "versions")
            return
        self._stay(left, left, "versions")
        compared = _columns_of([there for _, there in found.equal])
        if compared != {*right.changes.key} or len(found.equal) != len(compared):
            raise self.sql.error(
                "a join with the versions of a table compares its key, and no other column",
                self.node.args.get("on") or self.node.this,
                "compare the columns of its PRIMARY KEY in ON, and others in WHERE",
            )

    def _in_time(self, left: PlanNode, right: PlanNode, found: JoinCondition) -> CloseInTime:
        self._stay(left, right, "an interval in time")
        lower, upper = found.lower, found.upper
        assert lower is not None
        assert upper is not None
        if self.how == "inner":
            # Bounds finer than milliseconds are checked after the join.
            millisecond = timedelta(milliseconds=1)
            lower, upper = lower - millisecond, upper + millisecond
        if lower > upper:
            raise self.sql.error(
                "no two rows can have this distance", found.in_time[0], "write the smaller bound first"
            )
        return CloseInTime(lower, upper)

    def _all_rows(self, left: PlanNode, right: PlanNode, found: JoinCondition) -> AllRows:
        compared = found.equal or found.rest or found.in_time
        if not (compared or is_single_row(left) or is_single_row(right)):
            raise self.sql.error(
                "every row would be joined with every other: no condition compares the two sides",
                self.node.args.get("on") or self.node.this,
                "write ON a.id = b.id",
            )
        what = "the join would keep the rows of both sides forever"
        return AllRows(kept_for(self.sql, self.ttl, (left, right), what, self.node.this))

    def _stay(self, left: PlanNode, right: PlanNode, what: str) -> None:
        if left.changes is not None or right.changes is not None:
            raise self.sql.error(
                f"a join by {what} needs append-only rows, but these are updated",
                self.node.this,
                "join them before they are aggregated",
            )

    def _in_window(self, left: PlanNode, right: PlanNode, found: JoinCondition) -> JoinPlan:
        if len(found.windows) < 2:
            raise self.sql.error(
                "windows must be joined by both their start and their end",
                self.node.this,
                "write a.window_start = b.window_start AND a.window_end = b.window_end",
            )
        self._stay(left, right, "a window")
        calls = windowed_below(left), windowed_below(right)
        columns, width = (*left.columns, *right.columns), len(left.columns)
        if calls[0] is None and calls[1] is None:
            bounds = [_windows_of(side) for side in (left, right)]
            left, right, keys = _keyed(left, right, found.equal)
            pairs = zip(*(each.values() for each in bounds), strict=True)
            for mine, theirs in pairs:
                keys = JoinKeys((*keys.left, mine), (*keys.right, theirs))
            return JoinPlan(left, right, keys, self.how, InOneWindow(None), columns, width, None)
        sides = [
            None if call is None else without_windows(side)
            for call, side in zip(calls, (left, right), strict=True)
        ]
        if sides[0] is None or sides[1] is None or calls[0].window != calls[1].window:  # type: ignore[union-attr]
            raise self.sql.error(
                "both sides of a window join must have the same windows",
                self.node.this,
                "use the same window function on both",
            )
        assert calls[0] is not None
        left, right, keys = _keyed(sides[0], sides[1], found.equal)
        met = InOneWindow(calls[0].window)
        return JoinPlan(left, right, keys, self.how, met, columns, width, None)


def _without_deleted(plan: PlanNode) -> PlanNode:
    """Return the pairs of a join as if deleted versions did not exist."""
    if not isinstance(plan, JoinPlan) or not isinstance(plan.right, Versions):
        return plan
    is_deleted = pl.col(plan.right.deleted).fill_null(False)
    kept = [each for each in plan.columns if each.name != plan.right.deleted]
    made: PlanNode = plan
    if plan.how == "inner":
        made = filtered(plan, ~is_deleted)
        exprs = [pl.col(each.name) for each in kept]
    else:
        value = pl.when(~is_deleted)
        exprs = [
            pl.col(each.name) if place < plan.width else value.then(pl.col(each.name)).alias(each.name)
            for place, each in enumerate(kept)
        ]
    return projected(made, tuple(exprs), tuple(kept))


def _columns_of(values: Iterable[Typed]) -> Names:
    """Return the names of those values that are columns."""
    exprs = (each.expr for each in values)
    return frozenset(each.meta.output_name() for each in exprs if each.meta.is_column())


def _versions(table: PlanNode, compared: Names) -> PlanNode:
    """Return all versions of a view that keeps the last row of each key by event time, if the join
    compares just its keys. Such a view is a versioned table of Flink."""
    if isinstance(table, Project):
        of = {column.name: expr for expr, column in zip(table.exprs, table.columns, strict=True)}
        below = (of[name] for name in compared if of[name].meta.is_column())
        inner = _versions(table.input, frozenset(each.meta.output_name() for each in below))
        return table if inner is table.input else projected(inner, table.exprs, _timed(table, inner))
    if (
        isinstance(table, TopN)
        and table.dedup == Dedup("last", "event_time")
        and compared == {*table.keys}
    ):
        rank = pl.lit(1, dtype=types.BIGINT)
        exprs = tuple(rank if each.name == table.rank else pl.col(each.name) for each in table.columns)
        given = {each.name: each for each in table.input.columns}
        return projected(
            table.input, exprs, tuple(given.get(each.name, each) for each in table.columns)
        )
    return table


def _timed(table: Project, inner: PlanNode) -> Columns:
    """Return the columns of a projection with the roles that they have in another input."""
    roles = {column.name: column.role for column in inner.columns}
    return tuple(
        replace(column, role=roles[expr.meta.output_name()]) if expr.meta.is_column() else column
        for expr, column in zip(table.exprs, table.columns, strict=True)
    )


def _windows_of(side: PlanNode) -> dict[ColumnRole, str]:
    wanted = (ColumnRole.WINDOW_START, ColumnRole.WINDOW_END)
    found = {column.role: column.name for column in side.columns if column.role in wanted}
    return {role: found[role] for role in wanted}


def _column_of(sql: SqlText, side: SqlRelation, name: exp.Expr) -> Named:
    """Return the column of a side that USING names."""
    for table in side.tables:
        for each in table.columns:
            if each.name.casefold() == name.name.casefold() and not each.qualified:
                return each
    known = [each.name for table in side.tables for each in table.columns]
    raise sql.unknown("column", name.name, name, known, "the columns of a side are")


def _with_shared_columns(
    relation: SqlRelation, pairs: Sequence[tuple[Named, Named]], how: How
) -> SqlRelation:
    """Return the rows with one column for each pair that USING compares. The columns of both sides
    remain visible with their tables' names."""
    plan, made = relation.plan, []
    exprs, columns = [pl.col(each.name) for each in plan.columns], [*plan.columns]
    kinds = {column.name: column for column in plan.columns}
    for mine, theirs in pairs:
        one, other = (kinds[each.column.name] for each in (mine, theirs))
        shared = other if how == "right" else one
        if how == "full":
            kind = types.common(one.type, other.type)
            assert kind is not None, "they are compared"
            casts = [types.cast(pl.col(each.name), each.type, kind) for each in (one, other)]
            shared = SqlColumn(f"{one.name} of both sides", kind)
            exprs.append(pl.coalesce(casts).alias(shared.name))
            columns.append(shared)
        made.append(Named(mine.name, shared))
    if len(columns) > len(plan.columns):
        plan = projected(plan, tuple(exprs), tuple(columns))
    hidden = {each.column.name for pair in pairs for each in pair}
    tables = (
        replace(
            table,
            columns=tuple(
                replace(each, qualified=each.qualified or each.column.name in hidden)
                for each in table.columns
            ),
        )
        for table in relation.tables
    )
    return SqlRelation(plan, (TableInSight(None, tuple(made)), *tables))


def is_single_row(plan: PlanNode) -> bool:
    """Return whether a plan has at most one row: an aggregate of all rows, or a constant one."""
    if isinstance(plan, ValueRows):
        return bool(plan.table.num_rows <= 1)
    if isinstance(plan, Aggregate):
        return plan.window is None and {*plan.keys} <= {ALL_ROWS}
    if isinstance(plan, Filter | Project | Retract | CallPlan):
        return is_single_row(plan.input)
    return isinstance(plan, JoinPlan) and all(map(is_single_row, plan.upstream()))


def _rename_columns(left: SqlRelation, right: SqlRelation, alias: str) -> SqlRelation:
    """Return the right side, with columns renamed if the left side has their names."""
    taken = {column.name for column in left.plan.columns}
    names: dict[str, str] = {}
    for column in right.plan.columns:
        name = column.name
        while name in taken or (name != column.name and name in names.values()):
            name = f"{name} of {alias or 'the right side'}"
        names[column.name] = name
        taken.add(name)
    plan = renamed(right.plan, tuple(names.values()))
    by_name = {column.name: column for column in plan.columns}
    now = {before: by_name[name] for before, name in names.items()}
    return SqlRelation(plan, with_columns(right.tables, now))


def _keyed(
    left: PlanNode, right: PlanNode, equal: Sequence[tuple[Typed, Typed]]
) -> tuple[PlanNode, PlanNode, JoinKeys]:
    """Return both sides with the columns that must be equal."""
    left, mine = with_keys(left, [one for one, _ in equal], "left")
    right, theirs = with_keys(right, [other for _, other in equal], "right")
    return left, right, JoinKeys(mine, theirs)


def _key_of_pairs(left: PlanNode, right: PlanNode, keys: JoinKeys) -> tuple[str, ...]:
    """Return the columns that identify a pair: those of both rows and the join key, as in
    `api.joins`."""
    if not (left.changes and left.changes.key and right.changes and right.changes.key):
        return ()
    known = {*left.changes.key, *keys.left, *right.changes.key, *keys.right}
    return tuple(each.name for each in (*left.columns, *right.columns) if each.name in known)


def retractions_of(left: PlanNode, keys: Sequence[str]) -> Changes:
    """Return the changes of rows that a join by `keys` keeps or drops: they have the key of the left
    rows and these keys, or no key if the left rows lack one."""
    known = () if left.changes is None else left.changes.key
    return Changes(tuple(dict.fromkeys((*known, *keys))) if known else (), retracts=True)


def plain(columns: Sequence[SqlColumn], kept: ColumnRole = ColumnRole.PLAIN) -> tuple[SqlColumn, ...]:
    """Return the columns with the role PLAIN, except for those with the role `kept`."""
    return tuple(
        column if column.role == kept else replace(column, role=ColumnRole.PLAIN) for column in columns
    )


def joining(sql: SqlText, node: exp.Join, ttl: TimeToLive | None) -> Joining:
    """Analyse a JOIN. Raises ProgramError."""
    sql.only(node, ("this", "on", "using", "side", "kind", "method"))
    kind, side = str(node.args.get("kind") or ""), str(node.args.get("side") or "")
    method = str(node.args.get("method") or "")
    if (
        kind not in ("", "INNER", "OUTER", "CROSS")
        or side not in _SIDES
        or method not in ("", "NATURAL")
    ):
        words = " ".join(filter(None, (method, side, kind, "JOIN")))
        raise sql.error(f"{words} is not computed yet", node.this, "write it as a LEFT JOIN")
    table, as_of = node.this, None
    version = table.args.get("version") if isinstance(table, exp.Table) else None
    if version is not None:
        if version.name != "TIMESTAMP" or version.args.get("kind") != "AS OF":
            raise sql.error(
                "a versioned join needs a time", version, "write FOR SYSTEM_TIME AS OF o.ts"
            )
        as_of = version.expression
    return Joining(sql, node, _SIDES[side], ttl, as_of)
