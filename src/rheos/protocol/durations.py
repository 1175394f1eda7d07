"""Durations as users write them: "5s", "1h30m", a timedelta."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypeAlias

from rheos.errors import ProgramError

Duration: TypeAlias = str | timedelta

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_PIECE = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d)")


def duration_ms(value: Duration) -> int:
    """A duration ("5s", "1h30m", timedelta) in whole ms. Raises ProgramError."""
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    text = value.strip() if isinstance(value, str) else ""
    pieces = list(_PIECE.finditer(text))
    if not pieces or "".join(piece.group(0) for piece in pieces) != text.replace(" ", ""):
        raise ProgramError(
            f"{value!r} is not a duration",
            hint='write "250ms", "5s", "10m", "1h", "2d", a mix such as "1h30m", or a timedelta',
        )
    return round(sum(float(piece.group(1)) * _UNITS_MS[piece.group(2)] for piece in pieces))
