"""Polars' expressions as trees that can be inspected.

`Expr.meta` describes only the outermost call of an expression. Its arguments are visible only in
Polars' serialised form, which is a private format:

    col("x") / 3    {"BinaryExpr": {"left": {"Column": "x"}, "op": "TrueDivide",
                                    "right": {"Literal": {"Dyn": {"Int": 3}}}}}

A test covers each form that this module and its users read
(`tests/core/graph/test_expression_trees.py`), so that a change in a new version of Polars is detected.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from io import StringIO
from typing import Any, Final, TypeAlias

import polars as pl

from rheos.core.graph.row_functions import is_row_function

Tree: TypeAlias = Any
"""A part of an expression, as Polars serialises it: a dict with one key, or the string "Element" or
"Len"."""

_MOST_AWAY: Final = 8
"""Maximum distance, in floats, between a number and the float that Polars may read for its digits."""

FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""Errors that Polars raises for an invalid expression, or because of a defect of its own."""

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
"""Arithmetic operators of `{"BinaryExpr": {"op": ...}}`."""

_PYTHON = (
    *("AnonymousFunction", "PipeWithDtype"),
    *("FoldHorizontal", "ReduceHorizontal", "CumFoldHorizontal", "CumReduceHorizontal"),
    *("Map", "MapFieldNames"),
)
_SOURCES = ("Column", "Selector", "Field")


def tree_of(expr: pl.Expr) -> Tree | None:
    """Return the expression's tree. Return None if the expression calls a Python function other than a
    row function of Rheos: such a call has no readable tree.

    JSON has neither infinities nor NaN: the value of such a literal is missing (None).
    """
    try:
        tree = json.loads(expr.meta.serialize(format="json"))
    except (*FAILURES, ValueError):
        return None
    return None if any(_calls_python(part) for part in subtrees(tree)) else tree


def expression_of(tree: Tree) -> pl.Expr:
    """Return the expression, with the same types. Infinite and NaN literals become 0. Raise
    FAILURES."""
    numbers: list[str] = []

    def placed(value: float | None) -> str:
        numbers.append(_literal_digits(value))
        return f"{_PLACE}{len(numbers) - 1}"

    form = json.dumps(_with_floats(tree, placed))
    return _read(_PLACED.sub(lambda found: numbers[int(found[1])], form) if numbers else form)


def is_whole(tree: Tree) -> bool:
    """Return whether JSON can represent all literals, so that `expression_of` restores the
    expression."""
    return bool(_with_floats(tree, lambda value: 0.0 if value is None else value) == tree)


_PLACE: Final = "\0float "
_PLACED: Final = re.compile(r'"\\u0000float (\d+)"')
"""Placeholder of a float in the serialised form until its digits are inserted."""


def _read(form: str) -> pl.Expr:
    return pl.Expr.deserialize(StringIO(form), format="json")


@lru_cache(1024)
def _literal_digits(value: float | None) -> str:
    """Return digits that Polars reads as exactly `value`.

    Polars' JSON reader multiplies the digits, as a float, by a power of ten, so it may read a nearby
    float instead. Then the function tries other spellings, with more digits if necessary. Between 1e-5
    and 1e22 one of them is always read as `value`, and outside that range nearly always. If none is,
    raise ComputeError.
    """
    for digits in _spellings(value or 0.0):
        literal = f'{{"Literal":{{"Scalar":{{"Float64":{digits}}}}}}}'
        if pl.select(_read(literal)).item() == (value or 0.0):
            return digits
    raise pl.exceptions.ComputeError(f"Polars cannot parse {value!r}")


def _spellings(value: float) -> Iterator[str]:
    """Yield spellings of a number and of numbers near it, the usual one first."""
    yield repr(value)
    exact, sign = Decimal(abs(value)), "-" if value < 0 else ""
    for digits in (17, 18, 19, 16, 15):
        exponent = exact.adjusted() - digits + 1
        whole = int(exact.scaleb(-exponent))
        step = max(1, int(math.ulp(float(whole))))
        for away in range(_MOST_AWAY):
            yield f"{sign}{whole + away * step}e{exponent}"
            yield f"{sign}{whole - away * step}e{exponent}"


