"""SEQUENCE: the numbers or times from one to another, with both ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.core.operators.row_expressions import refusal, refused
from rheos.sql import types
from rheos.sql.expressions.intervals import interval_of
from rheos.sql.expressions.table import CAST, Compiler, Typed, computes_named
from rheos.sql.list_rows import zip_elements
from rheos.sql.text import kind

MOST_NUMBERS = 1_000_000
"""Maximum number of values that SEQUENCE returns for a row."""
_STEP, _FROM, _TO = "step", "from", "to"


@computes_named("sequence", "generate_series")
def sequence(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile SEQUENCE(begin, end[, step]) of integers, dates or times; null if it is too long."""
    return series(compiler, node, Steps())


@dataclass(frozen=True)
class Steps:
    """Rules for the values of a sequence."""

    written: str | None = None
    """The call in the query, for the error about a sequence that is too long; None: it is null."""
    only_up: bool = False
    """Whether a sequence without a step is empty if its end is before its begin."""

    def default(self, begin: pl.Expr, end: pl.Expr) -> pl.Expr:
        """Return the step of a sequence without one."""
        return pl.lit(1) if self.only_up else pl.when(begin <= end).then(1).otherwise(-1)

    def listed(self, begin: pl.Expr, end: pl.Expr, step: pl.Expr) -> pl.Expr:
        """Return the integers from `begin` to `end` as lists."""
        forward = pl.when(step > 0).then((end - begin) // step)
        count = forward.when(step < 0).then((begin - end) // -step) + 1
        if self.written is not None:
            count = of_columns(partial(_bounded, written=self.written), [count], types.BIGINT)
        bounded = pl.when(count <= MOST_NUMBERS).then(count.clip(lower_bound=0))
        steps = pl.int_ranges(0, bounded.fill_null(0)).cast(pl.List(types.BIGINT))
        return pl.when(bounded.is_not_null()).then(steps * step + begin)


def _bounded(columns: Sequence[pl.Series], *, written: str) -> pl.Series:
    [count] = columns
    most = count.max()
    if isinstance(most, int) and most > MOST_NUMBERS:
        raise refusal(
            f"{written} would return {most:,} rows, but the maximum is {MOST_NUMBERS:,}",
            "limit its end, for example with LEAST(n, 1000)",
        )
    return count


def series(compiler: Compiler, node: exp.Anonymous, steps: Steps) -> Typed:
    """Compile the arguments (begin, end[, step]). Raise ProgramError or SchemaError."""
    if not 2 <= len(node.expressions) <= 3:
        raise compiler.sql.error(
            f"{kind(node)} takes 2 to 3 arguments, but has {len(node.expressions)}",
            node,
            "its arguments are the first value, the last one, and a step",
        )
    ends = [compiler.compile(each) for each in node.expressions[:2]]
    if any(each.type == types.DATE or types.is_timestamp(each.type) for each in ends):
        made = _times(compiler, node, ends, steps)
    else:
        step = [compiler.compile(each) for each in node.expressions[2:]]
        made = _integers(compiler, node, ends, step, steps)
    if steps.written is not None and all(each.is_constant for each in ends):
        _check_constant(compiler, node, made.expr)
    return made


def _check_constant(compiler: Compiler, node: exp.Expr, made: pl.Expr) -> None:
    """Refuse a sequence of constants that is too long at its place."""
    try:
        pl.select(made)
    except pl.exceptions.ComputeError as error:
        what, hint = refused(error) or (str(error), "choose a later begin")
        raise compiler.sql.error(what, node, hint) from None


def _integers(
    compiler: Compiler, node: exp.Expr, ends: Sequence[Typed], step: Sequence[Typed], steps: Steps
) -> Typed:
    for each in (*ends, *step):
        if not types.is_integer(types.signed(each.type)) and each.type != types.NULL:
            raise compiler.wrong_type(f"{kind(node)} takes an integer", each, CAST)
    inner = types.common(*(types.signed(each.type) for each in ends))
    begin, end, *by = (compiler.cast(each, types.BIGINT).expr for each in (*ends, *step))
    made = steps.listed(begin, end, by[0] if by else steps.default(begin, end))
    of = pl.List(types.BIGINT if inner in (None, types.NULL) else inner)
    return Typed(made.cast(of), of, node)


def _times(compiler: Compiler, node: exp.Anonymous, ends: Sequence[Typed], steps: Steps) -> Typed:
    """Return the times from one to another by an interval, which is a day if it is left out."""
    (begin, end), of = compiler.common(ends, kind(node))
    by = _step(compiler, node)
    if of == types.DATE and isinstance(by, timedelta) and by % _DAY:
        begin, end = (compiler.cast(each, types.TIMESTAMP) for each in (begin, end))
        of = types.TIMESTAMP
    if isinstance(by, int):
        return Typed(_months(begin.expr, end.expr, by, of, steps), pl.List(of), node)
    unit = _DAY if of == types.DATE else timedelta(microseconds=1)
    first, last = (_number(each.expr, of) for each in (begin, end))
    step = steps.default(first, last) * (_DAY // unit) if by is None else pl.lit(by // unit)
    made = steps.listed(first, last, step.cast(types.BIGINT))
    value = pl.element().cast(types.INT).cast(of) if of == types.DATE else types.moment(pl.element())
    return Typed(made.list.eval(value.cast(of)), pl.List(of), node)


_DAY = timedelta(days=1)


def _step(compiler: Compiler, node: exp.Anonymous) -> timedelta | int | None:
    """Return the interval between two times, or a number of months; None if it is left out."""
    if len(node.expressions) < 3:
        return None
    given, sign = node.expressions[2], 1
    while isinstance(given, exp.Neg | exp.Paren):
        sign = -sign if isinstance(given, exp.Neg) else sign
        given = given.this
    if not isinstance(given, exp.Interval):
        raise compiler.sql.error(
            f"{kind(node)} of times takes a constant interval", given, "write INTERVAL '1' DAY"
        )
    length = interval_of(compiler.sql, given)
    if not length:
        raise compiler.sql.error(f"the interval of {kind(node)} is 0", given, "write INTERVAL '1' DAY")
    return sign * length


def _number(time: pl.Expr, of: pl.DataType) -> pl.Expr:
    days = time.cast(types.INT).cast(types.BIGINT)
    return days if of == types.DATE else time.dt.epoch("us")


def _months(begin: pl.Expr, end: pl.Expr, by: int, of: pl.DataType, steps: Steps) -> pl.Expr:
    """Return times that are months apart. Each is counted from the first, so that the day of a short
    month does not remain."""
    first, last = (each.dt.year().cast(types.BIGINT) * 12 + each.dt.month() for each in (begin, end))
    numbers = steps.listed(pl.lit(0, dtype=types.BIGINT), last - first, pl.lit(by, dtype=types.BIGINT))
    names = (_STEP, _FROM, _TO)
    fields = pl.Struct({_STEP: types.BIGINT, _FROM: of, _TO: of, "place": types.INT})
    given = [numbers, begin, end]
    zipped = of_columns(partial(zip_elements, lists=1, names=names), given, pl.List(fields))
    months, start, stop = (pl.element().struct.field(name) for name in names)
    time = start.dt.offset_by(pl.format("{}mo", months))
    return zipped.list.eval(time.filter(time <= stop if by > 0 else time >= stop))
