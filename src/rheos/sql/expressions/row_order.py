"""The order of rows: of several values in parentheses, and of structs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns, of_one_length
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.text import number_of

STANDARD_NULLS = "standard nulls"
"""Key of a node's metadata: whether a null makes the comparison of rows unknown, as in PostgreSQL."""


def values_of_row(node: exp.Expr) -> list[exp.Expr] | None:
    """Return the values of (a, b) and ROW(a, b); None for other expressions."""
    is_call = isinstance(node, exp.Anonymous) and node.name.upper() == "ROW"
    return list(node.expressions) if is_call or isinstance(node, exp.Tuple) else None


@dataclass(frozen=True)
class RowValues:
    """The compiled values of a row."""

    node: exp.Expr
    values: list[Typed]

    @staticmethod
    def of(compiler: Compiler, node: exp.Expr) -> RowValues:
        """Compile a row. Raise ProgramError for other expressions."""
        values = values_of_row(node)
        if values is None:
            raise compiler.sql.error(
                "several values in parentheses can only be compared with as many others",
                node,
                "write (a, b) < (c, d)",
            )
        return RowValues(node, [compiler.compile(each) for each in values])

    def order(self, compiler: Compiler, other: RowValues, *, standard: bool) -> pl.Expr:
        """Return -1, 0 or 1: whether the row is less than, equal to or greater than another. The first
        values that differ decide; a null is the least, or makes it unknown. Raise ProgramError."""
        if len(self.values) != len(other.values):
            raise compiler.sql.error(
                f"a row of {number_of(len(self.values), 'value')} cannot be compared with one of "
                f"{len(other.values)}",
                other.node,
                "compare as many values: (a, b) < (c, d)",
            )
        pairs = zip(self.values, other.values, strict=True)
        both = [compiler.common(pair, "a comparison")[0] for pair in pairs]
        columns = [one.expr for one, _ in both] + [another.expr for _, another in both]
        return of_columns(partial(order_rows, standard=standard), columns, pl.Int8())


def order_rows(columns: Sequence[pl.Series], *, standard: bool) -> pl.Series:
    """Return the order of rows, whose values are the first half of the columns, and of others."""
    given = of_one_length(columns)
    half = len(given) // 2
    order = pl.Series([0], dtype=pl.Int8).new_from_index(0, len(given[0]))
    for one, other in reversed([*zip(given[:half], given[half:], strict=True)]):
        frame = pl.DataFrame([one.alias("one"), other.alias("other"), order.alias("order")])
        order = frame.select(_order(standard=standard)).to_series()
    return order.rename(columns[0].name)


def _order(*, standard: bool) -> pl.Expr:
    one, other = pl.col("one"), pl.col("other")
    less, greater = one < other, one > other
    if not standard:
        less = less.fill_null(one.is_null() & other.is_not_null())
        greater = greater.fill_null(other.is_null() & one.is_not_null())
    order = pl.when(less).then(-1).when(greater).then(1).otherwise(pl.col("order"))
    if standard:
        order = pl.when(one.is_not_null() & other.is_not_null()).then(order)
    return order.cast(pl.Int8)
