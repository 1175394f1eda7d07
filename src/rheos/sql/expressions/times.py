"""Functions of days and times. Times are in UTC."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import (
    DAY,
    MOMENT,
    SMALL_WHOLE,
    WHOLE,
    Compiler,
    Typed,
    computes,
    computes_named,
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
    "DAYOFWEEK_ISO": lambda t: t.dt.weekday(),
    "DOW_ISO": lambda t: t.dt.weekday(),
    "YEAROFWEEK": lambda t: t.dt.iso_year(),
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
        raise compiler.sql.error(
            f"{part} cannot be extracted yet", node, f"supported are {', '.join(_PARTS)}"
        )
    value = _time(compiler, node.expression, f"EXTRACT({part} FROM ...)")
    return _part(compiler, node, part, value)


@computes_named("date_part")
def date_part(compiler: Compiler, node: exp.Anonymous) -> Typed:
    if len(node.expressions) != 2 or not isinstance(node.expressions[0], exp.Literal):
        raise compiler.sql.error(
            "DATE_PART takes a part and a time", node, "write DATE_PART('YEAR', ts)"
        )
    written, of = node.expressions
    name = str(written.name).upper()
    if name not in _PARTS:
        raise compiler.sql.error(
            f"{name} cannot be extracted yet", node, f"supported are {', '.join(_PARTS)}"
        )
    return _part(compiler, node, name, _time(compiler, of, "DATE_PART"))


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
            "convert it with CAST(... AS TIMESTAMP)",
            at=node,
        )
    return replace(value, expr=types.dated(value.expr, value.type))


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
        raise compiler.sql.error(
            f"{unit.name} cannot be added yet", node, "write d + INTERVAL '1' MONTH"
        )
    day = compiler.compile(node.this)
    if day.type == types.TEXT:
        day = compiler.cast_text(day, types.DATE)
    number = compiler.compile(node.expression)
    if not types.is_integer(number.type) or (
        day.type != types.DATE and not types.is_timestamp(day.type)
    ):
        raise compiler.sql.wrong_type(
            f"DATE_ADD takes a DATE and a number of days, but these are {types.name(day.type)} "
            f"and {types.name(number.type)}",
            node,
            "write DATE_ADD(day, 3)",
        )
    # Days are 32 bits, and wrap as an INT does.
    days = compiler.cast(day, types.DATE).expr.cast(types.INT)
    made = days + compiler.cast(number, types.INT).expr
    return Typed(made.cast(types.DATE), types.DATE, node)


@function(exp.DateDiff, {"this": DAY, "expression": DAY}, types.INT)
def datediff(this: pl.Expr, expression: pl.Expr) -> pl.Expr:
    return (this - expression).dt.total_days().cast(types.INT)


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
    value = compiler.cast(_time(compiler, node.this, "DATE_TRUNC"), types.TIMESTAMP)
    return Typed(value.expr.dt.truncate(length), types.TIMESTAMP, node)


@computes(exp.DateTrunc)
def trunc(compiler: Compiler, node: exp.DateTrunc) -> Typed:
    """Compile TRUNC(day, 'MONTH'): a DATE."""
    compiler.sql.only(node, ("this", "unit"))
    length = _CUT[_unit(compiler, node, _CUT_DAYS)]
    value = compiler.cast(_time(compiler, node.this, "TRUNC"), types.DATE)
    return Typed(value.expr.dt.truncate(length), types.DATE, node)


def _unit(compiler: Compiler, node: exp.Expr, known: Sequence[str]) -> str:
    said = node.args["unit"]
    unit = str(said.name).upper()
    if unit not in known or not isinstance(said, exp.Literal | exp.Var):
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
    """Compile WEEKDAY: Monday is 0."""
    return (this.dt.weekday() - 1).cast(types.INT)


# --- as strings ---------------------------------------------------------------------------------------


def _padded(number: pl.Expr, width: int | pl.Expr) -> pl.Expr:
    return number.cast(types.TEXT).str.zfill(width)


def _year(moment: pl.Expr, letters: int) -> pl.Expr:
    year = moment.dt.year()
    if letters == 2:
        return _padded(year.abs() % 100, 2)
    # A year of more than four digits has a sign if the format has four letters.
    sign = pl.when((year > 9999) & (letters > 3)).then(pl.lit("+")).otherwise(pl.lit(""))
    return sign + _padded(year, letters + (year < 0).cast(types.INT))


def _fraction(moment: pl.Expr, letters: int) -> pl.Expr:
    return (_padded(moment.dt.microsecond(), 6) + pl.lit("000")).str.head(letters)


def _hour_of_half(moment: pl.Expr, letters: int) -> pl.Expr:
    return _padded((moment.dt.hour().cast(types.INT) + 11) % 12 + 1, letters)


_Letters: TypeAlias = Callable[[pl.Expr, int], pl.Expr]
_LETTERS: dict[str, tuple[_Letters, int]] = {
    "y": (_year, 6),
    "M": (
        lambda t, n: _padded(t.dt.month(), n) if n < 3 else t.dt.strftime("%b" if n == 3 else "%B"),
        4,
    ),
    "d": (lambda t, n: _padded(t.dt.day(), n), 2),
    "D": (lambda t, n: _padded(t.dt.ordinal_day(), n), 3),
    "H": (lambda t, n: _padded(t.dt.hour(), n), 2),
    "h": (_hour_of_half, 2),
    "m": (lambda t, n: _padded(t.dt.minute(), n), 2),
    "s": (lambda t, n: _padded(t.dt.second(), n), 2),
    "S": (_fraction, 9),
    "E": (lambda t, n: t.dt.strftime("%a" if n < 4 else "%A"), 4),
    "a": (lambda t, n: pl.when(t.dt.hour() < 12).then(pl.lit("AM")).otherwise(pl.lit("PM")), 1),
}
"""Result of each letter of a format, and how many times the letter may be repeated."""
_PARTS_OF_FORMAT = re.compile(
    r"'(?P<quoted>(?:[^']|'')*)'|(?P<letter>[A-Za-z])(?P=letter)*|(?P<other>[^A-Za-z'])"
)


@computes_named("date_format")
def date_format(compiler: Compiler, node: exp.Anonymous) -> Typed:
    if len(node.expressions) != 2:
        raise compiler.sql.error("DATE_FORMAT takes a time and a format", node)
    of, written = node.expressions
    moment = compiler.cast(_time(compiler, of, "DATE_FORMAT"), types.TIMESTAMP).expr
    pattern = compiler.compile(written).constant
    if not isinstance(pattern, str):
        raise compiler.sql.error("DATE_FORMAT takes a constant format", written)
    parts, at = [pl.lit("")], 0
    for found in _PARTS_OF_FORMAT.finditer(pattern):
        part = _part_of_format(found, moment)
        if part is None or found.start() != at:
            break
        parts.append(part)
        at = found.end()
    if at != len(pattern):
        raise compiler.sql.error(
            f"{pattern[at : at + 8]!r} is not valid in a date format",
            written,
            f"a format consists of {', '.join(_LETTERS)}, of 'text' in quotes, and of other characters",
        )
    return Typed(pl.when(moment.is_not_null()).then(pl.concat_str(parts)), types.TEXT, node)


def _part_of_format(found: re.Match[str], moment: pl.Expr) -> pl.Expr | None:
    if found["letter"] is None:
        quoted = found["quoted"]
        text = found[0] if quoted is None else quoted.replace("''", "'") or "'"
        return None if text in tuple("[]{}#") else pl.lit(text)
    made, most = _LETTERS.get(found["letter"], (None, 0))
    return None if made is None or len(found[0]) > most else made(moment, len(found[0]))


@computes(exp.CurrentTimestamp, exp.CurrentDate, exp.Rand, exp.Randn, exp.Uuid, exp.Shuffle)
@computes_named("now", "random_uuid", "randstr", "monotonically_increasing_id")
def by_chance(compiler: Compiler, node: exp.Expr) -> Typed:
    raise compiler.sql.error(
        f"{kind(node)} would return other values after a failure",
        node,
        "compute it upstream of the job, or in a function: stream.map(...)",
    )
