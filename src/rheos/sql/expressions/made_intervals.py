"""Intervals that calls make of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.calendar_intervals import with_parts
from rheos.sql.expressions.calendars import LENGTHS_US
from rheos.sql.expressions.table import NUMBER, SMALL_WHOLE, Compiler, Takes, Typed, computes_named
from rheos.sql.text import kind

_PARTS: dict[str, tuple[str, int]] = {
    "years": ("months", 12),
    "months": ("months", 1),
    "weeks": ("micros", LENGTHS_US["WEEK"]),
    "days": ("micros", LENGTHS_US["DAY"]),
    "hours": ("micros", LENGTHS_US["HOUR"]),
    "mins": ("micros", LENGTHS_US["MINUTE"]),
    "secs": ("micros", LENGTHS_US["SECOND"]),
}
"""Parts of an interval in the order of MAKE_INTERVAL: what they count, and how much of it."""


@computes_named("make_interval", "pg.make_interval")
def make_interval(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile MAKE_INTERVAL(days => 1, hours => 2), also by position."""
    given = _named_arguments(compiler, node, [*_PARTS], "MAKE_INTERVAL(days => 1)")
    has_months = any(given[part].name != "0" for part in ("years", "months") if part in given)
    months, micros = _sums(compiler, node, given)
    if not has_months:
        return Typed(micros.cast(types.INTERVAL), types.INTERVAL, node)
    made = with_parts(months, micros, types.CALENDAR_INTERVAL)
    return Typed(made, types.CALENDAR_INTERVAL, node)


@computes_named("make_ym_interval")
def make_ym_interval(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile MAKE_YM_INTERVAL(years, months)."""
    given = _named_arguments(compiler, node, ["years", "months"], "MAKE_YM_INTERVAL(1, 2)")
    months, micros = _sums(compiler, node, given)
    return Typed(with_parts(months, micros, types.MONTHS), types.MONTHS, node)


@computes_named("make_dt_interval")
def make_dt_interval(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile MAKE_DT_INTERVAL(days, hours, mins, secs)."""
    names = ["days", "hours", "mins", "secs"]
    given = _named_arguments(compiler, node, names, "MAKE_DT_INTERVAL(1, 2, 30)")
    _, micros = _sums(compiler, node, given)
    return Typed(micros.cast(types.INTERVAL), types.INTERVAL, node)


def _named_arguments(
    compiler: Compiler, node: exp.Anonymous, names: Sequence[str], example: str
) -> dict[str, exp.Expr]:
    """Return the arguments by their names. Raises ProgramError."""
    given: dict[str, exp.Expr] = {}
    for place, each in enumerate(node.expressions):
        if isinstance(each, exp.Kwarg | exp.PropertyEQ):
            given[each.this.name.lower()] = each.expression
        elif place < len(names):
            given[names[place]] = each
    if not given.keys() <= {*names} or len(node.expressions) > len(given):
        raise compiler.sql.error(f"{kind(node)} takes {', '.join(names)}", node, f"write {example}")
    return given


def _sums(
    compiler: Compiler, node: exp.Anonymous, given: Mapping[str, exp.Expr]
) -> tuple[pl.Expr, pl.Expr]:
    """Return the months and the microseconds of parts. Raises ProgramError, SchemaError."""
    sums = {"months": pl.lit(0, dtype=types.BIGINT), "micros": pl.lit(0, dtype=types.BIGINT)}
    for name, each in given.items():
        of, length = _PARTS[name]
        is_exact = of == "months"
        number = _number(compiler, node, each, SMALL_WHOLE if is_exact else NUMBER)
        if types.is_integer(types.signed(number.type)):
            made = compiler.cast(number, types.BIGINT).expr * length
        else:
            real = compiler.cast(number, types.DOUBLE).expr * float(length)
            made = real.round().cast(types.BIGINT, strict=False)
        sums[of] = sums[of] + made
    return sums["months"], sums["micros"]


def _number(compiler: Compiler, node: exp.Anonymous, given: exp.Expr, takes: Takes) -> Typed:
    call = exp.Anonymous(this=node.name, expressions=[given])
    call.meta.update(node.meta)
    [number] = compiler.given(call, [takes])
    return number
