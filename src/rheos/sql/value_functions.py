"""Functions of single values as row functions (`rheos.core.graph.row_functions`).

They are for operations that neither Polars nor Arrow has, such as hashes. Each combination of arguments
is computed once per batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import polars as pl

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
