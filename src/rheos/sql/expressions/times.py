"""Functions of days and times. Times are in UTC."""

from __future__ import annotations

from typing import Any

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import (
    DAY,
    MOMENT,
    WHOLE,
    Compiler,
    Typed,
    computes,
    function,
)
from rheos.sql.text import kind

_PARTS: dict[str, Any] = {
    "YEAR": lambda t: t.dt.year(),
    "QUARTER": lambda t: t.dt.quarter(),
    "MONTH": lambda t: t.dt.month(),
    "WEEK": lambda t: t.dt.week(),
    "DAY": lambda t: t.dt.day(),
    "DAYOFWEEK": lambda t: t.dt.weekday() % 7 + 1,
    "DOW": lambda t: t.dt.weekday() % 7 + 1,
    "DAYOFYEAR": lambda t: t.dt.ordinal_day(),
    "DOY": lambda t: t.dt.ordinal_day(),
    "HOUR": lambda t: t.dt.hour(),
    "MINUTE": lambda t: t.dt.minute(),
}
"""Parts of a time. DAYOFWEEK counts from Sunday, 1; weeks are those of ISO."""

_OF_TIMES = ("HOUR", "MINUTE")


@computes(exp.Extract)
def extract(compiler: Compiler, node: exp.Extract) -> Typed:
    compiler.sql.only(node, ("this", "expression"))
    part = node.this.name.upper()
    if part not in _PARTS:
        raise compiler.sql.error(f"{part} is not extracted yet", node, f"there are {', '.join(_PARTS)}")
    value = _time(compiler, node.expression, f"EXTRACT({part} FROM ...)")
    return _part(compiler, node, part, value)


def _part(compiler: Compiler, node: exp.Expr, part: str, value: Typed) -> Typed:
    of = compiler.cast(value, types.TIMESTAMP) if part in _OF_TIMES else value
    return Typed(_PARTS[part](of.expr).cast(types.INT), types.INT, node)


def _time(compiler: Compiler, node: exp.Expr, what: str) -> Typed:
    value = compiler.compile(node)
    if value.type == types.TEXT:
        value = compiler.cast_text(value, types.TIMESTAMP)
    if value.type != types.DATE and not types.is_timestamp(value.type):
        raise compiler.wrong_type(
            f"{what} takes a DATE or TIMESTAMP",
            value,
            "say what you mean by CAST(... AS TIMESTAMP)",
            at=node,
        )
    return value


_BY_NODE: dict[type[exp.Expr], str] = {
    exp.Year: "YEAR",
    exp.Quarter: "QUARTER",
    exp.Month: "MONTH",
    exp.WeekOfYear: "WEEK",
    exp.Day: "DAY",
    exp.DayOfMonth: "DAY",
    exp.DayOfWeek: "DAYOFWEEK",
    exp.DayOfYear: "DAYOFYEAR",
    exp.Hour: "HOUR",
    exp.Minute: "MINUTE",
}


@computes(*_BY_NODE)
def part(compiler: Compiler, node: exp.Expr) -> Typed:
    compiler.sql.only(node, ("this",))
    name = _BY_NODE[type(node)]
    of = node.args["this"]
    value = _time(compiler, of.this if isinstance(of, exp.TsOrDsToDate) else of, name)
    return _part(compiler, node, name, value)


@function(exp.Second, {"this": MOMENT}, types.INT)
def second(this: pl.Expr) -> pl.Expr:
    return this.dt.second().cast(types.INT)


@computes(exp.TsOrDsToDate)
def to_date(compiler: Compiler, node: exp.TsOrDsToDate) -> Typed:
    compiler.sql.only(node, ("this", "safe"))
    return compiler.cast(compiler.compile(node.this), types.DATE)


@computes(exp.TsOrDsAdd)
def date_add(compiler: Compiler, node: exp.TsOrDsAdd) -> Typed:
    compiler.sql.only(node, ("this", "expression", "unit"))
    unit = node.args.get("unit")
    if unit is not None and unit.name.upper() != "DAY":
        raise compiler.sql.error(f"{unit.name} is not added yet", node, "write d + INTERVAL '1' MONTH")
    day = compiler.compile(node.this)
    if day.type == types.TEXT:
        day = compiler.cast_text(day, types.DATE)
    number = compiler.compile(node.expression)
    if not types.is_integer(number.type) or (
        day.type != types.DATE and not types.is_timestamp(day.type)
    ):
        raise compiler.sql.wrong_type(
            f"days are added to a DATE, and these are {types.name(day.type)} and "
            f"{types.name(number.type)}",
            node,
            "write DATE_ADD(day, 3)",
        )
    made = compiler.cast(day, types.DATE).expr + pl.duration(days=number.expr)
    return Typed(made.cast(types.DATE), types.DATE, node)


