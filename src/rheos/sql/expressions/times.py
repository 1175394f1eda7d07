"""Functions of days and times. Times are in UTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import polars as pl
from sqlglot import exp

from rheos.core.errors import ProgramError
from rheos.sql import types
from rheos.sql.expressions.calendar_intervals import PARTS_OF_MONTHS, micros_since_epoch, parts_of
from rheos.sql.expressions.calendars import added
from rheos.sql.expressions.table import (
    DAY,
    MOMENT,
    NUMBER,
    SMALL_WHOLE,
    WHOLE,
    Compiler,
    Typed,
    computes,
    computes_named,
    function,
)
from rheos.sql.text import kind
from rheos.sql.value_functions import over_operands

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
    "DAYOFWEEK_ISO": lambda t: t.dt.weekday(),
    "DOW_ISO": lambda t: t.dt.weekday(),
    "YEAROFWEEK": lambda t: t.dt.iso_year(),
    "CENTURY": lambda t: periods(t, 100),
    "DECADE": lambda t: t.dt.year().floordiv(10),
    "MILLENNIUM": lambda t: periods(t, 1000),
    "HOUR": lambda t: t.dt.hour(),
    "MINUTE": lambda t: t.dt.minute(),
    "SECOND": lambda t: _of_micros(_micros(t)),
    "MILLISECOND": lambda t: _micros(t) // 1_000,
    "MICROSECOND": lambda t: _micros(t),
    "EPOCH": lambda t: _of_micros(t.dt.epoch("us")),
}
"""Parts of a time. DAYOFWEEK counts from Sunday, 1; weeks are those of ISO."""


def periods(moment: pl.Expr, years: int) -> pl.Expr:
    """Return the number of the century or millennium, which begins with the year 1."""
    year = moment.dt.year()
    return pl.when(year > 0).then((year + years - 1) // years).otherwise(-((years - year) // years))


def _micros(moment: pl.Expr) -> pl.Expr:
    """Return the second of the minute, in microseconds."""
    return moment.dt.epoch("us") % 60_000_000


def _of_micros(micros: pl.Expr) -> pl.Expr:
    return micros.cast(pl.Decimal(20, 0)) * pl.lit(Decimal("0.000001"))


_SECONDS, _SINCE_EPOCH = pl.Decimal(8, 6), pl.Decimal(20, 6)
_OF_TIMES: dict[str, pl.DataType] = {
    **dict.fromkeys(("HOUR", "MINUTE", "MILLISECOND", "MICROSECOND"), types.INT),
    "SECOND": _SECONDS,
    "EPOCH": _SINCE_EPOCH,
}
"""Types of the parts that a DATE has only as a TIMESTAMP."""
_OTHER_NAMES = {
    **dict.fromkeys(("Y", "YEARS", "YR", "YRS"), "YEAR"),
    "QTR": "QUARTER",
    **dict.fromkeys(("MON", "MONS", "MONTHS"), "MONTH"),
    **dict.fromkeys(("W", "WEEKS"), "WEEK"),
    **dict.fromkeys(("D", "DAYS"), "DAY"),
    "ISODOW": "DAYOFWEEK_ISO",
    "ISOYEAR": "YEAROFWEEK",
    **dict.fromkeys(("H", "HOURS", "HR", "HRS"), "HOUR"),
    **dict.fromkeys(("M", "MIN", "MINS", "MINUTES"), "MINUTE"),
    **dict.fromkeys(("S", "SEC", "SECONDS", "SECS"), "SECOND"),
    **dict.fromkeys(("MILLISECONDS", "MS"), "MILLISECOND"),
    **dict.fromkeys(("MICROSECONDS", "US"), "MICROSECOND"),
}


@computes(exp.Extract)
def extract(compiler: Compiler, node: exp.Extract) -> Typed:
    compiler.sql.only(node, ("this", "expression"))
    return _extracted(compiler, node, node.this, node.expression)


@computes_named("date_part", "datepart")
def date_part(compiler: Compiler, node: exp.Anonymous) -> Typed:
    if len(node.expressions) != 2 or not isinstance(node.expressions[0], exp.Literal):
        raise compiler.sql.error(
            "DATE_PART takes a part and a time", node, "write DATE_PART('YEAR', ts)"
        )
    return _extracted(compiler, node, *node.expressions)


def _extracted(compiler: Compiler, node: exp.Expr, named: exp.Expr, of: exp.Expr) -> Typed:
    part = _OTHER_NAMES.get(named.name.upper(), named.name.upper())
    if part not in _PARTS:
        raise compiler.sql.error(
            f"{part} cannot be extracted", node, f"supported are {', '.join(_PARTS)}"
        )
    value = compiler.compile(of)
    if types.has_months(value.type) and part in (*PARTS_OF_MONTHS, *_OF_INTERVALS):
        return _part_with_months(node, part, value)
    if part in _OF_INTERVALS and isinstance(value.type, pl.Duration):
        return _part_of_interval(compiler, node, part, value)
    return _part(compiler, node, part, time_of(compiler, of, f"EXTRACT({part} FROM ...)"))


_OF_INTERVALS: dict[str, tuple[Callable[[pl.Expr], pl.Expr], pl.DataType]] = {
    "DAY": (lambda micros: micros // 86_400_000_000, types.INT),
    "HOUR": (lambda micros: micros // 3_600_000_000 % 24, types.INT),
    "MINUTE": (lambda micros: micros // 60_000_000 % 60, types.INT),
    "SECOND": (lambda micros: _of_micros(micros % 60_000_000), _SECONDS),
    "EPOCH": (lambda micros: _of_micros(micros), _SINCE_EPOCH),
}
"""Parts of the microseconds of an interval, which is not negative. 24 hours are a day."""


def _part_of_interval(compiler: Compiler, node: exp.Expr, part: str, value: Typed) -> Typed:
    """Return a part of an interval, which has the interval's sign."""
    compute, kind = _OF_INTERVALS[part]
    micros = compiler.cast(value, types.INTERVAL).expr.dt.total_microseconds()
    made = compute(micros.abs())
    return Typed(pl.when(micros < 0).then(-made).otherwise(made).cast(kind), kind, node)


