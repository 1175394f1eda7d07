"""Arithmetic with units of the calendar: TIMESTAMPADD, TIMESTAMPDIFF, MAKE_DATE."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import (
    DAY,
    MOMENT,
    NUMBER,
    SMALL_WHOLE,
    TEXT,
    WHOLE,
    Compiler,
    Takes,
    Typed,
    computes_named,
    function,
    optional,
)
from rheos.sql.text import kind

_DAY_US = 86_400_000_000
LENGTHS_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": _DAY_US,
    "DAYOFYEAR": _DAY_US,
    "WEEK": 7 * _DAY_US,
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _unit(compiler: Compiler, node: exp.Expr, given: exp.Expr) -> str:
    """Return a unit of the calendar, which a call names as a word or in quotes. Raise ProgramError."""
    word = given.name.upper().removeprefix("SQL_TSI_")
    unit = word if word in LENGTHS_US or word in _MONTHS else word.removesuffix("S")
    if unit not in LENGTHS_US and unit not in _MONTHS:
        raise compiler.sql.error(
            f"{kind(node)} has no unit {given.name}",
            given,
            f"the units are {', '.join((*LENGTHS_US, *_MONTHS))}",
        )
    return unit


def _arguments_after_unit(
    compiler: Compiler, node: exp.Expr, of: list[exp.Expr], *takes: Takes
) -> list[Typed]:
    """Return the arguments after the unit; of times those for which Polars has a calendar."""
    call = exp.Anonymous(this=kind(node).removesuffix("()"), expressions=of)
    call.meta.update(node.meta)
    values = compiler.given(call, takes)
    return [
        replace(each, expr=types.dated(each.expr, each.type)) if types.is_timestamp(each.type) else each
        for each in values
    ]


@computes_named("timestampadd", "dateadd")
def timestamp_add(compiler: Compiler, node: exp.Anonymous) -> Typed:
    if len(node.expressions) == 2:
        return compiler.compile(exp.Anonymous(this="date_add", expressions=node.expressions))
    return added(compiler, node, node.expressions)


def added(compiler: Compiler, node: exp.Expr, given: list[exp.Expr]) -> Typed:
    """Compile TIMESTAMPADD(HOUR, 3, ts), which returns a TIMESTAMP."""
    if len(given) != 3:
        raise compiler.sql.error(
            f"{kind(node)} takes a unit, a number and a time", node, "write TIMESTAMPADD(HOUR, 3, ts)"
        )
    unit = _unit(compiler, node, given[0])
    number, moment = _arguments_after_unit(compiler, node, given[1:], WHOLE, MOMENT)
    if unit in _MONTHS:
        months = (number.expr * _MONTHS[unit]).cast(types.TEXT) + pl.lit("mo")
        return Typed(moment.expr.dt.offset_by(months), types.TIMESTAMP, node)
    micros = moment.expr.dt.epoch("us") + number.expr * LENGTHS_US[unit]
    return Typed(types.moment(micros), types.TIMESTAMP, node)


@computes_named("timestampdiff")
def timestamp_diff(compiler: Compiler, node: exp.Anonymous) -> Typed:
    return difference(compiler, node, node.expressions)


@computes_named("datediff", "date_diff")
def date_diff(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile DATEDIFF(end, start), in days, and DATEDIFF(unit, start, end)."""
    if len(node.expressions) == 3:
        return difference(compiler, node, node.expressions)
    end, start = (types.dated(each.expr, types.DATE) for each in compiler.given(node, [DAY, DAY]))
    return Typed((end - start).dt.total_days().cast(types.INT), types.INT, node)


def difference(compiler: Compiler, node: exp.Expr, given: list[exp.Expr]) -> Typed:
    """Compile TIMESTAMPDIFF(HOUR, start, end): the number of whole units."""
    if len(given) != 3:
        raise compiler.sql.error(
            f"{kind(node)} takes a unit and two times", node, "write TIMESTAMPDIFF(HOUR, start, end)"
        )
    unit = _unit(compiler, node, given[0])
    start, end = (
        each.expr for each in _arguments_after_unit(compiler, node, given[1:], MOMENT, MOMENT)
    )
    if unit in _MONTHS:
        made = _months(start, end)
        return Typed(_truncated(made, _MONTHS[unit]), types.BIGINT, node)
    micros = end.dt.epoch("us") - start.dt.epoch("us")
    return Typed(_truncated(micros, LENGTHS_US[unit]), types.BIGINT, node)


