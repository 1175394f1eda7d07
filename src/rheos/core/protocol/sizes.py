"""Sizes as users write them: "512MB", "2GiB"."""

from __future__ import annotations

import re
from typing import TypeAlias

from rheos.core.errors import ProgramError

Size: TypeAlias = int
"""Number of bytes; files and command lines may write "512MB"."""

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


def size_bytes(value: str | int) -> int:
    """Return a size ("512MB", "2g", a number of bytes) in bytes. Raise ProgramError if it is invalid.

    A MB is 1024 KB, as in Spark and Flink.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ProgramError(
            f"{value!r} is not a size", hint='write "512MB", "2GB", or a number of bytes'
        )
    return int(float(match[1]) * _UNITS[match[2].lower()])


def written_size(size: int) -> str:
    """Return a size as a user writes it, in the largest unit that expresses it exactly.

    >>> [written_size(size) for size in (256 << 20, 1 << 40, 1000)]
    ['256MB', '1TB', '1000']
    """
    for unit, factor in reversed(_UNITS.items()):
        if unit and size and size % factor == 0:
            return f"{size // factor}{unit.upper()}B"
    return str(size)
