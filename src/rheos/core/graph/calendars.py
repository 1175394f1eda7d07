"""Calendar windows: which lengths and zones a program may use, and how they are stored.

The arithmetic is in `operators/window/calendar.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from rheos.core.errors import ProgramError
from rheos.core.known_names import meant
from rheos.core.protocol.durations import (
    CalendarLength,
    Duration,
    calendar_length,
    has_months,
    signed_duration_ms,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
MONDAY_MS = -3 * DAY_MS
"""Monday of the week that contains 1970-01-01, from which weeks are counted."""

_LONGEST_MONTH_DAYS = 31


def is_calendar(zone: str | None, *lengths: Duration) -> bool:
    """Return whether windows of these lengths follow a calendar: by a zone, or lengths in months."""
    return zone is not None or any(map(has_months, lengths))


@dataclass(frozen=True, slots=True)
class CalendarCut:
    """The calendar that determines window bounds. Windows end at the steps of the zone's local
    clock."""

    every: CalendarLength
    """Length of a step."""
    size: CalendarLength
    """Length of a window; of the longest one if the windows grow."""
    grows: bool
    """Whether windows begin together and grow by `every`, as cumulating windows do."""
    zone: str
    offset_ms: int
    """Offset of all starts on the local clock."""

    @classmethod
    def written(
        cls, every: Duration, size: Duration, grows: bool, zone: str | None, offset: Duration
    ) -> CalendarCut:
        """Return the calendar that a user declared. Raise ProgramError for invalid lengths."""
        return cls(
            calendar_length(every),
            calendar_length(size),
            grows,
            "UTC" if zone is None else zone,
            signed_duration_ms(offset),
        )

    @classmethod
    def stored(cls, cut: Mapping[str, int | str]) -> CalendarCut:
        """Return the calendar of a stored form, which `cut` returned."""
        grows = "within" in cut
        size = str(cut["within" if grows else "size"])
        return cls(
            calendar_length(str(cut["every"])),
            calendar_length(size),
            grows,
            str(cut["zone"]),
            int(cut["offset"]),
        )

    @property
    def cut(self) -> Mapping[str, int | str]:
        """Return the calendar in the form in which state stores it: an int is in ms."""
        return {
            "every": str(self.every),
            "within" if self.grows else "size": str(self.size),
            "zone": self.zone,
            "offset": self.offset_ms,
        }

    @property
    def most_steps(self) -> int:
        """Return the maximum number of windows that contain a row."""
        if self.every.months:
            return -(-self.size.months // self.every.months)
        size_ms = self.size.ms or self.size.months * _LONGEST_MONTH_DAYS * DAY_MS
        return -(-size_ms // self.every.ms)

    def check(self, window: object) -> None:
        """Raise ProgramError if windows of these lengths are impossible. `window` is the user's
        description."""
        _check_zone(self.zone)
        for length in (self.every, self.size):
            _check_length(length, window)
        if self.grows:
            if not self._nests():
                raise ProgramError(
                    f"the length of a cumulating window must be a multiple of its step: {window!r}",
                    hint='months need steps of one day or of hours, as in rh.Cumulating("1mo", '
                    'step="1d"); other lengths must be a multiple of the step',
                )
        elif bool(self.size.months) != bool(self.every.months) or (
            self.size.months % self.every.months if self.every.months else self.size.ms % self.every.ms
        ):
            raise ProgramError(
                f"a sliding calendar window must be a multiple of its step: {window!r}",
                hint='combine months with months and days with days, as in rh.Sliding("3mo", '
                'every="1mo") or rh.Sliding("7d", every="1d", zone=...)',
            )

    def _nests(self) -> bool:
        if self.every.months:
            return self.size.months > 0 and self.size.months % self.every.months == 0
        if self.size.months:
            return DAY_MS % self.every.ms == 0
        apart = anchor_ms(self.size) - anchor_ms(self.every)
        return self.size.ms % self.every.ms == 0 and apart % self.every.ms == 0


def anchor_ms(length: CalendarLength) -> int:
    """Return the local time from which windows are counted: a Monday for weeks, otherwise
    1970-01-01."""
    return MONDAY_MS if length.ms and length.ms % WEEK_MS == 0 else 0


def _check_length(length: CalendarLength, window: object) -> None:
    if length.months <= 0 and length.ms <= 0:
        raise ProgramError(f"a window must be longer than 0: {window!r}", hint='write "1d"')
    whole_days = length.ms % DAY_MS == 0
    if length.ms and not whole_days and (length.ms % HOUR_MS or DAY_MS % length.ms):
        raise ProgramError(
            f"{length.ms} ms do not divide a local day evenly: {window!r}",
            hint="windows with zone= must be whole days, weeks or months, or 1, 2, 3, 4, 6, 8 or 12 "
            "hours; leave out zone= for any other length",
        )


def _check_zone(zone: object) -> None:
    try:
        ZoneInfo(zone)  # type: ignore[arg-type]
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise ProgramError(
            f"{zone!r} is not a time zone",
            hint=meant(str(zone), available_timezones())
            + 'write the name of a zone, such as zone="Europe/Berlin"',
        ) from None
