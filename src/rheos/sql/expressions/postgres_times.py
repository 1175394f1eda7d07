"""Functions of times and intervals of PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions import calendar_intervals
from rheos.sql.expressions.calendars import LENGTHS_US
from rheos.sql.expressions.table import ANY, Compiler, Takes, Typed, computes_named
from rheos.sql.expressions.time_zones import in_zone, of_zone, zone_name
from rheos.sql.expressions.times import not_repeatable, periods, time_of
from rheos.sql.text import kind
from rheos.sql.value_functions import over_operands

_INTERVAL = Takes("an INTERVAL", lambda of: isinstance(of, pl.Duration), types.INTERVAL)
_LENGTH = Takes("an INTERVAL", types.is_interval)
_LENGTHS = {
    **{"microsecond": "1us", "millisecond": "1ms", "second": "1s", "minute": "1m", "hour": "1h"},
    **{"day": "1d", "week": "1w", "month": "1mo", "quarter": "1q", "year": "1y"},
}
_YEARS = {"decade": 10, "century": 100, "millennium": 1000}
_OF_INTERVALS = ("microsecond", "millisecond", "second", "minute", "hour", "day")


def _unit(compiler: Compiler, node: exp.Expr, of: exp.Expr) -> str:
    word = of.name.lower()
    unit = {"centuries": "century"}.get(word, word)
    unit = unit if unit in _LENGTHS or unit in _YEARS else unit.removesuffix("s")
    if unit not in _LENGTHS and unit not in _YEARS:
        raise compiler.sql.error(
            f"{kind(node)} has no unit {of.name}",
            of,
            f"the units are {', '.join((*_LENGTHS, *_YEARS))}",
        )
    return unit


@computes_named("pg.date_trunc")
def truncated(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile DATE_TRUNC(unit, time[, zone]), also of an interval."""
    if len(node.expressions) not in (2, 3):
        raise compiler.sql.error(
            f"{kind(node)} takes a unit, a time and a zone", node, "write DATE_TRUNC('hour', ts)"
        )
    unit_node, of, *zone = node.expressions
    unit = _unit(compiler, node, unit_node)
    value = compiler.compile(of)
    if isinstance(value.type, pl.Duration):
        return _truncated_interval(compiler, node, value, unit)
    value = time_of(compiler, of, kind(node))
    if value.type == types.DATE:
        value = compiler.cast(value, types.TIMESTAMP)
    if not zone:
        return Typed(_begin(value.expr, unit), value.type, node)
    name = zone_name(compiler, compiler.compile(zone[0]))
    local = in_zone(compiler.cast(value, types.TIMESTAMP).expr, name)
    return Typed(of_zone(_begin(local, unit), name), types.TIMESTAMP, node)


def _begin(moment: pl.Expr, unit: str) -> pl.Expr:
    if unit in _LENGTHS:
        return moment.dt.truncate(_LENGTHS[unit])
    years = _YEARS[unit]
    year = moment.dt.year()
    first = year.floordiv(10) * 10 if years == 10 else (periods(moment, years) - 1) * years + 1
    back = (year - first).cast(types.TEXT)
    return moment.dt.truncate("1y").dt.offset_by(pl.lit("-") + back + pl.lit("y"))


def _truncated_interval(compiler: Compiler, node: exp.Expr, value: Typed, unit: str) -> Typed:
    if unit not in _OF_INTERVALS:
        raise compiler.sql.error(
            f"{kind(node)} of an interval has no unit {unit}",
            node,
            f"the units are {', '.join(_OF_INTERVALS)}",
        )
    micros = compiler.cast(value, types.INTERVAL).expr.dt.total_microseconds()
    length = LENGTHS_US[unit.upper()]
    made = micros.sign() * (micros.abs() // length * length)
    return Typed(made.cast(types.INTERVAL), types.INTERVAL, node)


@computes_named("date_bin")
def binned(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile DATE_BIN(stride, time, origin): the begin of the time's interval of this length."""
    if len(node.expressions) != 3:
        raise compiler.sql.error(
            f"{kind(node)} takes an interval and two times",
            node,
            "write DATE_BIN(INTERVAL '15 minutes', ts, TIMESTAMP '2026-01-01')",
        )
    given = node.expressions[0]
    if isinstance(given, exp.Literal) and given.is_string:
        given = exp.Interval(this=given)
    call = exp.Anonymous(this=node.name, expressions=[given, *node.expressions[1:]])
    call.meta.update(node.meta)
    stride, _, _ = compiler.given(call, [_INTERVAL, ANY, ANY])
    time, origin = (time_of(compiler, each, kind(node)) for each in node.expressions[1:])
    to = types.TIMESTAMP if time.type == types.DATE else time.type
    micros, begin = (
        compiler.cast(each, types.TIMESTAMP).expr.dt.epoch("us") for each in (time, origin)
    )
    length = stride.expr.dt.total_microseconds()
    made = types.moment(pl.when(length > 0).then(begin + (micros - begin) // length * length))
    back = types.cast(made, types.TIMESTAMP, to)
    assert back is not None, "both are times"
    return Typed(back, to, node)


@computes_named("pg.overlaps")
def overlaps(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile (begin, end) OVERLAPS (begin, end). An end may be the length of the period."""
    begins, ends = node.expressions[::2], node.expressions[1::2]
    bounds = []
    for begin, end in zip(begins, ends, strict=True):
        is_length = isinstance(compiler.compile(end).type, pl.Duration)
        last = exp.Add(this=begin, expression=end) if is_length else end
        both = (
            compiler.cast(time_of(compiler, each, "OVERLAPS"), types.TIMESTAMP)
            for each in (begin, last)
        )
        one, other = (each.expr for each in both)
        bounds.append((pl.min_horizontal(one, other), pl.max_horizontal(one, other)))
    (first, first_end), (second, second_end) = bounds
    is_same_begin = first == second
    made = is_same_begin | ((first < second_end) & (second < first_end))
    return Typed(made, types.BOOLEAN, node)


@computes_named("justify_hours")
def justify_hours(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile JUSTIFY_HOURS: 24 hours are a day in every interval here."""
    [value] = compiler.given(node, [_LENGTH])
    return replace(value, node=node)


@computes_named("justify_days", "justify_interval")
def justify_days(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile JUSTIFY_DAYS: 30 days become a month."""
    [value] = compiler.given(node, [_LENGTH])
    if value.type == types.NULL:
        value = compiler.cast(value, types.INTERVAL)
    made = calendar_intervals.justified(value.expr, value.type)
    return Typed(made, types.CALENDAR_INTERVAL, node)


@computes_named("pg.age")
def age(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile AGE(end, begin): years, months, days and time."""
    if len(node.expressions) == 1:
        raise not_repeatable(compiler, node)
    compiler.given(node, [ANY, ANY])
    times = [
        compiler.cast(time_of(compiler, each, kind(node)), types.TIMESTAMP).expr
        for each in node.expressions
    ]
    made = over_operands(calendar_intervals.age, times, [types.TIMESTAMP, types.TIMESTAMP])
    return Typed(made, types.CALENDAR_INTERVAL, node)


@computes_named("pg.isfinite")
def is_finite(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ISFINITE: times and intervals are all finite here."""
    [value] = compiler.given(node, [ANY])
    if not (value.type in (types.DATE, types.NULL) or value.type.is_temporal()):
        raise compiler.wrong_type(f"{kind(node)} takes a time or an interval", value, "leave it out")
    return Typed(pl.when(value.expr.is_not_null()).then(True), types.BOOLEAN, node)
