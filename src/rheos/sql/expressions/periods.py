"""OVERLAPS: whether two periods of time have a point in common.

A period is a start and an end, or a start and a length. Its end may be before its start.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import Compiler, Typed, computes
from rheos.sql.value_functions import over_operands

WITH_ENDS = "with ends"
"""Key of the metadata of OVERLAPS: whether the ends belong to the periods, as in Flink."""


@computes(exp.Overlaps)
def overlaps(compiler: Compiler, node: exp.Overlaps) -> Typed:
    """Compile (start, end or length) OVERLAPS (start, end or length)."""
    given: list[Typed] = []
    for side in (node.this, node.expression):
        if not isinstance(side, exp.Tuple) or len(side.expressions) != 2:
            raise compiler.sql.error(
                "OVERLAPS takes two periods",
                node,
                "write (start, end) OVERLAPS (start, INTERVAL '1' DAY)",
            )
        given += [compiler.compile(each) for each in side.expressions]
    times = [each for each in given if not types.is_interval(each.type)]
    timed = next((each.type for each in times if types.is_timestamp(each.type)), types.DATE)
    given = [
        each if types.is_interval(each.type) else compiler.cast_text(each, timed) for each in given
    ]
    for place, each in enumerate(given):
        is_length = types.is_interval(each.type) and place % 2
        is_time = each.type in (types.DATE, types.NULL) or types.is_timestamp(each.type)
        if not is_length and not is_time:
            raise compiler.wrong_type(
                "OVERLAPS takes times", each, "write CAST(... AS TIMESTAMP), or a length as the end"
            )

    def compute(*operands: pl.Expr) -> pl.Expr:
        read = [replace(one, expr=each) for one, each in zip(given, operands, strict=True)]
        ends = [_end(compiler, *read[:2]), _end(compiler, *read[2:])]
        points, _ = compiler.common([read[0], ends[0], read[2], ends[1]], "OVERLAPS")
        first, second = (_in_order(*points[place : place + 2]) for place in (0, 2))
        return _overlap(first, second, with_ends=bool(node.meta.get(WITH_ENDS)))

    made = over_operands(compute, [each.expr for each in given], [each.type for each in given])
    return Typed(made, types.BOOLEAN, node)


def _end(compiler: Compiler, start: Typed, end: Typed) -> Typed:
    if not types.is_interval(end.type):
        return end
    start_node, length_node = exp.Null(), exp.Null()
    values = {id(start_node): start, id(length_node): end}
    of_values = replace(compiler, instead=lambda node: values.get(id(node)))
    return of_values.compile(exp.Add(this=start_node, expression=length_node))


def _in_order(start: Typed, end: Typed) -> tuple[pl.Expr, pl.Expr]:
    """Return the earlier point first. An unknown start is the end."""
    one, other = start.expr, end.expr
    swaps = ((one > other) | one.is_null()).fill_null(False)
    return pl.when(swaps).then(other).otherwise(one), pl.when(swaps).then(one).otherwise(other)


def _overlap(
    first: tuple[pl.Expr, pl.Expr], second: tuple[pl.Expr, pl.Expr], *, with_ends: bool
) -> pl.Expr:
    (start, end), (other_start, other_end) = first, second
    if with_ends:
        return (end >= other_start) & (other_end >= start)
    # A comparison with an unknown end is null, as in PostgreSQL.
    meets = (
        pl.when(start > other_start)
        .then(start < other_end)
        .when(start < other_start)
        .then(other_start < end)
        .when(start == other_start)
        .then(pl.lit(True))
    )
    known = end.is_not_null() & other_end.is_not_null()
    return pl.when(known | meets & (start != other_start)).then(meets)
