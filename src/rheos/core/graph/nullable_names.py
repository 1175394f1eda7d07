"""Names of the two columns that replace a nullable key, because a stream's key cannot be null."""

from __future__ import annotations


def value_name(key: str) -> str:
    """Return the name of the column with the value of a key, or any value if the key is null."""
    return f"{key} if not null"


def absence_name(key: str) -> str:
    """Return the name of the column that tells whether a key is null."""
    return f"{key} is null"
