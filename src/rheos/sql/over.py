"""Aggregates OVER the rows around each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl
from sqlglot import exp

from rheos.api.time_to_live import TimeToLive
from rheos.core import aggregates as agg
from rheos.core.graph.changelog import Changes
from rheos.core.operators.over.event_time_over import OverColumns, OverFunction
from rheos.core.operators.over.moving_frames import FrameSpec, covering
from rheos.core.operators.over.positions import FramePosition, PositionFunction
from rheos.sql import types
from rheos.sql.aggregates import AggregateCall, aggregated
from rheos.sql.call_combinations import Combination, combination
from rheos.sql.copies import numbered_copies
from rheos.sql.expressions.key_values import as_key, check_key
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.frame_bounds import frame
from rheos.sql.grouped_plans import OverPlan
from rheos.sql.grouping import result_column
from rheos.sql.inserted_rows import may_be_kept
from rheos.sql.plan import (
    SET_EVENT_TIME,
    ColumnRole,
    PlanNode,
    SqlColumn,
    projected,
    with_keys,
)
from rheos.sql.ranking import KEEP_ALL, OrderTerm, is_rank, known_by_key, sorted_by
from rheos.sql.text import SqlText, as_sql, kind
from rheos.sql.window_clauses import OverClause, OverClauses

_POSITIONS: dict[type[exp.Expr], FramePosition] = {
    exp.First: FramePosition.FIRST,
    exp.FirstValue: FramePosition.FIRST,
    exp.AnyValue: FramePosition.FIRST,
    exp.Last: FramePosition.LAST,
    exp.LastValue: FramePosition.LAST,
    exp.NthValue: FramePosition.FIRST,
    exp.Lag: FramePosition.BEFORE,
    exp.Lead: FramePosition.AFTER,
    exp.Rank: FramePosition.RANK,
    exp.DenseRank: FramePosition.DENSE_RANK,
}
_EXAMPLE = (
    "write SUM(price) OVER (PARTITION BY auction ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)"
)
_NO_ORDER = pl.lit(0, dtype=types.BIGINT)


def over_calls(node: exp.Expr) -> Iterator[exp.Window]:
    """Yield the calls of aggregates OVER rows, without those that number rows."""
    if isinstance(node, exp.Window) and not is_rank(node):
        yield node
    elif not isinstance(node, exp.Query | exp.Subquery | exp.Window):
        for inner in node.iter_expressions():
            yield from over_calls(inner)


def with_over(
    sql: SqlText,
    node: exp.Select,
    compiler: Compiler,
    plan: PlanNode,
    ttl: TimeToLive | None,
) -> tuple[PlanNode, Compiler]:
    """Return the rows with the OVER aggregates of SELECT, and the expressions that read them. Raise
    ProgramError or SchemaError."""
    clauses = OverClauses.of(sql, node)
    found_calls: list[tuple[_OverCall, bool]] = []
    combined: list[tuple[exp.Window, Combination]] = []
    for item in node.expressions:
        for call in over_calls(item):
            clause = clauses.clause(call)
            parts = combination(sql, call, clause)
            if parts is not None:
                combined.append((call, parts))
            for each, own in [(call, clause)] if parts is None else parts.calls.values():
                found_calls.append((_call(sql, compiler, each, own, call), parts is not None))
    if not found_calls:
        return plan, compiler
    plan = _with_all_frames(sql, compiler, [made for made, _ in found_calls], plan, ttl)
    groups: dict[tuple[str, str, FrameSpec], list[_OverCall]] = {}
    for made, is_part in found_calls:
        in_one = plan.changes is not None and is_part
        groups.setdefault(made.same(in_one), []).append(made)
    found: dict[int, Typed] = {}
    # Rows that waited for others arrive after the watermark, and lose their event time.
    in_order = sorted(groups.values(), key=lambda calls: calls[0].frame.needs_later_rows)
    for place, calls in enumerate(in_order, 1):
        if is_behind_time(plan):
            raise sql.error(
                "one frame reads following rows, and its output has no event time",
                calls[0].at,
                "use the same PARTITION BY and ORDER BY for both",
            )
        plan, values = _add_frames(sql, compiler, calls, plan, place)
        found |= {id(call.node): value for call, value in zip(calls, values, strict=True)}
    before = compiler.instead
    for call, parts in combined:
        found[id(call)] = _combined(compiler, call, parts, found)
    return plan, replace(compiler, instead=lambda each: found.get(id(each)) or before(each))


def _combined(
    compiler: Compiler, call: exp.Window, parts: Combination, found: Mapping[int, Typed]
) -> Typed:
    values = {name: found[id(each)] for name, (each, _) in parts.calls.items()}
    before = compiler.instead

    def instead(node: exp.Expr) -> Typed | None:
        return values[node.name] if isinstance(node, exp.Placeholder) else before(node)

    return replace(replace(compiler, instead=instead).compile(parts.value), node=call)


def is_behind_time(plan: PlanNode) -> bool:
    """Return whether the rows were delayed for later rows, and so have no event time."""
    return isinstance(plan, OverPlan) and plan.frame.needs_later_rows and plan.changes is None


def _add_frames(
    sql: SqlText, compiler: Compiler, calls: Sequence[_OverCall], plan: PlanNode, place: int
) -> tuple[PlanNode, list[Typed]]:
    """Return the rows with aggregates over frames of one kind, and the values of these aggregates."""
    first = calls[0]
    clause, orders = first.clause, first.orders
    partition = [compiler.compile(each) for each in clause.partition_by]
    for each in partition:
        check_key(sql, each.type, "PARTITION BY", each.node)
    partition = [as_key(each) for each in partition]
    partition = partition or [Typed(pl.lit(0, dtype=types.BIGINT), types.BIGINT, first.node)]
    source, keys = with_keys(plan, partition, f"over {place}")
    if source.changes is not None:
        source = known_by_key(sql, first.node, source, [*keys])
    by, by_expr = f"order {place}", sorted_by(sql, orders) if orders else _NO_ORDER
    exprs = [pl.col(column.name) for column in source.columns]
    columns = [*source.columns, SqlColumn(by, types.of_expression(by_expr, plan.columns))]
    exprs.append(by_expr.alias(by))
    arguments = [by if call.is_rank else f"argument {place}.{n}" for n, call in enumerate(calls)]
    for name, call in zip(arguments, calls, strict=True):
        if call.is_rank:
            continue
        exprs.append(call.argument.expr.alias(name))
        columns.append(SqlColumn(name, call.argument.type))
    ends = None
    if source.changes is None and any(call.frame.following is None for call in calls):
        ends, last = f"end {place}", _last_ms(plan, partition)
        assert last is not None, "other rows have become an updating table"
        exprs.append(last.alias(ends))
        columns.append(SqlColumn(ends, types.BIGINT))
    source = projected(source, tuple(exprs), tuple(columns))
    results = tuple(
        SqlColumn(f"result {place}.{n}", call.result_type(source, arguments[n]))
        for n, call in enumerate(calls)
    )
    changes = source.changes
    if changes is not None:
        changes = Changes((*dict.fromkeys((*keys, *changes.key)),), retracts=True)
    functions = tuple(call.function(name) for call, name in zip(calls, arguments, strict=True))
    names = tuple(column.name for column in results)
    frames = tuple(call.frame for call in calls)
    own = covering(frames)
    if len({*frames}) == 1 and not own.needs_later_rows:
        own, frames = first.frame, ()
    written = tuple(sql.written(call.at.this) for call in calls)
    spec = OverColumns(by, tuple(arguments), functions, names, frames, written, ends)
    made = OverPlan(source, keys, spec, own, (*source.columns, *results), changes)
    return made, [
        Typed(call.aggregate.result(pl.col(column.name)), call.aggregate.type, call.node)
        for call, column in zip(calls, results, strict=True)
    ]


# --- all frames ---------------------------------------------------------------------------------------


def _with_all_frames(
    sql: SqlText,
    compiler: Compiler,
    calls: Sequence[_OverCall],
    plan: PlanNode,
    ttl: TimeToLive | None,
) -> PlanNode:
    """Return append-only rows as an updating table, whose rows are all kept, if the frames need that.
    Raise ProgramError if nothing says that they may be kept."""
    if plan.changes is not None:
        return plan
    at: exp.Expr
    for call in calls:
        order, times = call.clause.order, _event_times(plan)
        if order is not None and not _is_by_time(call.orders, times):
            what, at = "OVER on append-only rows needs ORDER BY the event time", order
            how = f"write ORDER BY {times[0]}" if times else f"use GROUP BY, or {SET_EVENT_TIME}"
        elif call.frame.following is None and not _has_window_end(compiler, call, plan):
            what = "the frame ends with the last row, but rows without a window have no last one"
            how, at = "add window_end to PARTITION BY, over the rows of a window function", call.at
        else:
            continue
        if may_be_kept(plan, ttl):
            return numbered_copies(sql, call.node, plan)
        raise sql.error(what, at, f"{how}; or {KEEP_ALL}")
    return plan


def _event_times(plan: PlanNode) -> list[str]:
    return [each.name for each in plan.columns if each.role is ColumnRole.EVENT_TIME]


def _is_by_time(orders: Sequence[OrderTerm], times: Sequence[str]) -> bool:
    expr = orders[0].value.expr
    is_time = len(orders) == 1 and expr.meta.is_column() and expr.meta.output_name() in times
    return is_time and not orders[0].desc


def _has_window_end(compiler: Compiler, call: _OverCall, plan: PlanNode) -> bool:
    return _last_ms(plan, [compiler.compile(each) for each in call.clause.partition_by]) is not None


def _last_ms(plan: PlanNode, keys: Sequence[Typed]) -> pl.Expr | None:
    """Return the last event time of each row's key, which is a window; None for other keys."""
    roles = {each.name: each.role for each in plan.columns}
    for key in keys:
        if key.expr.meta.is_column():
            role = roles.get(key.expr.meta.output_name())
            if role is ColumnRole.WINDOW_END:
                return key.expr.dt.epoch("ms") - 1
            if role is ColumnRole.WINDOW_TIME:
                return key.expr.dt.epoch("ms")
    return None


