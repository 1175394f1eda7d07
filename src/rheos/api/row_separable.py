"""Whether an expression looks at its own row only, and gives one value for it.

`Expr.meta.is_row_separable()` tells of the outermost function alone: of `col("v") + col("v").mean()`
it sees a sum, which is separable. So every part of the expression is asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import polars as pl

from rheos.errors import ProgramError

_PER_WINDOW = (
    'a stream has no end to compute it over: use .key_by(...).window(rh.Tumbling("1m"))'
    ".aggregate(x=rh.agg.mean(...)) for an answer per window, or .key_by(...).running(...) for one "
    "per row"
)


def check_row_separable(expr: pl.Expr, spelled: str) -> None:
    """Raises a ProgramError that names the windowed alternative."""
    for part in _parts(_askable(expr, spelled)):
        meta = part.meta
        if not meta.is_row_separable() and "strptime" in str(part):
            raise ProgramError(
                f"{spelled} would guess the format anew for each batch",
                hint='say the format, as in col("at").str.to_datetime("%Y-%m-%d %H:%M:%S")',
            )
        if not meta.is_row_separable():
            raise ProgramError(
                f"{spelled} needs other rows than its own, and would answer per batch", hint=_PER_WINDOW
            )
        if not (meta.is_length_preserving() or meta.is_scalar()):
            raise ProgramError(
                f"{spelled} does not give one value per row",
                hint="use .filter(...) to drop rows, and .flat_map(fn) to make several of one",
            )


def _parts(expr: pl.Expr) -> Iterator[pl.Expr]:
    yield expr
    for part in expr.meta.pop():
        yield from _parts(part)


def _askable(expr: pl.Expr, spelled: str) -> pl.Expr:
    """The expression, with the parts that Polars can tell of only in a frame replaced by ones of the
    same nature."""
    try:
        tree = expr.meta.serialize(format="json")
    except pl.exceptions.ComputeError:
        tree = None
    if tree is None or "python_udf" in str(expr):
        raise ProgramError(
            f"{spelled} calls a Python function within an expression",
            hint="use .map(fn) for a function of a record, or .map_batches(fn, returns=...) for one of "
            "whole batches",
        )
    return pl.Expr.deserialize(StringIO(json.dumps(_simplified(json.loads(tree)))), format="json")


def _simplified(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_simplified(branch) for branch in tree]
    if not isinstance(tree, dict):
        return tree
    match tree:
        case {"Selector": _}:
            # One of the columns stands for all that are selected.
            return {"Column": "any"}
        case {"Eval": {"expr": outer}} | {"StructEval": {"expr": outer}}:
            # What goes on within the elements of a list, or the fields of a struct, stays in the row.
            return _simplified(outer)
        case {
            "Function": {"function": {"Boolean": {"IsIn": _}} | {"Sql": {"IsIn": _}}, "input": inputs}
        }:
            # The values to look for may be a constant of any length.
            value, *among = inputs
            return _row_wise([value, *(some for some in among if some.keys() != {"Literal"})])
        case {"Function": {"function": {"Sql": _}, "input": inputs}}:
            # SQL's own arithmetic.
            return _row_wise(inputs)
    return {name: _simplified(branch) for name, branch in tree.items()}


def _row_wise(inputs: list[Any]) -> Any:
    """Some function of a row's values."""
    return {"Function": {"input": _simplified(inputs), "function": "AsStruct"}}
