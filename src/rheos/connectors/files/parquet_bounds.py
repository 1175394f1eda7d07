"""Bounds of columns in the footer of a Parquet file, and whether a row within them can fulfil a
condition.

The bounds exclude whole files, never a part of one: rows that a filter drops still advance the
watermark of their split, which decides whether later rows of the split are late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from rheos.core.graph.expression_trees import tree_of
from rheos.core.operators.row_expressions import EVALUATION_FAILURES, RowExpressions

_LEAST, _GREATEST = "least of ", "greatest of "
_FLIPPED: Final = {"Gt": "Lt", "GtEq": "LtEq", "Lt": "Gt", "LtEq": "GtEq"}


def has_bounds(kind: pa.DataType) -> bool:
    """Return whether the bounds of a type are used. Floats have none: NaN is greater than all numbers,
    but statistics leave it out."""
    return bool(
        types.is_integer(kind)
        or types.is_string(kind)
        or types.is_date32(kind)
        or types.is_boolean(kind)
        or (types.is_timestamp(kind) and kind.unit != "ns")
    )


def footer_bounds(
    footer: pq.FileMetaData, names: Mapping[str, str], schema: pa.Schema
) -> dict[str, tuple[pa.Scalar, pa.Scalar]]:
    """Return the least and the greatest value of columns, without those of which they are unknown.

    Args:
        footer: the footer of the file.
        names: names in the file, by those of the source.
        schema: columns of the source.
    """
    places = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    found = {
        name: _bounds(footer, places[there], schema.field(name).type)
        for name, there in names.items()
        if there in places
    }
    return {name: bounds for name, bounds in found.items() if bounds is not None}


def _bounds(footer: pq.FileMetaData, at: int, kind: pa.DataType) -> tuple[pa.Scalar, pa.Scalar] | None:
    if not has_bounds(kind):
        return None
    least: list[Any] = []
    greatest: list[Any] = []
    try:
        for number in range(footer.num_row_groups):
            found = footer.row_group(number).column(at).statistics
            if found is None or not found.has_min_max or _has_nanoseconds(found):
                return None
            least.append(found.min)
            greatest.append(found.max)
        return pa.scalar(min(least), kind), pa.scalar(max(greatest), kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None  # The file has another type, or a value that Python does not have.


def _has_nanoseconds(statistics: pq.Statistics) -> bool:
    """Return whether Python would round the bounds."""
    return "timeUnit=nanoseconds" in str(statistics.logical_type)


def may_hold(
    condition: pl.Expr,
    schema: pa.Schema,
    values: Mapping[str, pa.Scalar],
    bounds: Mapping[str, tuple[pa.Scalar, pa.Scalar]],
) -> bool:
    """Return whether a condition may hold for a row of a file.

    Args:
        condition: the condition. It does not hold for a row for which it is null.
        schema: the columns of the rows.
        values: values of columns that are equal in all rows.
        bounds: least and greatest values of further columns.
    """
    known = {name: (name, value) for name, value in values.items()}
    for name, (least, greatest) in bounds.items():
        known |= {_LEAST + name: (name, least), _GREATEST + name: (name, greatest)}
    if not known:
        return True
    row = pa.RecordBatch.from_arrays(
        [pa.repeat(value, 1) for _, value in known.values()],
        schema=pa.schema([pa.field(each, schema.field(of).type) for each, (of, _) in known.items()]),
    )
    possible = _possible(condition, frozenset(values), frozenset(bounds))
    if not possible.meta.root_names():
        return True
    try:
        (holds,) = RowExpressions([possible], row.schema).values(row)
    except EVALUATION_FAILURES:
        return True  # The filter itself reports the error, with the record.
    return holds[0] is not False


def _possible(condition: pl.Expr, exact: frozenset[str], bounded: frozenset[str]) -> pl.Expr:
    """Return a condition on known values that is false only if the condition holds for no row.

    Args:
        condition: the condition.
        exact: columns whose value is known.
        bounded: columns whose bounds are known.
    """
    unknown = pl.lit(True)
    roots = condition.meta.root_names()
    if roots and exact.issuperset(roots):
        return condition.fill_null(False)
    parts = condition.meta.pop()[::-1]
    match tree_of(condition):
        case {"BinaryExpr": {"op": "And" | "LogicalAnd"}}:
            return _possible(parts[0], exact, bounded) & _possible(parts[1], exact, bounded)
        case {"BinaryExpr": {"op": "Or" | "LogicalOr"}}:
            return _possible(parts[0], exact, bounded) | _possible(parts[1], exact, bounded)
        case {"BinaryExpr": {"op": str(op), "left": {"Column": str(name)}}} if name in bounded:
            return _compared(op, name, parts[1])
        case {"BinaryExpr": {"op": str(op), "right": {"Column": str(name)}}} if name in bounded:
            return _compared(_FLIPPED.get(op, op), name, parts[0])
        case {
            "Function": {
                "function": {"Boolean": {"IsBetween": _}},
                "input": [{"Column": str(name)}, _, _],
            }
        } if name in bounded:
            return _compared("GtEq", name, parts[1]) & _compared("LtEq", name, parts[2])
        case _:
            return unknown


def _compared(op: str, name: str, value: pl.Expr) -> pl.Expr:
    """Return a condition on bounds for the comparison of a column with a constant."""
    least, greatest = pl.col(_LEAST + name), pl.col(_GREATEST + name)
    known: Mapping[str, Callable[[], pl.Expr]] = {
        "Gt": lambda: greatest > value,
        "GtEq": lambda: greatest >= value,
        "Lt": lambda: least < value,
        "LtEq": lambda: least <= value,
        "Eq": lambda: (least <= value) & (greatest >= value),
    }
    return pl.lit(True) if op not in known or value.meta.root_names() else known[op]()