# --- calls --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _OverCall:
    """An aggregate over a frame."""

    node: exp.Window
    at: exp.Window
    """The call as it is written, of which `node` may be a part."""
    clause: OverClause
    orders: Sequence[OrderTerm]
    frame: FrameSpec
    argument: Typed
    position: PositionFunction | None
    """Function by position, such as LAG; None: an aggregate."""
    aggregate: AggregateCall

    @property
    def is_rank(self) -> bool:
        return self.position is not None and self.position.position.is_rank

    def function(self, column: str) -> OverFunction:
        """Return the function that is computed over a column."""
        if self.position is not None:
            return self.position
        made = self.aggregate.of(column)
        assert isinstance(made, agg.Agg), "checked when the call was read"
        return made

    def same(self, in_one: bool) -> tuple[str, str, FrameSpec]:
        """Return the common part of calls that are computed together: those with one frame, those whose
        frames extend to following rows, and calls of all frames if they are computed `in_one`."""
        frame = self.frame
        if in_one:
            frame = FrameSpec(True, None, frame.descending, following=None)
        elif frame.needs_later_rows:
            frame = replace(frame, preceding=0, following=1)
        by = ", ".join(as_sql(each) for each in self.clause.partition_by)
        order = self.clause.order
        return by, "" if order is None else as_sql(order), frame

    def result_type(self, source: PlanNode, column: str) -> pl.DataType:
        if self.position is not None:
            return self.aggregate.type
        return result_column(source, "result", self.aggregate.of(column)).type


