"""Functions of Rheos within expressions, for what Polars has no expression for.

    of_columns(remainder, [pl.col("x"), pl.col("y")], pl.Float64())

A Python function within an expression is otherwise refused: nothing says that it looks at one row, and
it cannot be read as a tree. A row function is given whole columns and returns one of the same length,
in which each value follows from the values of its row alone. It is a function of a module, or a
`functools.partial` of one, so that an expression that calls it is alike wherever it is made, and is
known again in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl


@dataclass(frozen=True)
class RowFunction:
    """A function of columns, as expressions hold it."""

    compute: Callable[[Sequence[pl.Series]], pl.Series]

    def __call__(self, columns: Sequence[pl.Series], *, return_dtype: object = None) -> pl.Series:
        return self.compute(columns)


_NAME: Final = f"{RowFunction.__module__}".encode()
"""What the form in which Polars serialises one contains: it is pickled by its name."""


def of_columns(
    compute: Callable[[Sequence[pl.Series]], pl.Series], inputs: Sequence[pl.Expr], returns: pl.DataType
) -> pl.Expr:
    """The function of these columns, as an expression."""
    return pl.map_batches(inputs, RowFunction(compute), return_dtype=returns, is_elementwise=True)


def is_row_function(tree: Any) -> bool:
    """Whether the part of a tree is a call of one."""
    match tree:
        case {"AnonymousFunction": {"function": [*numbers]}}:
            return _NAME in bytes(numbers)
    return False
