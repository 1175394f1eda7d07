"""Window table functions: TUMBLE, HOP, CUMULATE and SESSION, and where their windows are met again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import polars as pl
from sqlglot import exp

from rheos.errors import ProgramError
from rheos.graph.windows import Cumulating, Session, Sliding, Tumbling, Window
from rheos.sql.expressions.literals import interval_of
from rheos.sql.plan import (
    CallPlan,
    ColumnRole,
    Columns,
    Explode,
    Filter,
    Plan,
    Project,
    SqlColumn,
    Windowed,
)
from rheos.sql.text import SqlText

BOUND = pl.Datetime("ms", "UTC")

WINDOW_COLUMNS: Columns = (
    SqlColumn("window_start", BOUND, ColumnRole.WINDOW_START),
    SqlColumn("window_end", BOUND, ColumnRole.WINDOW_END),
    SqlColumn("window_time", BOUND, ColumnRole.WINDOW_TIME),
)

OF_WINDOWS = tuple(column.role for column in WINDOW_COLUMNS)

_ARGUMENTS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
"""In the order in which they are given without a name. OFFSET may be left out."""

_EXAMPLE = "write TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES))"


@dataclass(frozen=True)
class WindowCall:
    """A call of a window function, as it is written."""

    table: exp.Table
    time: exp.Column
    window: Window
    keys: tuple[exp.Column, ...]


def window_call(sql: SqlText, node: exp.Expr) -> WindowCall | None:
    """What a table in FROM says of windows; None where it is no such function. Raises ProgramError."""
    if isinstance(node, exp.Anonymous) and node.name.upper() == "TABLE" and len(node.expressions) == 1:
        node = node.expressions[0]
    if not isinstance(node, exp.Anonymous) or node.name.upper() not in _ARGUMENTS:
        return None
    name = node.name.upper()
    given = _given(sql, node, _ARGUMENTS[name])
    table, keys = given["DATA"], ()
    if isinstance(table, exp.PartitionedByProperty):
        if name != "SESSION":
            raise sql.error("PARTITION BY is for SESSION alone", node, "group by the keys")
        table, keys = table.this, tuple(table.expressions)
    if not isinstance(table, exp.Table):
        raise sql.error(f"{name} takes a table", table, _EXAMPLE)
    time = given["TIMECOL"]
    named = isinstance(time, exp.Anonymous) and time.name.upper() == "DESCRIPTOR"
    if not named or len(time.expressions) != 1 or not isinstance(time.expressions[0], exp.Column):
        raise sql.error(f"{name} takes the column of event time", time, _EXAMPLE)
    lengths = {
        argument: _length(sql, value)
        for argument, value in given.items()
        if argument not in ("DATA", "TIMECOL")
    }
    try:
        window = _window(name, lengths)
        window.check()
    except ProgramError as error:
        raise sql.error(error.what, node, _EXAMPLE) from None
    return WindowCall(table, time.expressions[0], window, keys)


def is_clock(node: exp.Expr) -> bool:
    """Whether it is PROCTIME(), of which windows by the clock are made."""
    return isinstance(node, exp.Anonymous) and node.name.upper() == "PROCTIME" and not node.expressions


def by_the_clock(window: Window) -> Window:
    """The same windows, in which rows are when they come."""
    assert isinstance(window, Tumbling | Sliding | Cumulating | Session)
    return replace(window, time="processing_time")


def _given(sql: SqlText, node: exp.Anonymous, names: tuple[str, ...]) -> Mapping[str, exp.Expr]:
    given: dict[str, exp.Expr] = {}
    for place, value in enumerate(node.expressions):
        if isinstance(value, exp.Kwarg):
            name, value = value.this.name.upper(), value.expression
        else:
            name = names[place] if place < len(names) else ""
        if name not in names or name in given:
            raise sql.error(f"{node.name.upper()} takes {', '.join(names)}", value, _EXAMPLE)
        given[name] = value
    for name in names:
        if name not in given and name != "OFFSET":
            raise sql.error(f"{node.name.upper()} lacks {name}", node, _EXAMPLE)
    return given


def _length(sql: SqlText, node: exp.Expr) -> timedelta:
    length = interval_of(sql, node) if isinstance(node, exp.Interval) else None
    if not isinstance(length, timedelta):
        raise sql.error("a window is as long as an interval of days or less", node, "INTERVAL '1' HOUR")
    return length


def _window(name: str, lengths: Mapping[str, timedelta]) -> Window:
    offset = lengths.get("OFFSET", timedelta(0))
    match name:
        case "TUMBLE":
            return Tumbling(lengths["SIZE"], offset)
        case "HOP":
            return Sliding(lengths["SIZE"], lengths["SLIDE"], offset)
        case "CUMULATE":
            return Cumulating(lengths["SIZE"], lengths["STEP"], offset)
        case _:
            return Session(lengths["GAP"])


def window_names(columns: Iterable[SqlColumn]) -> set[str]:
    """The columns of the windows that the rows are of; a bound may be there more than once."""
    return {column.name for column in columns if column.role in OF_WINDOWS}


def last_time(end: pl.Expr) -> pl.Expr:
    """The last millisecond of windows that end so: their column WINDOW_TIME."""
    return end - pl.duration(milliseconds=1)


def windowed_below(plan: Plan) -> Windowed | None:
    """The window function whose rows these are, with columns computed and rows left out."""
    while isinstance(plan, Filter | Project | CallPlan | Explode):
        plan = plan.input
    return plan if isinstance(plan, Windowed) else None


def settled(plan: Plan) -> Columns:
    """The columns of rows of which the window function is not seen any more: where their windows are
    not over, those are plain columns."""
    if windowed_below(plan) is None:
        return plan.columns
    return tuple(
        replace(column, role=ColumnRole.PLAIN) if column.role in OF_WINDOWS else column
        for column in plan.columns
    )


def without_windows(plan: Plan) -> Plan | None:
    """The same rows, each once and without the columns of windows; None where an expression reads
    those."""
    match plan:
        case Windowed():
            return plan.input
        case Filter():
            inner = without_windows(plan.input)
            if inner is None or _reads(plan.condition, plan.input):
                return None
            return replace(plan, input=inner, columns=inner.columns)
        case CallPlan() | Explode():
            inner = without_windows(plan.input)
            if inner is None:
                return None
            read = plan.spec.arguments if isinstance(plan, CallPlan) else (plan.column,)
            if {*read} & window_names(plan.input.columns):
                return None
            left = tuple(column for column in plan.columns if column.role not in OF_WINDOWS)
            return replace(plan, input=inner, columns=left)
        case Project():
            inner = without_windows(plan.input)
            if inner is None:
                return None
            kept = [
                (expr, column)
                for expr, column in zip(plan.exprs, plan.columns, strict=True)
                if column.role not in OF_WINDOWS
            ]
            if any(_reads(expr, plan.input) for expr, _ in kept):
                return None
            exprs, columns = tuple(expr for expr, _ in kept), tuple(column for _, column in kept)
            return replace(plan, input=inner, exprs=exprs, columns=columns)
        case _:
            return None


def _reads(expr: pl.Expr, input: Plan) -> bool:
    return bool(set(expr.meta.root_names()) & window_names(input.columns))