def _part_with_months(node: exp.Expr, part: str, value: Typed) -> Typed:
    """Return a part of an interval with months. Its days and times are those of the rest."""
    kind = _OF_INTERVALS[part][1] if part in _OF_INTERVALS else types.INT

    def compute(interval: pl.Expr) -> pl.Expr:
        months, micros = parts_of(interval, value.type)
        if part in PARTS_OF_MONTHS:
            return PARTS_OF_MONTHS[part](months).cast(kind)
        if part == "EPOCH":
            micros = micros_since_epoch(months, micros)
        made = _OF_INTERVALS[part][0](micros.abs())
        made = pl.when(micros < 0).then(-made).otherwise(made).cast(kind)
        return pl.when(interval.is_not_null()).then(made)

    return Typed(over_operands(compute, [value.expr], [value.type]), kind, node)


def _part(compiler: Compiler, node: exp.Expr, part: str, value: Typed) -> Typed:
    of = compiler.cast(value, types.TIMESTAMP) if part in _OF_TIMES else value
    kind = _OF_TIMES.get(part, types.INT)
    return Typed(_PARTS[part](of.expr).cast(kind), kind, node)


def time_of(compiler: Compiler, node: exp.Expr, what: str) -> Typed:
    value = compiler.compile(node)
    if value.type == types.TEXT:
        value = compiler.cast_text(value, types.TIMESTAMP)
    if value.type != types.DATE and not types.is_timestamp(value.type):
        raise compiler.wrong_type(
            f"{what} takes a DATE or TIMESTAMP",
            value,
            "convert it with CAST(... AS TIMESTAMP)",
            at=node,
        )
    return replace(value, expr=types.dated(value.expr, value.type))


