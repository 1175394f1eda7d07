"""Polars' expressions as trees, to look into.

`Expr.meta` answers for the outermost call of an expression. What lies within is seen in the form alone
in which Polars serialises it, which is Polars' own and private:

    col("x") / 3    {"BinaryExpr": {"left": {"Column": "x"}, "op": "TrueDivide",
                                    "right": {"Literal": {"Dyn": {"Int": 3}}}}}

Each form that is read, here and by those who import this, is held by a test
(`tests/graph/test_expression_trees.py`), so that a new Polars cannot change one unseen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from io import StringIO
from typing import Any, TypeAlias

import polars as pl

from rheos.graph.row_functions import is_row_function

Tree: TypeAlias = Any
"""A part of an expression: a dict with one key, or the text "Element" or "Len"."""

_MOST_ROUNDED = 8
"""How many floats away Polars may read a number."""

FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What Polars raises where an expression is wrong, or Polars is."""

ARITHMETIC = (
    "Plus",
    "Minus",
    "Multiply",
    "Divide",
    "TrueDivide",
    "FloorDivide",
    "TruncDivide",
    "Modulus",
)
"""The operators of `{"BinaryExpr": {"op": ...}}` that compute."""

_PYTHON = (
    *("AnonymousFunction", "PipeWithDtype"),
    *("FoldHorizontal", "ReduceHorizontal", "CumFoldHorizontal", "CumReduceHorizontal"),
    *("Map", "MapFieldNames"),
)
_SOURCES = ("Column", "Selector", "Field")


def tree_of(expr: pl.Expr) -> Tree | None:
    """Return the expression's tree. None if it calls a Python function, which cannot be read as a tree,
    other than Rheos' own row functions.

    JSON has no infinities and no NaN: of such a literal the value is missing (None).
    """
    try:
        tree = json.loads(expr.meta.serialize(format="json"))
    except (*FAILURES, ValueError):
        return None
    return None if any(_calls_python(part) for part in subtrees(tree)) else tree


def expression_of(tree: Tree) -> pl.Expr:
    """Return the expression, of the same types. An infinite literal, or NaN, is 0. Raises FAILURES."""
    return _read(_with_floats(tree, _written))


def is_whole(tree: Tree) -> bool:
    """Return whether `expression_of` restores the tree's expression: JSON has every literal of it."""
    return bool(_with_floats(tree, lambda value: 0.0 if value is None else value) == tree)


def _read(tree: Tree) -> pl.Expr:
    return pl.Expr.deserialize(StringIO(json.dumps(tree)), format="json")


@lru_cache(1024)
def _written(value: float | None) -> float:
    """Return the number to write, so that Polars reads `value`.

    Polars' reader of JSON rounds some numbers of 16 and more digits to another float nearby.
    """
    if value is None:
        return 0.0
    above = below = value
    for _ in range(_MOST_ROUNDED):
        for candidate in (above, below):
            if pl.select(_read({"Literal": {"Scalar": {"Float64": candidate}}})).item() == value:
                return candidate
        above, below = math.nextafter(above, math.inf), math.nextafter(below, -math.inf)
    raise pl.exceptions.ComputeError(f"Polars does not read {value!r}")


def subtrees(tree: Tree) -> Iterator[Tree]:
    """The tree and all that is within, down to literals."""
    yield tree
    if isinstance(tree, dict) and "Literal" not in tree:
        for branch in tree.values():
            yield from subtrees(branch)
    elif isinstance(tree, list):
        for branch in tree:
            yield from subtrees(branch)


def is_constant(tree: Tree) -> bool:
    """Whether it is made of literals alone."""
    return not any(
        part in ("Element", "Len")
        or (isinstance(part, dict) and any(name in part for name in _SOURCES))
        for part in subtrees(tree)
    )