def subtrees(tree: Tree) -> Iterator[Tree]:
    """Yield the tree and all parts within it, down to literals."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, dict) and "Literal" not in part:
            waiting += reversed(part.values())
        elif isinstance(part, list):
            waiting += reversed(part)


def is_constant(tree: Tree) -> bool:
    """Return whether the tree consists of literals alone."""
    return not any(
        part in ("Element", "Len")
        or (isinstance(part, dict) and any(name in part for name in _SOURCES))
        for part in subtrees(tree)
    )


def typed_parts(tree: Tree, frame: pl.LazyFrame) -> Iterator[tuple[Tree, pl.LazyFrame]]:
    """Yield every part of the tree, with a frame that has the columns that the part reads.

    Elements of a list are the column "" of a separate frame. Fields are read from their struct.
    """
    waiting = [(tree, frame)]
    while waiting:
        part, columns = waiting.pop()
        yield part, columns
        match part:
            case {"Literal": _}:
                continue
            case {"Eval": {"expr": outer, "evaluation": inner}}:
                lists = types_of(outer, columns)
                kind = getattr(lists[0], "inner", None) if lists else None
                elements = pl.LazyFrame(schema={"": kind or pl.Null()})
                waiting += [(elements_named(inner), elements), (outer, columns)]
            case {"StructEval": {"expr": outer, "evaluation": inner}}:
                waiting += [(fields_taken(each, outer), columns) for each in reversed(inner)]
                waiting.append((outer, columns))
            case dict():
                waiting += [(branch, columns) for branch in reversed(part.values())]
            case list():
                waiting += [(branch, columns) for branch in reversed(part)]


def types_of(tree: Tree, frame: pl.LazyFrame) -> list[pl.DataType]:
    """Return the types of the outputs: several for selected columns, none if they are unknown."""
    try:
        return frame.select(expression_of(tree)).collect_schema().dtypes()
    except FAILURES:
        return []


def computes(expr: pl.Expr) -> bool:
    """Return whether a part of the expression combines several values, such as `a + 1`; constants
    count, too."""
    tree = tree_of(expr)
    return tree is None or any(map(_computes, subtrees(tree)))


def computes_on_elements(expr: pl.Expr, frame: pl.LazyFrame) -> bool:
    """Return whether an expression combines elements of lists with other values.

    Polars evaluates such expressions on the concatenated elements of all rows.
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


def _with_floats(
    tree: Tree, write: Callable[[float | None], float | str], *, literal: bool = False
) -> Tree:
    """Return the tree with each float of a literal replaced by the result of `write`."""
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
    """Return the tree with the list element replaced by the column ""."""
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
    """Return the tree with struct fields replaced by reads from the struct."""
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


def with_columns_named(expr: pl.Expr, names: Mapping[str, str]) -> pl.Expr | None:
    """Return the expression with its columns renamed; None if that is impossible.

    Args:
        expr: the expression.
        names: the new name of each column that it reads.
    """
    if all(name == new for name, new in names.items()):
        return expr
    tree = tree_of(expr)
    # A tree cannot represent every literal.
    if tree is None or not expression_of(tree).meta.eq(expr):
        return None
    return expression_of(_with_names(tree, names))


def _with_names(tree: Tree, names: Mapping[str, str]) -> Tree:
    match tree:
        case {"Column": str(name)}:
            return {"Column": names[name]}
        case {"Literal": _}:
            return tree
        case dict():
            return {part: _with_names(branch, names) for part, branch in tree.items()}
        case list():
            return [_with_names(branch, names) for branch in tree]
    return tree


def spell_expression(expr: pl.Expr) -> str:
    """Return an expression on one line of bounded length."""
    text = " ".join(str(expr).replace("dyn int: ", "").replace("dyn float: ", "").split())
    return text if len(text) <= 120 else text[:119] + "…"
