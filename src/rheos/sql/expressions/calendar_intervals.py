"""Intervals with months, whose length depends on the time that they are added to.

Their values are structs. `types.MONTHS` has months alone, as INTERVAL YEAR TO MONTH of Spark.
`types.CALENDAR_INTERVAL` has months and microseconds, as the intervals of PostgreSQL. All times are
in UTC, so a day has 24 hours, and is part of the microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.value_functions import over_operands

_DAY_US = 86_400_000_000
_MONTH_US = 30 * _DAY_US
LONGEST = 120_000
"""Number of months that an interval may have, which are 10,000 years. A longer one is null."""
Parts: TypeAlias = tuple[pl.Expr, pl.Expr]
"""Months and microseconds of an interval."""


def parts_of(value: pl.Expr, kind: pl.DataType) -> Parts:
    """Return the parts of an interval of any type."""
    if kind == types.MONTHS:
        return value.struct.field("interval_months"), pl.lit(0, dtype=types.BIGINT)
    if kind == types.CALENDAR_INTERVAL:
        return value.struct.field("interval_months"), value.struct.field("interval_microseconds")
    return pl.lit(0, dtype=types.INT), value.dt.total_microseconds()


def with_parts(months: pl.Expr, micros: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """Return intervals of a type; null where a part is null, or there are too many months."""
    months = months.cast(types.BIGINT)
    found = [months.cast(types.INT, strict=False).alias("interval_months")]
    if kind == types.CALENDAR_INTERVAL:
        found.append(micros.cast(types.BIGINT).alias("interval_microseconds"))
    return pl.when(months.abs() <= LONGEST, micros.is_not_null()).then(pl.struct(found))


def constant(months: int, micros: int, kind: pl.DataType) -> pl.Expr:
    """Return an interval that is a literal."""
    return with_parts(pl.lit(months, dtype=types.INT), pl.lit(micros, dtype=types.BIGINT), kind)


def moved(compiler: Compiler, node: exp.Expr, time: Typed, by: Typed, sign: int) -> Typed:
    """Return a time plus or minus an interval: first the months, then the rest. Of a DATE it is the day
    of the result. Raises SchemaError."""
    if time.type != types.DATE and not types.is_timestamp(time.type):
        raise compiler.wrong_type(
            "an interval of months can only be added to a DATE or a TIMESTAMP",
            time,
            "convert it with CAST(... AS TIMESTAMP)",
        )
    if types.is_timestamp(time.type):
        time = compiler.cast(time, pl.Datetime("us", time.type.time_zone))  # type: ignore[attr-defined]

    def compute(moment: pl.Expr, interval: pl.Expr) -> pl.Expr:
        months, micros = parts_of(interval, by.type)
        months = months.cast(types.BIGINT) * sign
        at = types.dated(moment, time.type).dt.offset_by(months.cast(types.TEXT) + pl.lit("mo"))
        if by.type == types.MONTHS:
            return at
        if time.type == types.DATE:
            days = at.cast(types.INT) + (micros * sign).floordiv(_DAY_US)
            return days.cast(types.INT, strict=False).cast(types.DATE)
        return at + (micros * sign).cast(types.INTERVAL)

    return Typed(over_operands(compute, [time.expr, by.expr], [time.type, by.type]), time.type, node)


def added(compiler: Compiler, node: exp.Expr, left: Typed, right: Typed, sign: int) -> Typed:
    """Return the sum or difference of two intervals, one of which has months. Raises SchemaError."""
    for value in (left, right):
        if not types.is_interval(value.type):
            raise compiler.wrong_type(
                "an interval is added to a time or an interval", value, "leave it out"
            )
    kind = types.common(left.type, right.type)
    if kind is None:
        raise compiler.sql.wrong_type(
            "an interval of months and one of days cannot be added, as months differ in length",
            node,
            "add both to the time: ts + INTERVAL '1' MONTH + INTERVAL '2' DAY",
        )

    def compute(one: pl.Expr, other: pl.Expr) -> pl.Expr:
        (months, micros), (more, more_micros) = parts_of(one, left.type), parts_of(other, right.type)
        wide = months.cast(types.BIGINT) + more.cast(types.BIGINT) * sign
        return with_parts(wide, micros + more_micros * sign, kind)

    return Typed(over_operands(compute, [left.expr, right.expr], [left.type, right.type]), kind, node)


def negated(value: Typed, node: exp.Expr) -> Typed:
    """Return the negative of an interval with months."""

    def compute(one: pl.Expr) -> pl.Expr:
        months, micros = parts_of(one, value.type)
        return with_parts(-months.cast(types.BIGINT), -micros, value.type)

    return Typed(over_operands(compute, [value.expr], [value.type]), value.type, node)


def scaled(compiler: Compiler, node: exp.Mul | exp.Div, value: Typed, number: Typed) -> Typed:
    """Return an interval with months times or divided by a number. Raises SchemaError."""
    if types.is_integer(types.signed(number.type)) and isinstance(node, exp.Mul):
        factor = compiler.cast(number, types.BIGINT)

        def times(one: pl.Expr, by: pl.Expr) -> pl.Expr:
            months, micros = parts_of(one, value.type)
            bounded = pl.when(by.abs() <= LONGEST).then(by)
            return with_parts(months.cast(types.BIGINT) * bounded, micros * bounded, value.type)

        made = over_operands(times, [value.expr, factor.expr], [value.type, types.BIGINT])
        return Typed(made, value.type, node)
    if value.type == types.CALENDAR_INTERVAL:
        raise compiler.wrong_type(
            "an interval with months can only be multiplied by a whole number",
            number,
            "a part of a month has no length; write TRUNC(x), or an interval of days",
        )
    factor = compiler.cast(number, types.DOUBLE)

    def to_the_next(one: pl.Expr, by: pl.Expr) -> pl.Expr:
        """Round halves away from zero, as Spark does."""
        months, micros = parts_of(one, value.type)
        real = months.cast(types.DOUBLE)
        exact = real * by if isinstance(node, exp.Mul) else pl.when(by != 0).then(real / by)
        whole = exact.sign() * (exact.abs() + 0.5).floor()
        bounded = pl.when(exact.is_finite(), whole.abs() <= LONGEST).then(whole)
        return with_parts(bounded.cast(types.BIGINT), micros, value.type)

    made = over_operands(to_the_next, [value.expr, factor.expr], [value.type, types.DOUBLE])
    return Typed(made, value.type, node)


# --- parts and lengths --------------------------------------------------------------------------------


def _quotient(months: pl.Expr, by: int) -> pl.Expr:
    return months.sign() * (months.abs() // by)


def _years(months: pl.Expr) -> pl.Expr:
    return _quotient(months, 12)


PARTS_OF_MONTHS: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "YEAR": _years,
    "MONTH": lambda months: months - _years(months) * 12,
    "QUARTER": lambda months: _quotient(months - _years(months) * 12, 3) + 1,
    "DECADE": lambda months: _quotient(_years(months), 10),
    "CENTURY": lambda months: _quotient(_years(months), 100),
    "MILLENNIUM": lambda months: _quotient(_years(months), 1000),
}
"""Parts of the months of an interval; all but the quarter have the interval's sign."""


