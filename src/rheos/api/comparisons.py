"""Check that both sides of a comparison have types that Polars can compare.

Polars derives the type of a comparison without checking the types of its sides, and fails only when it
computes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from rheos.core.graph.expression_trees import Tree, expression_of, is_constant, typed_parts, types_of

_OPS = ("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq")


def misfits(tree: Tree | None, frame: pl.LazyFrame) -> Iterator[tuple[pl.Expr, Exception]]:
    """Return the comparisons whose sides have types that Polars cannot compare, each with Polars'
    error.

    `frame` has the columns but no rows.
    """
    for part, columns in typed_parts(tree, frame):
        compared: Tree | None = None
        match part:
            case {"BinaryExpr": {"left": left, "op": op, "right": right}} if op in _OPS:
                sides, empty = _of_types((left, right), columns)
                if sides:
                    compared = {"BinaryExpr": {"left": sides[0], "op": op, "right": sides[1]}}
            case {"Function": {"input": inputs, "function": {"Boolean": {"IsIn": asked}}}}:
                sides, empty = _of_types(inputs, columns)
                if sides:
                    compared = {"Function": {"input": sides, "function": {"Boolean": {"IsIn": asked}}}}
        if compared is None:
            continue
        try:
            empty.select(expression_of(compared))
        except pl.exceptions.PolarsError as error:
            yield expression_of(part), error


def _of_types(sides: Sequence[Tree], columns: pl.LazyFrame) -> tuple[list[Tree], pl.DataFrame]:
    """Return the sides with a column in place of each part that is not a constant, and an empty frame
    with these columns.

    Some of Polars' functions fail on empty frames, but comparisons do not. Return no sides if a type is
    unknown.
    """
    kinds: dict[str, pl.DataType] = {}
    stand_ins: list[Tree] = []
    for number, side in enumerate(sides):
        if is_constant(side):
            stand_ins.append(side)
            continue
        types = types_of(side, columns)
        if len(types) != 1:
            return [], pl.DataFrame()
        kinds[str(number)] = types[0]
        stand_ins.append({"Column": str(number)})
    return stand_ins, pl.DataFrame(schema=kinds)
