"""Intervals, and the arithmetic of times with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions import calendar_intervals
from rheos.sql.expressions.table import Compiler, Typed, computes
from rheos.sql.text import SqlText

_UNITS = {
    "MICROSECOND": timedelta(microseconds=1),
    "MILLISECOND": timedelta(milliseconds=1),
    "SECOND": timedelta(seconds=1),
    "MINUTE": timedelta(minutes=1),
    "HOUR": timedelta(hours=1),
    "DAY": timedelta(days=1),
    "WEEK": timedelta(weeks=1),
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_SHORT_UNITS = {
    **{"S": "SECOND", "SEC": "SECOND", "M": "MINUTE", "MIN": "MINUTE", "H": "HOUR", "HR": "HOUR"},
    **{"D": "DAY", "W": "WEEK", "MON": "MONTH", "Y": "YEAR", "MS": "MILLISECOND", "US": "MICROSECOND"},
}
"""Units of the string of an interval, as PostgreSQL shortens them."""
_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")
_NUMBER = r"[+-]?\d+(?:\.\d{1,6})?"
_PART = re.compile(rf"\s*({_NUMBER})\s*([A-Za-z]+)\s*,?")
_CLOCK = re.compile(r"\s*([+-]?)(\d+):(\d{1,2})(?::(\d{1,2}(?:\.\d{1,6})?))?\s*")
CALENDAR = "calendar"
"""Key of the metadata of an interval that may have months and days, as in PostgreSQL."""
WHOLE_DAYS = "whole days"
"""Key of the metadata of a difference: that of two days is an integer, as in PostgreSQL."""
_HINT = "write INTERVAL '10' MINUTE"


@computes(exp.Interval)
def interval(compiler: Compiler, node: exp.Interval) -> Typed:
    unit = node.args.get("unit")
    if not _is_literal(node) and unit is not None and not isinstance(unit, exp.IntervalSpan):
        one = exp.Interval(this=exp.Literal.string("1"), unit=unit.copy())
        one.meta.update(node.meta)
        product = exp.Mul(this=node.this, expression=one)
        product.meta.update(node.meta)
        return compiler.compile(product)
    months, length = parts_of_interval(compiler.sql, node)
    if months is None:
        return Typed(
            pl.lit(length, dtype=types.INTERVAL), types.INTERVAL, node, length, is_constant=True
        )
    kind = types.CALENDAR_INTERVAL if CALENDAR in node.meta else types.MONTHS
    micros = length // timedelta(microseconds=1)
    return Typed(calendar_intervals.constant(months, micros, kind), kind, node)


def _is_literal(node: exp.Interval) -> bool:
    return isinstance(node.this.this if isinstance(node.this, exp.Neg) else node.this, exp.Literal)


def interval_of(sql: SqlText, node: exp.Interval) -> timedelta | int:
    """Return the length of an interval; a number of months if its unit is months or years. Raises
    ProgramError."""
    months, length = parts_of_interval(sql, node)
    if months is None:
        return length
    if length:
        raise _months_and_days(sql, node)
    return months


def parts_of_interval(sql: SqlText, node: exp.Interval) -> tuple[int | None, timedelta]:
    """Return the months of an interval, None if it has no unit of months, and the rest of it. Raises
    ProgramError."""
    sql.only(node, ("this", "unit", "fraction_in_string"))
    unit, value = node.args.get("unit"), node.this
    negative = isinstance(value, exp.Neg)
    if isinstance(value, exp.Neg):
        value = value.this
    if not isinstance(value, exp.Literal):
        raise sql.error("an interval is a literal number and a unit", node, _HINT)
    written = str(value.this)
    try:
        match unit:
            case None:
                lengths = _lengths_of_parts(sql, node, written)
            case exp.IntervalSpan():
                lengths = _lengths_of_fields(sql, node, written, unit.this.name, unit.expression.name)
            case _:
                lengths = [_length_of_number(sql, node, written.strip(), unit.name)]
        months = [each for each in lengths if isinstance(each, int)]
        rest = sum((each for each in lengths if isinstance(each, timedelta)), timedelta())
    except OverflowError:
        raise sql.error("the interval is too long", node, _HINT) from None
    if months and abs(sum(months)) > calendar_intervals.LONGEST:
        raise sql.error("the interval is too long", node, "an interval has up to 10,000 years")
    if months and len(months) < len(lengths) and CALENDAR not in node.meta:
        raise _months_and_days(sql, node)
    sign = -1 if negative else 1
    return sign * sum(months) if months else None, sign * rest


def _length_of_number(sql: SqlText, node: exp.Expr, number: str, unit: str) -> timedelta | int:
    """Return the length of INTERVAL '10' MINUTE."""
    word = unit.upper().removesuffix("S")
    if CALENDAR in node.meta:
        word = _SHORT_UNITS.get(word, word)
    if not re.fullmatch(_NUMBER, number):
        raise sql.error(f"{number!r} is not a valid number of {word.lower()}s", node, _HINT)
    amount = Decimal(number)
    if word in _MONTHS and amount == int(amount):
        return int(amount) * _MONTHS[word]
    if word not in _UNITS:
        raise sql.error(f"{unit} is not a unit of an interval", node, _HINT)
    return timedelta(microseconds=int(amount * (_UNITS[word] // timedelta(microseconds=1))))


def _lengths_of_parts(sql: SqlText, node: exp.Expr, written: str) -> Sequence[timedelta | int]:
    """Return the lengths of the parts of INTERVAL '1 day 02:30:00'."""
    lengths: list[timedelta | int] = []
    at = 0
    if re.fullmatch(_NUMBER, written.strip()):
        raise sql.error("an interval is a literal number and a unit", node, _HINT)
    while at < len(written):
        if (clock := _CLOCK.match(written, at)) is not None:
            lengths.append(_length_of_clock(*clock.groups()))
            at = clock.end()
        elif (part := _PART.match(written, at)) is not None:
            number, unit = part.groups()
            known = _SHORT_UNITS.get(unit.upper()) or _SHORT_UNITS.get(unit.upper().removesuffix("S"))
            lengths.append(_length_of_number(sql, node, number, known or unit))
            at = part.end()
        else:
            break
    if at < len(written) or not lengths:
        raise sql.error(
            f"{written!r} is not the length of an interval",
            node,
            "write INTERVAL '1 day 2 hours', or INTERVAL '10' MINUTE",
        )
    return lengths


def _length_of_clock(sign: str, hours: str, minutes: str, seconds: str | None) -> timedelta:
    micros = int(Decimal(seconds or 0) * 1_000_000)
    length = timedelta(hours=int(hours), minutes=int(minutes), microseconds=micros)
    return -length if sign == "-" else length


def _lengths_of_fields(
    sql: SqlText, node: exp.Expr, written: str, first: str, last: str
) -> Sequence[timedelta | int]:
    """Return the lengths of INTERVAL '1 02:03:04' DAY TO SECOND, or '1-2' YEAR TO MONTH."""
    first, last = first.upper(), last.upper()
    numbers = written.strip().removeprefix("+")
    units: Sequence[str] = ("YEAR", "MONTH")
    if (first, last) != units:
        if first not in _FIELDS or last not in _FIELDS[_FIELDS.index(first) + 1 :]:
            what = f"{first} TO {last} is not a unit of an interval"
            raise sql.error(what, node, "write DAY TO SECOND")
        units = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1]
    fields = [r"(\d+(?:\.\d{1,6})?)" if unit == "SECOND" else r"(\d+)" for unit in units]
    behind_first = {"YEAR": "-", "DAY": r"\s+"}.get(first, ":")
    pattern = fields[0] + behind_first + ":".join(fields[1:])
    found = re.fullmatch(pattern, numbers.removeprefix("-"))
    if found is None:
        example = "'1-2' YEAR TO MONTH" if units[0] == "YEAR" else "'1 02:03:04' DAY TO SECOND"
        raise sql.error(
            f"{written!r} is not an interval of {first} TO {last}", node, f"write INTERVAL {example}"
        )
    given = zip(found.groups(), units, strict=True)
    lengths = [_length_of_number(sql, node, *each) for each in given]
    return [-each for each in lengths] if numbers.startswith("-") else lengths


def _months_and_days(sql: SqlText, node: exp.Expr) -> Exception:
    return sql.error(
        "months and days cannot be one interval here, as months differ in length",
        node,
        "add both: ts + INTERVAL '1' MONTH + INTERVAL '2' DAY, or write MAKE_INTERVAL(0, 1, 0, 2)",
    )


# --- times --------------------------------------------------------------------------------------------


def moved_by_literal(compiler: Compiler, node: exp.Add | exp.Sub, sign: int) -> Typed | None:
    """Compile a time or interval plus or minus INTERVAL '10' MINUTE; None for other operands."""
    time, by = node.this, node.expression
    if sign > 0 and isinstance(time, exp.Interval) and not isinstance(by, exp.Interval):
        time, by = by, time
    if not isinstance(by, exp.Interval) or not _is_literal(by):
        return None
    months, length = parts_of_interval(compiler.sql, by)
    if months is not None and length:
        return None
    compiler.sql.only(node, ("this", "expression"))
    moved = compiler.compile(time)
    kind = moved.type
    if months is not None and types.is_interval(kind):
        return None
    if months is not None:
        if not (kind == types.DATE or types.is_timestamp(kind)):
            raise _no_time(compiler, moved)
        return Typed(types.dated(moved.expr, kind).dt.offset_by(f"{sign * months}mo"), kind, node)
    if types.has_months(kind):
        return None
    if moved.type == types.DATE and not (length.seconds or length.microseconds):
        made = types.dated(moved.expr, moved.type).dt.offset_by(f"{sign * length.days}d")
        return Typed(made, types.DATE, node)
    return _moved_by_length(compiler, node, moved, pl.lit(sign * length, dtype=types.INTERVAL))


def moved_by_value(
    compiler: Compiler, node: exp.Add | exp.Sub, left: Typed, right: Typed, sign: int
) -> Typed | None:
    """Compile the sum or difference if one operand is a computed interval, or a DATE and a number of
    days; None for other operands."""
    swaps = sign > 0 and (
        (types.is_interval(left.type) and not types.is_interval(right.type))
        or (types.is_integer(left.type) and right.type == types.DATE)
    )
    moved, by = (right, left) if swaps else (left, right)
    if moved.type == types.DATE and types.is_integer(types.signed(by.type)):
        days = compiler.cast(by, types.INT).expr * sign
        made = types.dated(moved.expr, moved.type).dt.offset_by(pl.format("{}d", days))
        return Typed(made, types.DATE, node)
    if types.is_interval(moved.type) and (types.has_months(moved.type) or types.has_months(by.type)):
        return calendar_intervals.added(compiler, node, moved, by, sign)
    if types.has_months(by.type):
        return calendar_intervals.moved(compiler, node, moved, by, sign)
    if not isinstance(by.type, pl.Duration):
        return None
    compiler.sql.only(node, ("this", "expression"))
    return _moved_by_length(compiler, node, moved, by.expr if sign > 0 else -by.expr)


def _moved_by_length(compiler: Compiler, node: exp.Add | exp.Sub, moved: Typed, by: pl.Expr) -> Typed:
    """Return a time or interval plus an interval. A DATE becomes a TIMESTAMP."""
    if moved.type == types.DATE or types.is_timestamp(moved.type):
        moved = replace(moved, expr=types.dated(moved.expr, moved.type))
    if moved.type == types.DATE:
        moved = compiler.cast(moved, types.TIMESTAMP)
    if types.is_timestamp(moved.type):
        assert isinstance(moved.type, pl.Datetime)
        moved = compiler.cast(moved, pl.Datetime("us", moved.type.time_zone))
    elif isinstance(moved.type, pl.Duration):
        moved = compiler.cast(moved, types.INTERVAL)
    else:
        raise _no_time(compiler, moved)
    return Typed(moved.expr + by, moved.type, node)


def _no_time(compiler: Compiler, value: Typed) -> Exception:
    return compiler.wrong_type(
        "an interval can only be added to a time", value, "convert it with CAST(... AS TIMESTAMP)"
    )


def difference_of_times(
    compiler: Compiler, node: exp.Add | exp.Sub, left: Typed, right: Typed
) -> Typed | None:
    """Compile the difference of two times; None if the operands are not times."""
    if not all(each.type == types.DATE or types.is_timestamp(each.type) for each in (left, right)):
        return None
    compiler.sql.only(node, ("this", "expression"))
    (one, other), of = compiler.common((left, right), "a difference")
    if of == types.DATE and WHOLE_DAYS in node.meta:
        days = one.expr.cast(types.INT) - other.expr.cast(types.INT)
        return Typed(days, types.INT, node)
    return Typed((one.expr - other.expr).cast(types.INTERVAL), types.INTERVAL, node)


def scaled_interval(
    compiler: Compiler, node: exp.Mul | exp.Div, left: Typed, right: Typed
) -> Typed | None:
    """Compile an interval times or divided by a number; None for other operands."""
    if isinstance(node, exp.Mul) and types.is_interval(right.type):
        left, right = right, left
    if not types.is_interval(left.type):
        return None
    if not types.is_number(types.signed(right.type)):
        raise compiler.wrong_type("an interval is multiplied with a number", right, "write 2 * i")
    if types.has_months(left.type):
        return calendar_intervals.scaled(compiler, node, left, right)
    micros = compiler.cast(left, types.INTERVAL).expr.dt.total_microseconds().cast(types.DOUBLE)
    number = compiler.cast(right, types.DOUBLE).expr
    made = micros * number if isinstance(node, exp.Mul) else pl.when(number != 0).then(micros / number)
    return Typed(made.round().cast(types.BIGINT).cast(types.INTERVAL), types.INTERVAL, node)
