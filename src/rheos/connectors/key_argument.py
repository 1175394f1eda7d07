"""The argument `key=` of connectors that write or look up rows by a key."""

from __future__ import annotations

from collections.abc import Sequence

from rheos.core.errors import ProgramError


def key_columns(key: str | Sequence[str], *, required: bool = False) -> tuple[str, ...]:
    """Return the columns that the argument `key=` names.

    Args:
        key: A column, or several.
        required: Whether there must be one.

    Returns:
        The columns, in their order.

    Raises:
        ProgramError: These are no names, one occurs twice, or a required one is missing.
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    is_missing = required and not keys
    if is_missing or not all(isinstance(each, str) for each in keys) or len({*keys}) < len(keys):
        raise ProgramError(
            f"key={key!r} does not name columns", hint='write key="id" or key=["a", "b"]'
        )
    return keys
