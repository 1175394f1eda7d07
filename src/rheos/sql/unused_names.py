"""Names for columns that a plan adds, which its other columns do not have."""

from __future__ import annotations

from collections.abc import Container


def unused_name(name: str, names: Container[str], suffix: str = "_") -> str:
    """Return `name`, with the suffix as often as needed, until `names` does not contain it."""
    while name in names:
        name += suffix
    return name
