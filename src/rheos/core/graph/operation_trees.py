"""Operations of expression trees, and the types of their results by those of the operands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import polars as pl

from rheos.core.graph.expression_trees import Tree, types_of

_PLACE: Final = "\0operand "
_MOST_KEPT_CHARS: Final = 2000
"""Maximum size of an operation whose result type is cached. Constants may be long."""


def operands(tree: Tree) -> Sequence[Tree]:
    """Return the trees of the operands, or none if it is not an operation on values."""
    match tree:
        case {"BinaryExpr": {"left": left, "right": right}}:
            return left, right
        case {"Cast": {"expr": value}}:
            return (value,)
        case {"Ternary": {"predicate": condition, "truthy": then, "falsy": other}}:
            return condition, then, other
        case {"Function": {"input": list(inputs)}}:
            return tuple(inputs)
    return ()


def is_open_literal(tree: Tree) -> bool:
    """Return whether a tree is a number without a type, or NULL."""
    match tree:
        case {"Literal": {"Dyn": _} | {"Scalar": "Null" | {"Null": _}}}:
            return True
    return False


def literal_type(tree: Tree) -> pl.DataType | None:
    """Return the type of a literal, which an untyped number gets if nothing else determines it."""
    return _cached_type(tree, ())


def placeholder(number: int) -> Tree:
    """Return the tree that represents a typed operand."""
    return {"Column": f"{_PLACE}{number}"}


def result_type(
    tree: Tree, placed: Sequence[Tree], kinds: tuple[pl.DataType, ...]
) -> pl.DataType | None:
    """Return the type of an operation.

    Args:
        tree: The operation.
        placed: What replaces each of its operands: `placeholder(0)`, `placeholder(1)` and so on, or a
            constant, whose value may determine the type.
        kinds: The types of the placeholders.

    Returns:
        The type, or None if Polars refuses the operation.
    """
    return _cached_type(_with_operands(tree, placed), kinds)


def _cached_type(tree: Tree, kinds: tuple[pl.DataType, ...]) -> pl.DataType | None:
    form = json.dumps(tree)
    return (_typed if len(form) <= _MOST_KEPT_CHARS else _typed.__wrapped__)(form, kinds)


def _with_operands(tree: Tree, placed: Sequence[Tree]) -> Tree:
    ((name, parts),) = tree.items()
    match name:
        case "BinaryExpr":
            return {name: {**parts, "left": placed[0], "right": placed[1]}}
        case "Cast":
            return {name: {**parts, "expr": placed[0]}}
        case "Ternary":
            named = zip(("predicate", "truthy", "falsy"), placed, strict=True)
            return {name: {**parts, **dict(named)}}
    return {name: {**parts, "input": [*placed]}}


@lru_cache(4096)
def _typed(form: str, kinds: tuple[pl.DataType, ...]) -> pl.DataType | None:
    frame = pl.LazyFrame(schema={f"{_PLACE}{number}": kind for number, kind in enumerate(kinds)})
    found = types_of(json.loads(form), frame)
    return found[0] if len(found) == 1 else None
