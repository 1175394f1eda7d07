"""Functions of values as row functions (`rheos.core.graph.row_functions`).

`of_values` is for operations that neither Polars nor Arrow has, such as hashes. It computes each
combination of arguments once per batch. `over_times` computes an expression of times once for each
period in which its value is the same. `over_operands` is for expressions that read an operand several
times: nested calls of them would otherwise double the expression at each level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import polars as pl

from rheos.core.graph.exact_decimals import exact_one
from rheos.core.graph.row_functions import of_columns, of_one_length


def of_values(compute: Callable[..., Any], inputs: Sequence[pl.Expr], returns: pl.DataType) -> pl.Expr:
    """Return an expression that applies a function of a module to the values of each row. If one of
    them is null, so is the result."""
    return of_columns(partial(_computed, compute=compute, returns=returns), inputs, returns)


def _computed(
    columns: Sequence[pl.Series], *, compute: Callable[..., Any], returns: pl.DataType
) -> pl.Series:
    rows = [*zip(*(column.to_list() for column in of_one_length(columns)), strict=True)]
    known = {row: None if None in row else compute(*row) for row in {*rows}}
    return pl.Series(columns[0].name, [known[row] for row in rows], dtype=returns)


def over_times(
    compute: Callable[[pl.Expr], pl.Expr], moment: pl.Expr, unit_us: int, returns: pl.DataType
) -> pl.Expr:
    """Return an expression of times that is computed once for each unit of time in a batch.

    Args:
        compute: Returns the expression. Its value is the same for all times of a unit.
        moment: Times, as TIMESTAMP.
        unit_us: Length of a unit in microseconds. Units begin with the epoch.
        returns: Type of the expression.
    """
    if not moment.meta.root_names():
        return compute(moment)
    made = partial(_of_units, expr=compute(pl.col(_MOMENT)), unit_us=unit_us)
    return of_columns(made, [moment], returns)


_MOMENT = "moment"


def _of_units(columns: Sequence[pl.Series], *, expr: pl.Expr, unit_us: int) -> pl.Series:
    [moments] = columns
    times = moments.to_physical()
    least, greatest = cast("int | None", times.min()), cast("int | None", times.max())
    if least is None or greatest is None or (greatest - least) // unit_us >= len(times):
        return moments.alias(_MOMENT).to_frame().select(expr).to_series().rename(moments.name)
    first, last = least // unit_us, greatest // unit_us
    begins = pl.Series(_MOMENT, np.arange(first, last + 1) * unit_us, pl.Int64).cast(moments.dtype)
    of_units = begins.to_frame().select(expr).to_series()
    if first == last and not times.null_count():
        return of_units.new_from_index(0, len(times)).rename(moments.name)
    places = pl.Series(times.fill_null(least).to_numpy() // unit_us - first)
    if times.null_count():
        places = places.set(times.is_null(), None)
    return of_units.gather(places).rename(moments.name)


def over_operands(
    compute: Callable[..., pl.Expr], operands: Sequence[pl.Expr], takes: Sequence[pl.DataType]
) -> pl.Expr:
    """Return an expression that computes each operand once, however often `compute` reads it.

    Args:
        compute: Returns the expression of the operands, whose values depend on their own rows only.
        operands: The operands. Columns, literals and their casts are read in place.
        takes: The types of the operands.
    """
    names = [f"operand {place}" for place in range(len(operands))]
    made = compute(*map(pl.col, names))
    often = Counter(made.meta.root_names())
    if all(often[name] < 2 or _is_in_place(each) for name, each in zip(names, operands, strict=True)):
        return compute(*operands)
    frame = pl.LazyFrame(schema=dict(zip(names, takes, strict=True)))
    made = exact_one(made.alias(names[0]), frame)
    [returns] = frame.select(made).collect_schema().dtypes()
    return of_columns(partial(_evaluated, expr=made, names=tuple(names)), operands, returns)


def _is_in_place(operand: pl.Expr) -> bool:
    for _ in range(3):
        match operand.meta.pop():
            case []:
                return True
            case [operand]:
                pass
            case _:
                return False
    return False


def _evaluated(columns: Sequence[pl.Series], *, expr: pl.Expr, names: tuple[str, ...]) -> pl.Series:
    frame = pl.DataFrame(dict(zip(names, of_one_length(columns), strict=True)))
    return frame.select(expr).to_series().rename(columns[0].name)