def _truncated(number: pl.Expr, unit: int) -> pl.Expr:
    return number.sign() * (number.abs() // unit)


def _months(start: pl.Expr, end: pl.Expr) -> pl.Expr:
    """Return the number of whole months between two times, as Java counts them."""
    first, last = (each.dt.date().cast(types.INT) for each in (start, end))
    begin, rest = (each.dt.epoch("us") % _DAY_US for each in (start, end))
    less = pl.when((last > first) & (rest < begin)).then(-1)
    moved = last + less.when((last < first) & (rest > begin)).then(1).otherwise(0)
    days = [each.cast(types.DATE) for each in (first, moved)]
    one, other = (_month_number(each) * 32 + each.dt.day().cast(types.BIGINT) for each in days)
    return _truncated(other - one, 32)


def _month_number(moment: pl.Expr) -> pl.Expr:
    return moment.dt.year().cast(types.BIGINT) * 12 + moment.dt.month().cast(types.BIGINT)


_CONDITION = Takes("a BOOLEAN", lambda of: of == types.BOOLEAN, types.BOOLEAN)


@function(
    "months_between",
    {"end": MOMENT, "start": MOMENT, "rounds": optional(_CONDITION)},
    types.DOUBLE,
)  # fmt: skip
def months_between(end: pl.Expr, start: pl.Expr, rounds: pl.Expr | None = None) -> pl.Expr:
    """Return the number of months; a part of a month is one of 31 days."""
    months = (_month_number(end) - _month_number(start)).cast(types.DOUBLE)
    one, other = (each.dt.day().cast(types.BIGINT) for each in (end, start))
    last = (end.dt.month_end().dt.day() == one) & (start.dt.month_end().dt.day() == other)
    seconds = (one - other) * 86_400 + _second_of_day(end) - _second_of_day(start)
    exact = months + seconds.cast(types.DOUBLE) / (31 * 86_400.0)
    rounded = (exact * 1e8 + 0.5).floor() / 1e8
    made = rounded if rounds is None else pl.when(rounds).then(rounded).otherwise(exact)
    made = pl.when((one == other) | last).then(months).otherwise(made)
    return made if rounds is None else pl.when(rounds.is_not_null()).then(made)


def _second_of_day(moment: pl.Expr) -> pl.Expr:
    return (moment.dt.epoch("us") % _DAY_US) // 1_000_000


_WEEK = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
_DAYS_OF_WEEK = {
    name: number for number, day in enumerate(_WEEK, start=1) for name in (day, day[:3], day[:2])
}


@function("next_day", {"day": DAY, "name": TEXT}, types.DATE)
def next_day(day: pl.Expr, name: pl.Expr) -> pl.Expr:
    """Return the first day of the week of this name after a day."""
    wanted = name.str.strip_chars(" ").str.to_uppercase()
    number = wanted.replace_strict(_DAYS_OF_WEEK, default=None, return_dtype=types.INT)
    ahead = (number - day.dt.weekday().cast(types.INT) - 1) % 7 + 1
    return (day.cast(types.INT) + ahead).cast(types.DATE)


@function("dayname", {"day": DAY}, types.TEXT)
def dayname(day: pl.Expr) -> pl.Expr:
    return day.dt.strftime("%a")


@function("monthname", {"day": DAY}, types.TEXT)
def monthname(day: pl.Expr) -> pl.Expr:
    return day.dt.strftime("%b")


# --- made of numbers ----------------------------------------------------------------------------------


def _day_text(year: pl.Expr, month: pl.Expr, day: pl.Expr) -> pl.Expr:
    sign = pl.when(year < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    digits = [year.abs().cast(types.TEXT).str.zfill(4), month.cast(types.TEXT), day.cast(types.TEXT)]
    return sign + pl.concat_str(digits, separator="-")


def _as_type(text: pl.Expr, to: pl.DataType) -> pl.Expr:
    made = types.cast(text, types.TEXT, to)
    assert made is not None
    return made


@function("make_date", {"year": SMALL_WHOLE, "month": SMALL_WHOLE, "day": SMALL_WHOLE}, types.DATE)
def make_date(year: pl.Expr, month: pl.Expr, day: pl.Expr) -> pl.Expr:
    return _as_type(_day_text(year, month, day), types.DATE)


_PARTS = [SMALL_WHOLE] * 5
_NAMES = [f"{tried}make_timestamp{zone}" for tried in ("", "try_") for zone in ("", "_ltz", "_ntz")]


@computes_named(*_NAMES)
def make_timestamp(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile MAKE_TIMESTAMP(year, month, day, hour, minute, second[, zone]).

    60 seconds are a minute.
    """
    *parts, second, zone = compiler.given(node, [*_PARTS, NUMBER, optional(TEXT)]) + (
        [Typed(pl.lit(""), types.TEXT, node)] if len(node.expressions) == 6 else []
    )
    year, month, day, hour, minute = (each.expr for each in parts)
    exact = compiler.cast(second, pl.Decimal(16, 6)).expr
    is_whole = exact == 60
    seconds = pl.when(is_whole).then(0).otherwise(exact).cast(pl.Decimal(16, 6)).cast(types.TEXT)
    time = pl.concat_str([hour.cast(types.TEXT), minute.cast(types.TEXT), seconds], separator=":")
    text = pl.concat_str([_day_text(year, month, day), pl.lit(" "), time, pl.lit(" "), zone.expr])
    to = pl.Datetime("us") if node.name.casefold().endswith("ntz") else types.TIMESTAMP
    made = _as_type(text, to)
    return Typed(pl.when(is_whole).then(made.dt.offset_by("1m")).otherwise(made), to, node)