_BY_NODE: dict[type[exp.Expr], str] = {
    exp.Year: "YEAR",
    exp.Quarter: "QUARTER",
    exp.Month: "MONTH",
    exp.WeekOfYear: "WEEK",
    exp.Week: "WEEK",
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
    value = time_of(compiler, of.this if isinstance(of, exp.TsOrDsToDate) else of, name)
    return _part(compiler, node, name, value)


@function(exp.Second, {"this": MOMENT}, types.INT)
def second(this: pl.Expr) -> pl.Expr:
    return this.dt.second().cast(types.INT)


@computes_named("date_add", "date_sub")
def date_add(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile DATE_ADD(day, n) and DATE_ADD(unit, n, time)."""
    if len(node.expressions) == 3:
        return added(compiler, node, node.expressions)
    if len(node.expressions) == 2 and isinstance(node.expressions[1], exp.Interval):
        move = exp.Add if node.name.casefold() == "date_add" else exp.Sub
        return compiler.compile(move(this=node.expressions[0], expression=node.expressions[1]))
    day, number = compiler.given(node, [DAY, SMALL_WHOLE])
    # Days are 32 bits, and wrap as an INT does.
    days = day.expr.cast(types.INT)
    made = days + number.expr if node.name.casefold() == "date_add" else days - number.expr
    return Typed(made.cast(types.DATE), types.DATE, node)


@function(exp.AddMonths, {"this": DAY, "expression": SMALL_WHOLE}, types.DATE)
def add_months(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    return this.dt.offset_by(expression.cast(types.TEXT) + pl.lit("mo"))


@function(exp.LastDay, {"this": DAY}, types.DATE)
def last_day(this: pl.Expr) -> pl.Expr:
    return this.dt.month_end()


_CUT = {
    "MICROSECOND": "1us",
    "MILLISECOND": "1ms",
    "SECOND": "1s",
    "MINUTE": "1m",
    "HOUR": "1h",
    **dict.fromkeys(("DAY", "DD"), "1d"),
    "WEEK": "1w",
    **dict.fromkeys(("MONTH", "MON", "MM"), "1mo"),
    "QUARTER": "1q",
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "1y"),
}
_CUT_DAYS = [unit for unit, length in _CUT.items() if length in ("1w", "1mo", "1q", "1y")]


@computes(exp.TimestampTrunc)
def date_trunc(compiler: Compiler, node: exp.TimestampTrunc) -> Typed:
    compiler.sql.only(node, ("this", "unit"))
    length = _CUT[_unit(compiler, node, list(_CUT))]
    value = compiler.cast(time_of(compiler, node.this, "DATE_TRUNC"), types.TIMESTAMP)
    return Typed(value.expr.dt.truncate(length), types.TIMESTAMP, node)


@computes(exp.DateTrunc)
def trunc(compiler: Compiler, node: exp.DateTrunc) -> Typed:
    """Compile TRUNC(day, 'MONTH'): a DATE."""
    compiler.sql.only(node, ("this", "unit"))
    length = _CUT[_unit(compiler, node, _CUT_DAYS)]
    value = compiler.cast(time_of(compiler, node.this, "TRUNC"), types.DATE)
    return Typed(value.expr.dt.truncate(length), types.DATE, node)


def time_to_unit(compiler: Compiler, node: exp.Ceil | exp.Floor, unit: exp.Expr) -> Typed:
    """Compile FLOOR(ts TO HOUR) and CEIL(ts TO HOUR), which return the type of the time."""
    value = time_of(compiler, node.this, kind(node))
    length = _CUT[_known_unit(compiler, node, unit, _CUT_DAYS if value.type == types.DATE else [*_CUT])]
    cut = value.expr.dt.truncate(length)
    if isinstance(node, exp.Ceil):
        cut = pl.when(cut == value.expr).then(cut).otherwise(cut.dt.offset_by(length))
    return Typed(cut, value.type, node)


def _unit(compiler: Compiler, node: exp.Expr, known: Sequence[str]) -> str:
    return _known_unit(compiler, node, node.args["unit"], known)


def _known_unit(compiler: Compiler, node: exp.Expr, unit_node: exp.Expr, known: Sequence[str]) -> str:
    unit = str(unit_node.name).upper()
    if unit not in known or not isinstance(unit_node, exp.Literal | exp.Var):
        raise compiler.sql.error(
            f"unknown unit {unit} for truncating times", node, f"supported are {', '.join(known)}"
        )
    return unit


@function("timestamp_millis", {"this": WHOLE}, types.TIMESTAMP)
def timestamp_millis(this: pl.Expr) -> pl.Expr:
    return types.moment(this * 1000)


@function("timestamp_micros", {"this": WHOLE}, types.TIMESTAMP)
def timestamp_micros(this: pl.Expr) -> pl.Expr:
    return types.moment(this)


@computes_named("timestamp_seconds")
def timestamp_seconds(compiler: Compiler, node: exp.Anonymous) -> Typed:
    [value] = compiler.given(node, [NUMBER])
    if types.is_floating(value.type):
        return compiler.cast(value, types.TIMESTAMP)
    wide = value.expr.cast(pl.Decimal(38, 6)) * 1_000_000
    return Typed(types.moment(wide.cast(types.BIGINT, strict=False)), types.TIMESTAMP, node)


@function(exp.UnixMillis, {"this": MOMENT}, types.BIGINT)
def unix_millis(this: pl.Expr) -> pl.Expr:
    return this.dt.epoch("ms")


@function(exp.UnixSeconds, {"this": MOMENT}, types.BIGINT)
def unix_seconds(this: pl.Expr) -> pl.Expr:
    return this.dt.epoch("us") // 1_000_000


@function("unix_micros", {"this": MOMENT}, types.BIGINT)
def unix_micros(this: pl.Expr) -> pl.Expr:
    return this.dt.epoch("us")


@function("unix_date", {"day": DAY}, types.INT)
def unix_date(day: pl.Expr) -> pl.Expr:
    return day.cast(types.INT)


@function("date_from_unix_date", {"days": SMALL_WHOLE}, types.DATE)
def date_from_unix_date(days: pl.Expr) -> pl.Expr:
    return days.cast(types.DATE)


@function("weekday", {"this": DAY}, types.INT)
def weekday(this: pl.Expr) -> pl.Expr:
    """Compile WEEKDAY: Monday is 0."""
    return (this.dt.weekday() - 1).cast(types.INT)


@computes(exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Localtime, exp.Localtimestamp)
@computes(exp.Rand, exp.Randn, exp.Uuid, exp.Shuffle, exp.Uniform)
@computes_named("now", "random_uuid", "randstr", "monotonically_increasing_id")
def by_chance(compiler: Compiler, node: exp.Expr) -> Typed:
    raise not_repeatable(compiler, node)


def not_repeatable(compiler: Compiler, node: exp.Expr) -> ProgramError:
    """Return the error for a call whose result would be another one after a restart."""
    return compiler.sql.error(
        f"{kind(node)} would return other values after a failure",
        node,
        "compute it upstream of the job, or in a function: stream.map(...); for recent rows, write "
        "WHERE now() <= ts + INTERVAL '1' DAY, or use windows of event time",
    )
