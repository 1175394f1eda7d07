"""Functions of values as row functions (`rheos.core.graph.row_functions`).

`of_values` is for operations that neither Polars nor Arrow has, such as hashes. It computes each
combination of arguments once per batch. `over_operands` is for expressions that read an operand several
times: nested calls of them would otherwise double the expression at each level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

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
