"""Durations as users write them: "5s", "1h30m", "5 minutes", a timedelta."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypeAlias

from rheos.errors import ProgramError

Duration: TypeAlias = str | timedelta

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_WORDS = {
    "ms": ("milli", "millis", "millisecond", "milliseconds"),
    "s": ("sec", "secs", "second", "seconds"),
    "m": ("min", "mins", "minute", "minutes"),
    "h": ("hr", "hrs", "hour", "hours"),
    "d": ("day", "days"),
    "w": ("week", "weeks"),
}
_UNITS = {word: unit for unit, words in _WORDS.items() for word in (unit, *words)}
_PIECE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)[\s,]*")


def duration_ms(value: Duration) -> int:
    """A duration in whole ms.

    Args:
        value: a text ("5s", "1h30m", "90 minutes"), or a timedelta. Units are ms, s, m, h, d and w.

    Anything else raises ProgramError.
    """
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    text = value.strip() if isinstance(value, str) else ""
    ms, at = 0.0, 0
    while piece := _PIECE.match(text, at):
        # Of single letters the case counts: "M" might be a month.
        word = piece[2] if len(piece[2]) < 3 else piece[2].lower()
        unit = _UNITS.get(word)
        if unit is None:
            break
        ms += float(piece[1]) * _UNITS_MS[unit]
        at = piece.end()
    if not text or at < len(text):
        raise ProgramError(
            f"{value!r} is not a duration",
            hint='write "250ms", "5s", "10m", "1h", "2d", "5 minutes", a mix such as "1h30m", or a '
            "timedelta",
        )
    return round(ms)


def signed_duration_ms(value: Duration) -> int:
    """A duration, or one with a minus ahead: a distance in time, back ("-5m") or on. Raises
    ProgramError."""
    if isinstance(value, str) and value.strip().startswith("-"):
        return -duration_ms(value.strip()[1:])
    return duration_ms(value)
