"""Window table functions: TUMBLE, HOP, CUMULATE and SESSION, and how later steps use their windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import polars as pl
import pyarrow as pa
from sqlglot import exp

from rheos.core.errors import ProgramError
from rheos.core.graph.windows import Cumulating, Session, Sliding, Tumbling, Window
from rheos.core.operators.window.contract import FixedWindows
from rheos.core.operators.window.kinds import windows_of
from rheos.core.protocol.durations import Duration
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.sql.expressions.intervals import interval_of
from rheos.sql.grouped_plans import WindowedRows
from rheos.sql.plan import CallPlan, ColumnRole, Columns, Explode, Filter, PlanNode, Project, SqlColumn
from rheos.sql.table_arguments import TableArgument
from rheos.sql.text import SqlText

BOUND = pl.Datetime("ms", "UTC")
BOUND_TYPE = pa.timestamp("ms", "UTC")

WINDOW_COLUMNS: Columns = (
    SqlColumn("window_start", BOUND, ColumnRole.WINDOW_START),
    SqlColumn("window_end", BOUND, ColumnRole.WINDOW_END),
    SqlColumn("window_time", BOUND, ColumnRole.WINDOW_TIME),
)

OF_WINDOWS = tuple(column.role for column in WINDOW_COLUMNS)

_ARGUMENTS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET", "ZONE"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET", "ZONE"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET", "ZONE"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
"""Arguments of each function, in positional order."""

_OPTIONAL = ("OFFSET", "ZONE")

_LENGTHS = {
    "TUMBLE": "INTERVAL '10' MINUTES",
    "HOP": "INTERVAL '1' MINUTE, INTERVAL '10' MINUTES",
    "CUMULATE": "INTERVAL '1' MINUTE, INTERVAL '10' MINUTES",
    "SESSION": "INTERVAL '10' MINUTES",
}
"""Lengths of each function in the examples of errors."""


@dataclass(frozen=True)
class WindowCall:
    """A call of a window function, as it is written."""

    table: exp.Table | exp.Subquery
    time: exp.Column
    window: Window
    keys: tuple[exp.Column, ...]


def window_call(sql: SqlText, node: exp.Expr) -> WindowCall | None:
    """Return the window function in FROM; None if the table is not one. Raise ProgramError."""
    if isinstance(node, exp.Anonymous) and node.name.upper() == "TABLE" and len(node.expressions) == 1:
        node = node.expressions[0]
    if not isinstance(node, exp.Anonymous) or node.name.upper() not in _ARGUMENTS:
        return None
    name = node.name.upper()
    example = f"write TABLE({name}(TABLE bids, DESCRIPTOR(ts), {_LENGTHS[name]}))"
    given = _read_arguments(sql, node, _ARGUMENTS[name], example)
    table, keys = given["DATA"], tuple[exp.Column, ...]()
    if isinstance(table, TableArgument):
        keys = tuple(table.args["keys"])
        if keys and name != "SESSION":
            raise sql.error("PARTITION BY can only be used with SESSION", node, "group by the keys")
        if (order := table.args["order"]) is not None:
            raise sql.error(f"{name} takes rows in any order", order, "leave out ORDER BY")
        table = table.this
    if isinstance(table, exp.Column) and len(table.parts) == 1:
        table = exp.Table(this=table.this)  # TUMBLE(bids, ts, ...), as PostgreSQL's relatives write it.
    if not isinstance(table, exp.Table | exp.Subquery):
        raise sql.error(f"{name} takes a table", table, example)
    time = given["TIMECOL"]
    if (
        isinstance(time, exp.Anonymous)
        and time.name.upper() == "DESCRIPTOR"
        and len(time.expressions) == 1
    ):
        [time] = time.expressions
    if not isinstance(time, exp.Column):
        raise sql.error(f"{name} takes the column of event time", time, example)
    lengths = {
        argument: length_of(sql, value, positive=argument != "OFFSET")
        for argument, value in given.items()
        if argument not in ("DATA", "TIMECOL", "ZONE")
    }
    zone = given.get("ZONE")
    if zone is not None and not (isinstance(zone, exp.Literal) and zone.is_string):
        raise sql.error("ZONE must be the name of a time zone", zone, "write ZONE => 'Europe/Berlin'")
    window = window_of(name, lengths, None if zone is None else zone.name)
    try:
        window.check()
    except ProgramError as error:
        hint = error.hint if zone is not None and zone.name in error.what else example
        raise sql.error(error.what.removesuffix(f": {window!r}"), node, hint) from None
    return WindowCall(table, time, window, keys)


def is_clock(node: exp.Expr) -> bool:
    """Return whether an expression is PROCTIME(), which makes windows of processing time."""
    return isinstance(node, exp.Anonymous) and node.name.upper() == "PROCTIME" and not node.expressions


def by_the_clock(window: Window) -> Window:
    """Return the same windows in processing time."""
    assert isinstance(window, Tumbling | Sliding | Cumulating | Session)
    return replace(window, time="processing_time")


def _read_arguments(
    sql: SqlText, node: exp.Anonymous, names: tuple[str, ...], example: str
) -> Mapping[str, exp.Expr]:
    given: dict[str, exp.Expr] = {}
    for place, value in enumerate(node.expressions):
        if isinstance(value, exp.Kwarg):
            name, value = value.this.name.upper(), value.expression
        else:
            name = names[place] if place < len(names) else ""
        if name not in names or name in given:
            raise sql.error(f"{node.name.upper()} takes {', '.join(names)}", value, example)
        given[name] = value
    for name in names:
        if name not in given and name not in _OPTIONAL:
            raise sql.error(f"{node.name.upper()} is missing {name}", node, example)
    return given


def length_of(sql: SqlText, node: exp.Expr, *, positive: bool = True) -> Duration:
    """Return the length of an interval. Raise ProgramError."""
    if not isinstance(node, exp.Interval):
        raise sql.error("the length of a window must be an interval", node, "write INTERVAL '1' HOUR")
    length = interval_of(sql, node)
    if positive and not (length > 0 if isinstance(length, int) else length > timedelta(0)):
        raise sql.error("a window must be longer than 0", node, "write INTERVAL '1' HOUR")
    return f"{length}mo" if isinstance(length, int) else length


def window_of(name: str, lengths: Mapping[str, Duration], zone: str | None) -> Window:
    """Return the windows of a function, given its lengths by the names of its arguments."""
    offset = lengths.get("OFFSET", timedelta(0))
    match name:
        case "TUMBLE":
            return Tumbling(lengths["SIZE"], offset, zone=zone)
        case "HOP":
            return Sliding(lengths["SIZE"], lengths["SLIDE"], offset, zone=zone)
        case "CUMULATE":
            return Cumulating(lengths["SIZE"], lengths["STEP"], offset, zone=zone)
        case _:
            return Session(lengths["GAP"])


def window_names(columns: Iterable[SqlColumn]) -> set[str]:
    """Return the window columns of the rows. A bound may occur more than once."""
    return {column.name for column in columns if column.role in OF_WINDOWS}


def last_time(end: pl.Expr) -> pl.Expr:
    """Return the last millisecond of windows with these ends: their column WINDOW_TIME."""
    return end - pl.duration(milliseconds=1)


def windowed_below(plan: PlanNode) -> WindowedRows | None:
    """Return the window function below projections and filters of its rows."""
    while isinstance(plan, Filter | Project | CallPlan | Explode):
        plan = plan.input
    return plan if isinstance(plan, WindowedRows) else None


def settled(plan: PlanNode) -> Columns:
    """Return the columns of rows whose window function is no longer visible. If their windows have not
    ended, they are plain columns."""
    if windowed_below(plan) is None:
        return plan.columns
    return tuple(
        replace(column, role=ColumnRole.PLAIN) if column.role in OF_WINDOWS else column
        for column in plan.columns
    )


def without_windows(plan: PlanNode) -> PlanNode | None:
    """Return the rows once each, without window columns; None if an expression reads these."""
    match plan:
        case WindowedRows():
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


@dataclass(frozen=True)
class WindowsOfRows:
    """A function of batches that adds a column: the list of windows that each row is in."""

    window: Window
    time: str
    column: str

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the result."""
        of_window = pa.struct([(each.name, BOUND_TYPE) for each in WINDOW_COLUMNS])
        return rows.append(pa.field(self.column, pa.list_(of_window), nullable=False))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        windows = windows_of(self.window)
        assert isinstance(windows, FixedWindows)
        schema = self.schema(batch.schema)
        ts = batch.column(self.time).cast(BOUND_TYPE, safe=False).cast(pa.int64()).to_numpy()
        if not len(ts):
            return pa.RecordBatch.from_pylist([], schema)
        slices, valids = (
            np.broadcast_to(pane, ts.shape)
            for pane in windows.assign(ts, None, 0, MIN_TIMESTAMP_MS // 2).panes
        )
        last = int(windows.last_end(slices).max())
        ends, owner = windows.ends(*windows.due(slices, valids, MIN_TIMESTAMP_MS, last))
        bounds = [pa.array(ms).cast(BOUND_TYPE) for ms in (windows.start_of(ends), ends, ends - 1)]
        places = np.searchsorted(owner, np.arange(len(ts) + 1)).astype(np.int32)
        of_window = pa.StructArray.from_arrays(bounds, [each.name for each in WINDOW_COLUMNS])
        lists = pa.ListArray.from_arrays(pa.array(places), of_window)
        return pa.RecordBatch.from_arrays([*batch.columns, lists], schema=schema)


def _reads(expr: pl.Expr, input: PlanNode) -> bool:
    return bool(set(expr.meta.root_names()) & window_names(input.columns))