def micros_since_epoch(months: pl.Expr, micros: pl.Expr) -> pl.Expr:
    """Return the length by which EXTRACT(EPOCH ...) measures: a year has 365.25 days, a month 30."""
    years = _years(months).cast(types.BIGINT)
    rest = months.cast(types.BIGINT) - years * 12
    return years * (_DAY_US * 1461 // 4) + rest * _MONTH_US + micros


def age(one: pl.Expr, other: pl.Expr) -> pl.Expr:
    """Return the interval from a moment to another: years, months, days and time, as PostgreSQL counts
    them. Missing days are borrowed from the month of the earlier time."""
    is_negative = one < other
    begin = pl.when(is_negative).then(one).otherwise(other)
    end = pl.when(is_negative).then(other).otherwise(one)
    rest = end.dt.epoch("us") % _DAY_US - begin.dt.epoch("us") % _DAY_US
    days = _day(end) - _day(begin) - (rest < 0).cast(types.BIGINT)
    months = _month_number(end) - _month_number(begin) - (days < 0).cast(types.BIGINT)
    length = _day(begin.dt.month_end())
    days = pl.when(days < 0).then(days + length).otherwise(days)
    sign = pl.when(is_negative).then(-1).otherwise(1)
    return with_parts(months * sign, (days * _DAY_US + rest % _DAY_US) * sign, types.CALENDAR_INTERVAL)


def _day(moment: pl.Expr) -> pl.Expr:
    return moment.dt.day().cast(types.BIGINT)


def _month_number(moment: pl.Expr) -> pl.Expr:
    return moment.dt.year().cast(types.BIGINT) * 12 + moment.dt.month().cast(types.BIGINT)


def justified(value: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """Return intervals with 30 days as a month, so that all parts have one sign."""

    def compute(one: pl.Expr) -> pl.Expr:
        months, micros = parts_of(one, kind)
        extra = _quotient(micros, _MONTH_US)
        months, micros = months.cast(types.BIGINT) + extra, micros - extra * _MONTH_US
        less = pl.when((months > 0) & (micros < 0)).then(1)
        borrowed = less.when((months < 0) & (micros > 0)).then(-1).otherwise(0)
        return with_parts(months - borrowed, micros + borrowed * _MONTH_US, types.CALENDAR_INTERVAL)

    return over_operands(compute, [value], [kind])