def typed_parts(tree: Tree, frame: pl.LazyFrame) -> Iterator[tuple[Tree, pl.LazyFrame]]:
    """Every part of the tree, with a frame that has the columns that it reads.

    Elements of lists are the column "" of a frame of their own; fields of a struct are taken from it.
    """
    yield tree, frame
    match tree:
        case {"Literal": _}:
            return
        case {"Eval": {"expr": outer, "evaluation": inner}}:
            yield from typed_parts(outer, frame)
            lists = types_of(outer, frame)
            kind = getattr(lists[0], "inner", None) if lists else None
            yield from typed_parts(elements_named(inner), pl.LazyFrame(schema={"": kind or pl.Null()}))
        case {"StructEval": {"expr": outer, "evaluation": inner}}:
            yield from typed_parts(outer, frame)
            for each in inner:
                yield from typed_parts(fields_taken(each, outer), frame)
        case dict():
            for branch in tree.values():
                yield from typed_parts(branch, frame)
        case list():
            for branch in tree:
                yield from typed_parts(branch, frame)


def types_of(tree: Tree, frame: pl.LazyFrame) -> list[pl.DataType]:
    """The types of the values: several where it selects columns, none where they are not known."""
    try:
        return frame.select(expression_of(tree)).collect_schema().dtypes()
    except FAILURES:
        return []


def computes(expr: pl.Expr) -> bool:
    """Whether something in it is computed of several values, one of which may be a constant."""
    tree = tree_of(expr)
    return tree is None or any(map(_computes, subtrees(tree)))


def computes_on_elements(expr: pl.Expr, frame: pl.LazyFrame) -> bool:
    """Whether it computes with the elements of lists and something beside them.

    Polars lays the elements of all rows end to end.
    """
    tree = tree_of(expr)
    for part, columns in typed_parts(tree, frame):
        match part:
            case {"Eval": {"evaluation": inner}} if any(map(_computes, subtrees(inner))):
                return True
            case {"BinaryExpr": _} if _computes(part):
                kinds = types_of(part, columns)
                if not kinds or any(kind.is_nested() for kind in kinds):
                    return True
    return False


def _computes(tree: Tree) -> bool:
    match tree:
        case {"BinaryExpr": {"op": op}}:
            return op in ARITHMETIC
        case {"Function": {"input": inputs}}:
            return len(inputs) > 1
    return False


def _calls_python(tree: Tree) -> bool:
    if not isinstance(tree, dict) or is_row_function(tree):
        return False
    return any(isinstance(tree.get(name), list | dict) for name in _PYTHON)


def _with_floats(tree: Tree, write: Callable[[float | None], float], *, literal: bool = False) -> Tree:
    """Return the tree with each float of a literal as `write` gives it."""
    if isinstance(tree, list):
        return [_with_floats(branch, write, literal=literal) for branch in tree]
    if not isinstance(tree, dict):
        return tree
    if literal and len(tree) == 1 and next(iter(tree)).startswith("Float"):
        ((name, value),) = tree.items()
        return {name: write(value)}
    return {
        name: _with_floats(branch, write, literal=literal or name == "Literal")
        for name, branch in tree.items()
    }


def elements_named(tree: Tree) -> Tree:
    """Return the tree with the element of a list as the column ""."""
    match tree:
        case "Element":
            return {"Column": ""}
        case {"Literal": _} | {"Column": _}:
            return tree
        case {"Alias": [inner, name]}:
            return {"Alias": [elements_named(inner), name]}
        case {"Eval": {"expr": outer, **rest}}:
            return {"Eval": {"expr": elements_named(outer), **rest}}
        case dict():
            return {name: elements_named(branch) for name, branch in tree.items()}
        case list():
            return [elements_named(branch) for branch in tree]
    return tree


def fields_taken(tree: Tree, struct: Tree) -> Tree:
    """Return the tree with the fields of a struct taken from it."""
    match tree:
        case {"Literal": _}:
            return tree
        case {"Field": [str(name)]}:
            return {"Function": {"input": [struct], "function": {"StructExpr": {"FieldByName": name}}}}
        case {"StructEval": {"expr": outer, **rest}}:
            return {"StructEval": {"expr": fields_taken(outer, struct), **rest}}
        case dict():
            return {name: fields_taken(branch, struct) for name, branch in tree.items()}
        case list():
            return [fields_taken(branch, struct) for branch in tree]
    return tree
