"""Balance chains of one operator, so that their trees are not deep.

The parser reads `a OR b OR c OR ...` as `((a OR b) OR c) OR ...`, a tree as deep as the chain is long.
Recursive code cannot descend thousands of levels. If the operator is associative, each half of the
chain becomes a subtree:

        OR                     OR
      OR  d          =>     OR    OR
    OR  c                  a  b  c  d
   a  b
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from sqlglot import exp

_CHAINED = (exp.And, exp.Or, exp.DPipe, exp.Union)
_PARTS = ("this", "expression")

T = TypeVar("T")


def halved(parts: Sequence[T], combined: Callable[[T, T], T]) -> T:
    """Combine all parts in their order as a balanced tree."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return combined(halved(parts[:middle], combined), halved(parts[middle:], combined))


def with_halved_chains(statement: exp.Expr) -> exp.Expr:
    """Return the statement with each chain as a balanced tree."""
    # Chains that are in others are found before these are made new.
    for top in [node for node in statement.walk() if _is_link(node) and not _is_inner(node)]:
        parts: list[exp.Expr] = []
        link = top
        while True:
            parts.append(link.expression)
            if not _goes_on(link, link.this):
                break
            link = link.this
        parts.append(link.this)
        parts.reverse()
        middle = len(parts) // 2
        for name, half in zip(_PARTS, (parts[:middle], parts[middle:]), strict=True):
            top.set(name, halved(half, partial(_joined, top)))
    return statement


def _joined(like: exp.Expr, left: exp.Expr, right: exp.Expr) -> exp.Expr:
    flags = {name: value for name, value in like.args.items() if name in ("distinct", "safe")}
    return type(like)(this=left, expression=right, **flags)


def _is_link(node: exp.Expr) -> bool:
    """Return whether a chain may contain the node. It may not contain UNION DISTINCT, whose result
    depends on the grouping, or UNION BY NAME."""
    return isinstance(node, _CHAINED) and not (
        isinstance(node, exp.Union) and (node.args.get("distinct") or node.args.get("by_name"))
    )


def _goes_on(link: exp.Expr, left: exp.Expr) -> bool:
    """Return whether the left operand belongs to the chain, too, and has no clauses of its own."""
    return (
        _is_link(left)
        and type(left) is type(link)
        and all(
            value in (None, False, [])
            for name, value in left.args.items()
            if name not in (*_PARTS, "safe")
        )
    )


def _is_inner(node: exp.Expr) -> bool:
    above = node.parent
    return above is not None and _is_link(above) and above.this is node and _goes_on(above, node)
