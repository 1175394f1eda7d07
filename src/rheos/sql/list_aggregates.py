"""Aggregates over the values of lists: what MATCH_RECOGNIZE computes over the rows of a match."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

from rheos.core.aggregates import Agg
from rheos.core.aggregates.sum_too_large import SumTooLarge
from rheos.core.graph.row_functions import of_columns
from rheos.core.graph.types import from_polars
from rheos.core.operators.row_expressions import refusal


def over_list(
    agg: Agg, lists: pl.Expr, values: pl.DataType, result: pl.DataType, written: str
) -> pl.Expr | None:
    """Return the aggregate of each list, or `None` if the aggregate has no frame form.

    Args:
        agg: the aggregate of a column, whatever its name.
        lists: an expression for the lists.
        values: type of the values in the lists.
        result: type of the result.
        written: the call as the user wrote it, for errors.
    """
    if not agg.can_frame():
        return None
    schema = from_polars(pl.Schema({agg.column or "value": values}))
    return of_columns(partial(_of_lists, agg, schema, result, written), [lists], result)


def _of_lists(
    agg: Agg, schema: pa.Schema, result: pl.DataType, written: str, columns: Sequence[pl.Series]
) -> pl.Series:
    [lists] = columns
    make = agg.frame(schema)
    assert make is not None, "checked when the expression is created"
    results: list[Any] = []
    for values in lists.to_list():
        state = make()
        for value in values or ():
            state.add(value)
        try:
            results.append(state.result())
        except SumTooLarge as error:
            raise refusal(*error.in_sql(written)) from None
    return pl.Series(lists.name, results, result)
