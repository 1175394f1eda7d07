"""Python functions of Rheos in Polars expressions, for operations that Polars lacks.

    of_columns(remainder, [pl.col("x"), pl.col("y")], pl.Float64())

Rheos refuses other Python functions in an expression: it cannot tell whether they use only one row, nor
read them as a tree. A row function receives whole columns and returns one of the same length, in which
each value depends only on its own row. It is a function of a module, or a `functools.partial` of one,
so every process serialises expressions with it in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl


@dataclass(frozen=True)
class RowFunction:
    """A function of columns, in the form that expressions contain."""

    compute: Callable[[Sequence[pl.Series]], pl.Series]

    def __call__(self, columns: Sequence[pl.Series], *, return_dtype: object = None) -> pl.Series:
        return self.compute(columns)


_NAME: Final = f"{RowFunction.__module__}".encode()
"""Bytes that occur in the serialised form of every row function: Polars pickles the function with its
module's name."""


def of_columns(
    compute: Callable[[Sequence[pl.Series]], pl.Series], inputs: Sequence[pl.Expr], returns: pl.DataType
) -> pl.Expr:
    """Return an expression that applies the function to these columns."""
    return pl.map_batches(inputs, RowFunction(compute), return_dtype=returns, is_elementwise=True)


def is_row_function(tree: Any) -> bool:
    """Return whether the part of a tree calls a row function."""
    match tree:
        case {"AnonymousFunction": {"function": [*numbers]}}:
            return _NAME in bytes(numbers)
    return False


def of_one_length(columns: Sequence[pl.Series]) -> list[pl.Series]:
    """Return the columns, with constants, which have one row, extended to the longest column."""
    rows = max(map(len, columns))
    if any(len(each) == 0 for each in columns):
        rows = 0
    return [
        each if len(each) == rows else each.new_from_index(0, rows) if rows else each.clear()
        for each in columns
    ]
