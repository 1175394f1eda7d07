"""Deadlines on any clock; None means never. Every turn of a slot uses them."""

from __future__ import annotations


def earlier(one: int | None, other: int | None) -> int | None:
    """Return the earlier of two deadlines."""
    if one is None or (other is not None and other < one):
        return other
    return one