def _call(
    sql: SqlText, compiler: Compiler, call: exp.Window, clause: OverClause, at: exp.Window
) -> _OverCall:
    orders = [] if clause.order is None else clause.order.expressions
    terms = [OrderTerm.of(sql, compiler, each) for each in orders]
    own = frame(sql, clause.frame, terms)
    position, made = _function(sql, compiler, call)
    if position is not None and not terms:
        raise sql.error("OVER needs ORDER BY for this function", call, _EXAMPLE)
    if position is not None:
        own = _frame_of_position(sql, call, position, own)
    value = made.argument or Typed(pl.lit(True), types.BOOLEAN, call)
    return _OverCall(call, at, clause, terms, own, value, position, made)


def _frame_of_position(
    sql: SqlText, call: exp.Window, function: PositionFunction, own: FrameSpec
) -> FrameSpec:
    """Return the frame of a function by position: LAG, LEAD and ranks have their own."""
    of = _unwrapped(call.this)
    if function.position.is_rank:
        return FrameSpec(True, None, own.descending)
    match of:
        case exp.Lag() if function.ignores_nulls:
            return FrameSpec(True, None, own.descending, following=-1)
        case exp.Lead() if function.ignores_nulls:
            return FrameSpec(True, -1, own.descending, following=None)
        case exp.Lag():
            return FrameSpec(True, _offset(sql, of), own.descending)
        case exp.Lead():
            return FrameSpec(True, 0, own.descending, following=_offset(sql, of))
    return own


