"""Durations as users write them ("5s", "1h30m", "5 minutes", a timedelta), and calendar lengths, which
may also be in months ("1mo", "1q", "1y")."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from rheos.core.errors import ProgramError

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
_MONTHS = {
    word: months
    for months, words in {
        1: ("mo", "month", "months"),
        3: ("q", "quarter", "quarters"),
        12: ("y", "year", "years"),
    }.items()
    for word in words
}
_OF_MONTHS = re.compile(r"\s*(\d+)\s*([A-Za-z]+)\s*")
_PIECE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)[\s,]*")


def duration_ms(value: Duration) -> int:
    """Convert a duration to whole milliseconds.

    ```python
    assert rh.duration("1h30m") == 5_400_000
    ```

    Args:
        value: A string ("5s", "1h30m", "90 minutes"), or a timedelta. Units are ms, s, m, h, d and w.

    Returns:
        The duration in ms.

    Raises:
        ProgramError: `value` is anything else.
    """
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    text = value.strip() if isinstance(value, str) else ""
    ms, at = 0.0, 0
    while piece := _PIECE.match(text, at):
        # The case of a single letter matters: "M" might mean a month.
        word = piece[2] if len(piece[2]) < 3 else piece[2].lower()
        unit = _UNITS.get(word)
        if unit is None:
            break
        ms += float(piece[1]) * _UNITS_MS[unit]
        at = piece.end()
    if not text or at < len(text):
        if _months(value) is not None:
            raise ProgramError(
                f"{value!r} is not a duration: months and years differ in length",
                hint='write it in days, as in "30d"; only calendar windows accept months',
            )
        negative = ": it is negative" if text.startswith("-") else ""
        raise ProgramError(
            f"{value!r} is not a duration{negative}",
            hint='write "250ms", "5s", "10m", "1h", "2d", "5 minutes", a mix such as "1h30m", or a '
            "timedelta",
        )
    return round(ms)


def duration_text(ms: float) -> str:
    """Return a duration for people, in one or two units: "850 ms", "3 min 20 s", "412 d 7 h"."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400:,} d {whole % 86_400 // 3600} h"


def written_duration(ms: int) -> str:
    """Return a duration as a user writes it; `duration_ms` reads it back.

    >>> [written_duration(ms) for ms in (0, 100, 10_000, 5_400_000, 604_800_000)]
    ['0s', '100ms', '10s', '1h30m', '1w']
    """
    if ms < 0:
        return f"-{written_duration(-ms)}"
    parts = []
    for unit, size in sorted(_UNITS_MS.items(), key=lambda each: -each[1]):
        count, ms = divmod(ms, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def signed_duration_ms(value: Duration) -> int:
    """Return a signed duration in ms: a distance in time, backward ("-5m") or forward. Raise
    ProgramError if it is invalid."""
    if isinstance(value, str) and value.strip().startswith("-"):
        return -duration_ms(value.strip()[1:])
    return duration_ms(value)


@dataclass(frozen=True, slots=True)
class CalendarLength:
    """A length in the calendar: a number of months, or a duration on the local clock."""

    months: int
    ms: int
    """Duration in ms; zero if the length is in months."""

    def __str__(self) -> str:
        if not self.months:
            return f"{self.ms} ms"
        return "1 month" if self.months == 1 else f"{self.months} months"


def calendar_length(value: Duration) -> CalendarLength:
    """Return the length for a string that a user wrote, or that `str` made of a length.

    Args:
        value: a whole number of months ("1mo", "6 months"), quarters ("1q") or years ("1y"), or any
            duration.

    Raises:
        ProgramError: the value is invalid.
    """
    months = _months(value)
    if months is not None:
        return CalendarLength(months, 0)
    return CalendarLength(0, duration_ms(value))


def has_months(value: Duration) -> bool:
    """Return whether a length is written in months, quarters or years."""
    return _months(value) is not None


def _months(value: Duration) -> int | None:
    piece = _OF_MONTHS.fullmatch(value) if isinstance(value, str) else None
    if piece is None or piece[2].lower() not in _MONTHS:
        return None
    return int(piece[1]) * _MONTHS[piece[2].lower()]


class DurationMs:
    """A property that returns a duration of its object in ms."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, of: Any, kind: type) -> int:
        if of is None:
            return self  # type: ignore[return-value]  # Python reads it of the class.
        return duration_ms(getattr(of, self._name))


class OptionalDurationMs(DurationMs):
    """A property that returns a duration of its object in ms, or None."""

    def __get__(self, of: Any, kind: type) -> int | None:  # type: ignore[override]
        return None if of and getattr(of, self._name) is None else super().__get__(of, kind)
