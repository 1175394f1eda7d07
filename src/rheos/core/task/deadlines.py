"""Times at which something is due, by any clock; None is never. Asked for in every turn of a slot."""

from __future__ import annotations


def earlier(one: int | None, other: int | None) -> int | None:
    """The earlier of two."""
    if one is None or (other is not None and other < one):
        return other
    return one
