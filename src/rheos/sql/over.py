"""Aggregates OVER the rows around each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import polars as pl
from sqlglot import exp

from rheos.core import aggregates as agg
from rheos.core.graph.changelog import Changes
from rheos.core.operators.over.event_time_over import OverColumns, OverFunction
from rheos.core.operators.over.moving_frames import FrameSpec
from rheos.core.operators.over.positions import FramePosition
from rheos.sql import types
from rheos.sql.aggregates import AggregateCall, aggregated
from rheos.sql.expressions.intervals import interval_of
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.grouped_plans import OverPlan
from rheos.sql.grouping import result_column
from rheos.sql.plan import SET_EVENT_TIME, ColumnRole, PlanNode, SqlColumn, projected, with_keys
from rheos.sql.ranking import OrderTerm, is_rank, known_by_key, sorted_by
from rheos.sql.text import SqlText, as_sql, kind

_POSITIONS: dict[type[exp.Expr], FramePosition] = {
    exp.FirstValue: FramePosition.FIRST,
    exp.LastValue: FramePosition.LAST,
    exp.Lag: FramePosition.BEFORE,
    exp.Lead: FramePosition.AFTER,
    exp.Rank: FramePosition.RANK,
    exp.DenseRank: FramePosition.DENSE_RANK,
}
_EXAMPLE = (
    "write SUM(price) OVER (PARTITION BY auction ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)"
)
_ALL = "all rows"


def over_calls(node: exp.Expr) -> Iterator[exp.Window]:
    """Yield the calls of aggregates OVER rows, without those that number rows."""
    if isinstance(node, exp.Window) and not is_rank(node):
        yield node
    elif not isinstance(node, exp.Query | exp.Subquery | exp.Window):
        for inner in node.iter_expressions():
            yield from over_calls(inner)


def with_over(
    sql: SqlText, node: exp.Select, compiler: Compiler, plan: PlanNode
) -> tuple[PlanNode, Compiler]:
    """Return the rows with the OVER aggregates of SELECT, and the expressions that read them. Raise
    ProgramError or SchemaError."""
    named = {each.this.name.casefold(): each for each in node.args.get("windows") or []}
    groups: dict[tuple[str, str, FrameSpec], list[_OverCall]] = {}
    for item in node.expressions:
        for call in over_calls(item):
            made = _call(sql, compiler, call, _defined(sql, call, named))
            groups.setdefault(made.same, []).append(made)
    if not groups:
        return plan, compiler
    found: dict[int, Typed] = {}
    # Rows that waited for others arrive after the watermark, and lose their event time.
    in_order = sorted(groups.values(), key=lambda calls: calls[0].frame.needs_later_rows)
    for place, calls in enumerate(in_order, 1):
        if is_behind_time(plan):
            raise sql.error(
                "one frame reads following rows, and its output has no event time",
                calls[0].node,
                "use the same PARTITION BY and ORDER BY for both",
            )
        plan, values = _add_frames(sql, compiler, calls, plan, place)
        found |= {id(call.node): value for call, value in zip(calls, values, strict=True)}
    before = compiler.instead
    return plan, replace(compiler, instead=lambda each: found.get(id(each)) or before(each))


def is_behind_time(plan: PlanNode) -> bool:
    """Return whether the rows were delayed for later rows, and so have no event time."""
    return isinstance(plan, OverPlan) and plan.frame.needs_later_rows and plan.changes is None


def _defined(sql: SqlText, call: exp.Window, named: dict[str, exp.Expr]) -> exp.Expr:
    """Return the window of a call, which the WINDOW clause may define by name."""
    name = call.args.get("alias")
    if name is None:
        return call
    if name.name.casefold() not in named:
        raise sql.unknown("window", name.name, name, [*named], "the windows here are")
    return named[name.name.casefold()]


def _add_frames(
    sql: SqlText, compiler: Compiler, calls: Sequence[_OverCall], plan: PlanNode, place: int
) -> tuple[PlanNode, list[Typed]]:
    """Return the rows with aggregates over frames of one kind, and the values of these aggregates."""
    first = calls[0]
    window, orders = first.window, first.orders
    partition = [compiler.compile(each) for each in window.args.get("partition_by") or []]
    partition = partition or [Typed(pl.lit(0, dtype=types.BIGINT), types.BIGINT, first.node)]
    source, keys = with_keys(plan, partition, f"over {place}")
    if source.changes is None:
        _check_by_time(sql, plan, orders, window.args["order"])
    else:
        source = known_by_key(sql, first.node, source, [*keys])
    by, by_expr = f"order {place}", sorted_by(sql, orders)
    exprs = [pl.col(column.name) for column in source.columns]
    columns = [*source.columns, SqlColumn(by, types.of_expression(by_expr, plan.columns))]
    exprs.append(by_expr.alias(by))
    arguments = [by if call.is_rank else f"argument {place}.{n}" for n, call in enumerate(calls)]
    for name, call in zip(arguments, calls, strict=True):
        if call.is_rank:
            continue
        exprs.append(call.argument.expr.alias(name))
        columns.append(SqlColumn(name, call.argument.type))
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
    frame, frames = first.frame, tuple(call.frame for call in calls)
    if frame.needs_later_rows:
        begin = max(0, *(each.preceding or 0 for each in frames))
        end = max(each.following for each in frames)
        frame = replace(frame, preceding=begin, following=end)
    written = tuple(sql.written(call.node.this) for call in calls)
    spec = OverColumns(
        by, tuple(arguments), functions, names, frames if frame.needs_later_rows else (), written
    )
    made = OverPlan(source, keys, spec, frame, (*source.columns, *results), changes)
    return made, [
        Typed(call.aggregate.result(pl.col(column.name)), call.aggregate.type, call.node)
        for call, column in zip(calls, results, strict=True)
    ]


def _check_by_time(sql: SqlText, plan: PlanNode, orders: Sequence[OrderTerm], at: exp.Expr) -> None:
    """Check that a frame over append-only rows is ordered by event time."""
    known = [each.name for each in plan.columns if each.role is ColumnRole.EVENT_TIME]
    expr = orders[0].value.expr
    by_time = len(orders) == 1 and expr.meta.is_column() and expr.meta.output_name() in known
    if not by_time or orders[0].desc:
        raise sql.error(
            "OVER on append-only rows needs ORDER BY the event time",
            at,
            f"write ORDER BY {known[0]}"
            if known
            else f"use GROUP BY, whose result can be in any order; or {SET_EVENT_TIME}",
        )


# --- frames -------------------------------------------------------------------------------------------


def _frame(sql: SqlText, spec: exp.Expr | None, orders: Sequence[OrderTerm]) -> FrameSpec:
    desc = orders[0].desc
    if spec is None:
        return FrameSpec(by_rows=False, preceding=None, descending=desc)
    sql.only(spec, ("kind", "start", "start_side", "end", "end_side"), " of a frame")
    by_rows = spec.args.get("kind") == "ROWS"
    begin, end = _offset(sql, spec, "start", orders), _offset(sql, spec, "end", orders)
    if end is None or (begin is None and (end > 0 or spec.args.get("start_side") == "FOLLOWING")):
        raise sql.error(
            "a frame must end a number of rows or an interval from its row",
            spec.args["end"] if isinstance(spec.args.get("end"), exp.Expr) else spec,
            "write ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING; or, from the first row on, "
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        )
    if begin is not None and begin > end:
        raise sql.error("the frame begins after its end", spec, "exchange both bounds")
    return FrameSpec(by_rows, None if begin is None else -begin, desc, end)


def _offset(sql: SqlText, spec: exp.Expr, which: str, orders: Sequence[OrderTerm]) -> int | None:
    """Return a bound of a frame as the number of rows or µs after the row, negative before it; None if
    it is unbounded."""
    bound = spec.args.get(which)
    if bound in (None, "CURRENT ROW"):
        return 0
    if bound == "UNBOUNDED":
        return None
    if spec.args.get("kind") == "ROWS":
        distance = _whole(sql, bound)
    else:
        length = interval_of(sql, bound) if isinstance(bound, exp.Interval) else None
        if not isinstance(length, timedelta) or len(orders) > 1 or not _is_time(orders[0].value.type):
            raise sql.error(
                "RANGE takes an interval of days or less from the time of ORDER BY",
                bound,
                "write RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW",
            )
        distance = length // timedelta(microseconds=1)
    return distance if spec.args.get(f"{which}_side") == "FOLLOWING" else -distance


def _whole(sql: SqlText, rows: exp.Expr | None) -> int:
    if not isinstance(rows, exp.Literal) or not str(rows.this).isdigit():
        raise sql.error("ROWS takes an integer number of rows", rows, _EXAMPLE)
    return int(rows.this)


def _is_time(of: pl.DataType) -> bool:
    return types.is_timestamp(of)


# --- calls --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _OverCall:
    """An aggregate over a frame."""

    node: exp.Window
    window: exp.Expr
    """The OVER clause."""
    orders: Sequence[OrderTerm]
    frame: FrameSpec
    argument: Typed
    position: FramePosition | None
    """Function by position, such as LAG; None: an aggregate."""
    aggregate: AggregateCall

    @property
    def is_rank(self) -> bool:
        return self.position is not None and self.position.is_rank

    def function(self, column: str) -> OverFunction:
        """Return the function that is computed over a column."""
        if self.position is not None:
            return self.position
        made = self.aggregate.of(column)
        assert isinstance(made, agg.Agg), "checked when the call was read"
        return made

    @property
    def same(self) -> tuple[str, str, FrameSpec]:
        """Return the common part of calls with one frame; calls of frames that extend to following rows
        are computed together."""
        frame = self.frame
        if frame.needs_later_rows:
            frame = replace(frame, preceding=0, following=1)
        keys = self.window.args.get("partition_by") or []
        by = ", ".join(as_sql(each) for each in keys)
        return by, as_sql(self.window.args["order"]), frame

    def result_type(self, source: PlanNode, column: str) -> pl.DataType:
        if self.position is not None:
            return self.aggregate.type
        return result_column(source, "result", self.aggregate.of(column)).type


def _call(sql: SqlText, compiler: Compiler, call: exp.Window, window: exp.Expr) -> _OverCall:
    sql.only(window, ("this", "partition_by", "order", "spec", "over", "alias"), " of OVER")
    order = window.args.get("order")
    if order is None:
        raise sql.error("OVER needs ORDER BY for this function", call, _EXAMPLE)
    orders = [OrderTerm.of(sql, compiler, each) for each in order.expressions]
    frame = _frame(sql, window.args.get("spec"), orders)
    position, made = _function(sql, compiler, call)
    if position is FramePosition.BEFORE:
        frame = FrameSpec(True, _rows(sql, call.this), frame.descending)
    elif position is FramePosition.AFTER:
        frame = FrameSpec(True, 0, frame.descending, following=_rows(sql, call.this))
    elif position is not None and position.is_rank:
        frame = FrameSpec(True, None, frame.descending)
    value = made.argument or Typed(pl.lit(True), types.BOOLEAN, call)
    return _OverCall(call, window, orders, frame, value, position, made)


def _function(
    sql: SqlText, compiler: Compiler, call: exp.Window
) -> tuple[FramePosition | None, AggregateCall]:
    of = call.this
    position = _POSITIONS.get(type(of))
    if position is not None and position.is_rank:
        sql.only(of, ())
        return position, AggregateCall(None, agg.first, types.BIGINT)
    if position is not None:
        has_offset = position in (FramePosition.BEFORE, FramePosition.AFTER)
        sql.only(of, ("this", "offset") if has_offset else ("this",))
        value = compiler.compile(of.this)
        return position, AggregateCall(value, agg.first, value.type)
    made = aggregated(compiler, of)
    reads = made.of("column")
    if not isinstance(reads, agg.Agg) or not reads.can_frame() or made.fold is not None:
        raise sql.error(
            f"{kind(of.this if isinstance(of, exp.Filter) else of)} is not computed OVER rows yet",
            call,
            "supported are COUNT, SUM, AVG, MIN, MAX, STDDEV, VARIANCE, FIRST_VALUE, "
            "LAST_VALUE, LAG, LEAD, RANK, DENSE_RANK and ROW_NUMBER",
        )
    return None, made


def _rows(sql: SqlText, of: exp.Lag | exp.Lead) -> int:
    """Return the offset of LAG or LEAD."""
    rows = of.args.get("offset")
    if rows is None:
        return 1
    if not isinstance(rows, exp.Literal) or not str(rows.this).isdigit():
        raise sql.error(
            f"{kind(of)} takes an integer number of rows", rows, f"write {kind(of)[:-1]}price, 1)"
        )
    return int(rows.this)