@function(exp.DateDiff, {"this": DAY, "expression": DAY}, types.INT)
def datediff(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    return (this - expression).dt.total_days().cast(types.INT)


@function(exp.AddMonths, {"this": DAY, "expression": WHOLE}, types.DATE)
def add_months(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    return this.dt.offset_by(expression.cast(types.TEXT) + pl.lit("mo"))


@function(exp.LastDay, {"this": DAY}, types.DATE)
def last_day(this: pl.Expr) -> pl.Expr:
    return this.dt.month_end()


_CUT = {
    "MILLISECOND": "1ms",
    "SECOND": "1s",
    "MINUTE": "1m",
    "HOUR": "1h",
    "DAY": "1d",
    "WEEK": "1w",
    "MONTH": "1mo",
    "QUARTER": "1q",
    "YEAR": "1y",
}


@computes(exp.TimestampTrunc)
def date_trunc(compiler: Compiler, node: exp.TimestampTrunc) -> Typed:
    compiler.sql.only(node, ("this", "unit"))
    unit = node.args["unit"].name.upper()
    if unit not in _CUT:
        raise compiler.sql.error(f"times are not cut to {unit}", node, f"there are {', '.join(_CUT)}")
    value = compiler.cast(_time(compiler, node.this, "DATE_TRUNC"), types.TIMESTAMP)
    return Typed(value.expr.dt.truncate(_CUT[unit]), types.TIMESTAMP, node)


@function("timestamp_millis", {"this": WHOLE}, types.TIMESTAMP)
def timestamp_millis(this: pl.Expr) -> pl.Expr:
    return types.moment(this * 1000)


@function("timestamp_micros", {"this": WHOLE}, types.TIMESTAMP)
def timestamp_micros(this: pl.Expr) -> pl.Expr:
    return types.moment(this)


@function("timestamp_seconds", {"this": WHOLE}, types.TIMESTAMP)
def timestamp_seconds(this: pl.Expr) -> pl.Expr:
    return types.moment(this * 1_000_000)


@function(exp.UnixMillis, {"this": MOMENT}, types.BIGINT)
def unix_millis(this: pl.Expr) -> pl.Expr:
    return this.dt.epoch("ms")


@function(exp.UnixSeconds, {"this": MOMENT}, types.BIGINT)
def unix_seconds(this: pl.Expr) -> pl.Expr:
    return this.dt.epoch("us") // 1_000_000


@function("weekday", {"this": DAY}, types.INT)
def weekday(this: pl.Expr) -> pl.Expr:
    """From Monday, 0."""
    return (this.dt.weekday() - 1).cast(types.INT)


_FORMATS = {"%Mstrict": "%M", "%mstrict": "%m", "%dstrict": "%d", "%Hstrict": "%H", "%Sstrict": "%S"}
_KNOWN = ("%Y", "%m", "%d", "%H", "%M", "%S")


@computes(exp.TimeToStr)
def date_format(compiler: Compiler, node: exp.TimeToStr) -> Typed:
    compiler.sql.only(node, ("this", "format"))
    of = node.this
    value = _time(compiler, of.this if isinstance(of, exp.TimeStrToTime) else of, "DATE_FORMAT")
    pattern = node.args["format"]
    text = str(pattern.this)
    for name, short in _FORMATS.items():
        text = text.replace(name, short)
    rest = text
    for known in _KNOWN:
        rest = rest.replace(known, "")
    if not isinstance(pattern, exp.Literal) or "%" in rest or any(map(str.isalpha, rest)):
        raise compiler.sql.error(
            "this format is not computed yet",
            node,
            "formats are made of yyyy, MM, dd, HH, mm, ss and what stands between them",
        )
    moment = compiler.cast(value, types.TIMESTAMP)
    return Typed(moment.expr.dt.strftime(text), types.TEXT, node)


@computes(exp.CurrentTimestamp, exp.CurrentDate, exp.Rand, exp.Uuid)
def by_chance(compiler: Compiler, node: exp.Expr) -> Typed:
    raise compiler.sql.error(
        f"{kind(node)} would give other values when a job goes on after a failure",
        node,
        "compute it where the rows come from, or in a function: stream.map(...)",
    )
