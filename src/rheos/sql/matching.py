"""MATCH_RECOGNIZE: rows that form a pattern, as one row for each match or as all of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeAlias

import polars as pl
from sqlglot import exp

from rheos.core.graph.patterns import (
    AfterMatch,
    Condition,
    Following,
    Function,
    PatternTree,
    Previous,
    Skip,
)
from rheos.core.operators.pattern.match_rows import CERTAIN_MS, ROW, ROWS, SHOWN, STEP
from rheos.core.site import call_site
from rheos.sql import types
from rheos.sql.expressions.intervals import interval_of
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.grouped_plans import MatchPlan
from rheos.sql.join_conditions import parts_of
from rheos.sql.match_parser import MatchRecognize
from rheos.sql.plan import ColumnRole, Explode, PlanNode, SqlColumn, filtered, projected
from rheos.sql.row_navigation import BackwardCondition, MeasureInputs, RowColumns, RowNavigation
from rheos.sql.row_patterns import RowPattern
from rheos.sql.scope import NameScope, SqlRelation
from rheos.sql.text import SqlText, as_sql

_ALL = "all rows"
"""Key without PARTITION BY."""
_NUMBER, _PLACE, _PLACES = "number of the match", "place in the match", "places in the match"

Shown: TypeAlias = tuple[pl.Expr, SqlColumn]
"""A column of the result."""


def matched(sql: SqlText, node: MatchRecognize, relation: SqlRelation) -> PlanNode:
    """Return the rows of matches: the columns of PARTITION BY, then those of MEASURES. Raise
    ProgramError."""
    return _Matching(sql, node, relation).plan()


@dataclass
class _Matching:
    sql: SqlText
    node: MatchRecognize
    relation: SqlRelation
    computed: RowColumns = field(default_factory=RowColumns)
    previous: dict[Previous, None] = field(default_factory=dict)
    """Values of previous rows that conditions read."""
    following: dict[Following, None] = field(default_factory=dict)
    """Values of following rows that conditions read."""

    def plan(self) -> PlanNode:
        sql, node = self.sql, self.node
        if self.relation.plan.changes is not None:
            raise sql.error(
                "MATCH_RECOGNIZE needs append-only rows, but these are updated",
                node.this,
                "look before",
            )
        rows = node.args.get("all_rows")
        if rows is not None and rows.args["unmatched"]:
            raise sql.error("unmatched rows cannot be returned", rows, "leave out WITH UNMATCHED")
        time = self._time()
        pattern = RowPattern.of(sql, node.args["pattern"], node.args.get("subsets") or [])
        keys = self._keys()
        self._carry_order()
        conditions = self._conditions(pattern, time)
        if node.args.get("within") is None:
            self._check_ends(pattern, conditions)
        site = sql.site_of(node) or call_site()
        tree = PatternTree(
            pattern.parts(conditions, site),
            self._within_ms(),
            self._skip_of(pattern),
            preferring=True,
            previous=tuple(self.previous),
            following=tuple(self.following),
        )
        of_match = pl.col(ROWS)
        shown = MeasureInputs(
            of_match,
            of_match if rows is None else of_match.list.head(pl.col(_PLACE)),
            pl.col(CERTAIN_MS),
            pl.col(_NUMBER),
        )
        navigation = RowNavigation(sql, self._scope, pattern, self.computed, time, shown=shown)
        measures = [self._measure(navigation, each) for each in node.args.get("measures") or []]
        if rows is None:
            if not measures:
                raise sql.error(
                    "MATCH_RECOGNIZE needs MEASURES", node, "write MEASURES LAST(A.price) AS price"
                )
            return self._planned(tree, keys, [], measures, [])
        of_rows = self._columns_of_rows(navigation, keys)
        first = [each for each in of_rows if each[1].name == time]
        others = [each for each in of_rows if each[1].name != time]
        return self._planned(tree, keys, first, measures, others, excludes=pattern.excludes())

    @property
    def _scope(self) -> NameScope:
        return NameScope(self.sql, self.relation.tables)

    # --- the rows -------------------------------------------------------------------------------------

    def _time(self) -> str:
        """Return the event time, which orders the rows."""
        order = self.node.args.get("order")
        hint = "write ORDER BY the event time, which is the column of the table's watermark"
        if order is None:
            raise self.sql.error("MATCH_RECOGNIZE needs ORDER BY", self.node, hint)
        first = order.expressions[0]
        named = self._scope.named(first.this) if isinstance(first.this, exp.Column) else None
        if named is None or named.column.role != ColumnRole.EVENT_TIME or first.args.get("desc"):
            raise self.sql.error("rows must be in ascending order of event time", first, hint)
        return named.name

    def _keys(self) -> tuple[str, ...]:
        keys: list[str] = []
        for each in self.node.args.get("partition_by") or []:
            value = Compiler(self.sql, self._scope).compile(each)
            name = each.name if isinstance(each, exp.Column) else as_sql(each)
            if name in keys:
                raise self.sql.error(f"PARTITION BY names {name!r} twice", each)
            keys.append(self.computed.name(value, name))
        if not keys:
            one = pl.lit(0, dtype=types.BIGINT)
            self.computed.exprs.append(one)
            self.computed.columns.append(SqlColumn(_ALL, types.BIGINT))
            keys.append(_ALL)
        return tuple(keys)

    def _carry_order(self) -> None:
        """Compute the columns that order rows of one time, even if the query does not read them.

        They are the further columns of ORDER BY, then all columns of the table, compared column by
        column.
        """
        time, *others = self.node.args["order"].expressions
        compiler = Compiler(self.sql, self._scope)
        self.computed.name(compiler.compile(time.this))
        for each in others:
            value = compiler.compile(each.this)
            there = value.expr.is_not_null() if each.args.get("nulls_first") else value.expr.is_null()
            text = as_sql(each.this)
            self.computed.name(Typed(there, types.BOOLEAN, each), f"nulls of {text}")
            self.computed.name(self._descending(value) if each.args.get("desc") else value)
        for table in self.relation.tables:
            for named in () if table.hidden else table.columns:
                column = pl.col(named.column.name)
                self.computed.name(Typed(column, named.column.type, self.node))

    def _descending(self, value: Typed) -> Typed:
        """Return whole numbers in the opposite order."""
        kind = types.signed(value.type)
        is_whole = types.is_integer(kind) or kind in (types.DATE, types.BOOLEAN)
        if not (is_whole or types.is_timestamp(kind)):
            raise self.sql.wrong_type(
                "only integers and times can be in descending order after the first column, "
                f"but this is {types.name(kind)}",
                value.node,
                "leave out DESC, or CAST it to BIGINT",
            )
        return Typed(-1 - value.expr.to_physical().cast(types.BIGINT), types.BIGINT, value.node)

    # --- conditions -----------------------------------------------------------------------------------

    def _conditions(self, pattern: RowPattern, time: str) -> dict[str, Condition]:
        found: dict[str, Condition] = {name: Condition() for name in pattern.variables}
        defined: set[str] = set()
        for each in self.node.args.get("define") or []:
            variable = pattern.variable(each.args["alias"])
            if variable in defined:
                raise self.sql.error(
                    f"{variable} is defined twice",
                    each.args["alias"],
                    "combine the conditions with AND",
                )
            defined.add(variable)
            for part in parts_of(each.this):
                found[variable] = found[variable].both(self._condition(pattern, time, variable, part))
        return found

    def _condition(self, pattern: RowPattern, time: str, variable: str, part: exp.Expr) -> Condition:
        """Return the condition of one part of AND. It is an expression if it reads only the row and
        those directly before it."""
        rows = RowNavigation(self.sql, self._scope, pattern, self.computed, time, own=variable)
        condition = rows.compiler.condition(part, "DEFINE").expr
        self.following.update(dict.fromkeys(rows.following))
        previous = rows.previous()
        if previous is not None:
            self.previous.update(dict.fromkeys(previous))
            return Condition((condition,))
        own = {column.name: column.type for column in self.computed.columns}
        read = {**own, **rows.kinds}
        columns = {name: read[name] for name in dict.fromkeys(condition.meta.root_names())}
        call = BackwardCondition(as_sql(part), condition, columns, rows.reads)
        site = self.sql.site_of(part) or call_site()
        return Condition((), (Function(call, None, True, site),))

    def _check_ends(self, pattern: RowPattern, conditions: dict[str, Condition]) -> None:
        """Raise ProgramError if matches could extend without a bound."""
        endless = pattern.endless(conditions)
        if endless is not None:
            name = endless.this.name
            raise self.sql.error(
                f"{name} matches every row, so no match would ever end",
                endless,
                f"DEFINE {name}, write WITHIN an interval after the pattern, or use a reluctant "
                f"quantifier: {name}+?",
            )

    # --- the whole ------------------------------------------------------------------------------------

    def _within_ms(self) -> int | None:
        node = self.node.args.get("within")
        if node is None:
            return None
        length = interval_of(self.sql, node)
        if not isinstance(length, timedelta) or length <= timedelta(0):
            raise self.sql.error("WITHIN takes days, hours, minutes or seconds", node)
        # A match may last as long as that, to the millisecond.
        return length // timedelta(milliseconds=1) + 1

    def _skip_of(self, pattern: RowPattern) -> AfterMatch:
        node = self.node.args.get("after")
        match None if node is None else node.args["to"]:
            case None | "PAST LAST ROW":
                return AfterMatch(Skip.PAST_LAST_EVENT)
            case "TO NEXT ROW":
                return AfterMatch(Skip.TO_NEXT)
            case to:
                assert node is not None
                variable = pattern.variable(node.this)
                if to == "TO FIRST" and pattern.begins() == {variable}:
                    raise self.sql.error(
                        f"{variable} takes the first row of each match, so the same match would "
                        "be found again",
                        node.this,
                        "write AFTER MATCH SKIP TO NEXT ROW",
                    )
                return AfterMatch(Skip.TO_FIRST if to == "TO FIRST" else Skip.TO_LAST, variable)

    def _measure(self, rows: RowNavigation, node: exp.Expr) -> Shown:
        made = rows.compiler.compile(node.this)
        if made.type == types.NULL:
            raise self.sql.wrong_type(
                "a measure of NULL has no type", node, "write CAST(NULL AS STRING)"
            )
        call = node.this
        of_time = isinstance(call, exp.Anonymous) and call.name.casefold() == "match_rowtime"
        # Matches that read later rows are found after the watermark has passed their time.
        in_time = of_time and not self.following
        role = ColumnRole.EVENT_TIME if in_time else ColumnRole.PLAIN
        return made.expr, SqlColumn(node.alias, made.type, role)

    def _columns_of_rows(self, rows: RowNavigation, keys: Sequence[str]) -> list[Shown]:
        """Return the columns of ALL ROWS PER MATCH: those of the table except the keys."""
        named = [each for table in self.relation.tables if not table.hidden for each in table.columns]
        return [
            (rows.of_row(each.column, self.node), SqlColumn(each.name, each.column.type))
            for each in named
            if each.name not in keys
        ]

    def _planned(
        self,
        tree: PatternTree,
        keys: Sequence[str],
        first: Sequence[Shown],
        measures: Sequence[Shown],
        others: Sequence[Shown],
        *,
        excludes: bool = False,
    ) -> PlanNode:
        """Return rows with the keys and these columns; for ALL ROWS PER MATCH, if `first` is set."""
        computed = tuple(self.computed.columns)
        rows = projected(self.relation.plan, tuple(self.computed.exprs), computed)
        row = pl.Struct({column.name: column.type for column in computed})
        taken = pl.Struct({STEP: pl.String(), SHOWN: pl.Boolean(), ROW: row})
        of_key = {column.name: replace(column, role=ColumnRole.PLAIN) for column in computed}
        shown = [*first, *measures, *others]
        numbered = any(_NUMBER in expr.meta.root_names() for expr, _ in shown)
        found: PlanNode = MatchPlan(
            rows,
            tuple(keys),
            tree,
            _NUMBER if numbered else None,
            (
                *(of_key[key] for key in keys),
                SqlColumn(ROWS, pl.List(taken)),
                SqlColumn(CERTAIN_MS, types.BIGINT),
                *([SqlColumn(_NUMBER, types.BIGINT)] if numbered else []),
            ),
        )
        if first:
            found = _each_row(found)
            if excludes:
                found = filtered(found, pl.col(ROWS).list.get(pl.col(_PLACE) - 1).struct.field(SHOWN))
        kept = [of_key[key] for key in keys if key != _ALL]
        exprs = (*(pl.col(column.name) for column in kept), *(expr for expr, _ in shown))
        columns = (*kept, *(column for _, column in shown))
        for place, column in enumerate(columns):
            if any(column.name == other.name for other in columns[:place]):
                raise self.sql.error(
                    f"there are two columns named {column.name!r}", self.node, "rename one of them"
                )
        return projected(found, exprs, columns)


def _each_row(matches: PlanNode) -> PlanNode:
    """Return a row for each row of a match, with the match and the position in it, from 1."""
    element = pl.Struct({_PLACE: types.BIGINT})
    places = pl.int_ranges(1, pl.col(ROWS).list.len().cast(types.BIGINT) + 1)
    exprs = [pl.col(column.name) for column in matches.columns]
    exprs.append(places.list.eval(pl.struct(pl.element().alias(_PLACE))).alias(_PLACES))
    wide = projected(matches, tuple(exprs), (*matches.columns, SqlColumn(_PLACES, pl.List(element))))
    return Explode(wide, _PLACES, (*matches.columns, SqlColumn(_PLACE, types.BIGINT)), None)