def _unwrapped(of: exp.Expr) -> exp.Expr:
    return of.this if isinstance(of, exp.IgnoreNulls | exp.RespectNulls) else of


def _function(
    sql: SqlText, compiler: Compiler, call: exp.Window
) -> tuple[PositionFunction | None, AggregateCall]:
    of, ignores_nulls = _unwrapped(call.this), isinstance(call.this, exp.IgnoreNulls)
    position = _POSITIONS.get(type(of))
    if position is not None and position.is_rank and of is call.this:
        sql.only(of, ())
        return PositionFunction(position), AggregateCall(None, agg.first, types.BIGINT)
    if position is not None and not position.is_rank:
        has_offset = isinstance(of, exp.Lag | exp.Lead | exp.NthValue)
        sql.only(of, ("this", "offset") if has_offset else ("this",))
        value, n = compiler.compile(of.this), 1
        if isinstance(of, exp.NthValue):
            n = _offset(sql, of)
        elif isinstance(of, exp.Lag | exp.Lead) and ignores_nulls:
            # The n-th value that is not null, before or after the row.
            position = FramePosition.LAST if isinstance(of, exp.Lag) else FramePosition.FIRST
            n = _offset(sql, of)
        if n < 1:
            raise sql.error(f"{kind(of)} takes a number from 1 here", of.args["offset"], _EXAMPLE)
        return PositionFunction(position, n, ignores_nulls), AggregateCall(value, agg.first, value.type)
    if of is not call.this:
        raise sql.error(
            "IGNORE NULLS and RESPECT NULLS apply to FIRST_VALUE, LAST_VALUE, NTH_VALUE, LAG and LEAD",
            call,
            "leave them out: aggregates ignore nulls",
        )
    if isinstance(of, exp.Filter) and type(of.this) in _POSITIONS:
        raise sql.error(
            f"FILTER applies to aggregates, which {kind(of.this)} is not",
            call,
            f"write {kind(of.this)[:-1]}CASE WHEN ... THEN price END) IGNORE NULLS",
        )
    made = aggregated(compiler, of)
    reads = made.of("column")
    if not isinstance(reads, agg.Agg) or not reads.can_frame() or made.fold is not None:
        raise sql.error(
            f"{kind(of.this if isinstance(of, exp.Filter) else of)} is not computed OVER rows yet",
            call,
            "supported are COUNT, SUM, AVG, MIN, MAX, STDDEV, VARIANCE, FIRST_VALUE, LAST_VALUE, "
            "NTH_VALUE, LAG, LEAD, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE and ROW_NUMBER",
        )
    return None, made


def _offset(sql: SqlText, of: exp.Expr) -> int:
    """Return the offset of LAG, LEAD or NTH_VALUE."""
    rows = of.args.get("offset")
    if rows is None and not isinstance(of, exp.NthValue):
        return 1
    if not isinstance(rows, exp.Literal) or not str(rows.this).isdigit():
        raise sql.error(
            f"{kind(of)} takes an integer number of rows", rows or of, f"write {kind(of)[:-1]}price, 1)"
        )
    return int(rows.this)
