"""What the user says of time: windows, watermarks, durations. Frozen; the logic is in `operators`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Tumbling:
    """Windows of one size, side by side: `Tumbling("1h")`. `offset` moves them off the epoch."""

    size: Duration
    offset: Duration = "0s"

    @property
    def size_ms(self) -> int:
        return duration_ms(self.size)

    @property
    def slide_ms(self) -> int:
        return self.size_ms

    @property
    def offset_ms(self) -> int:
        return duration_ms(self.offset)


@dataclass(frozen=True)
class Sliding:
    """Windows of one size that start every `every`: `Sliding("1h", every="10m")`."""

    size: Duration
    every: Duration
    offset: Duration = "0s"

    @property
    def size_ms(self) -> int:
        return duration_ms(self.size)

    @property
    def slide_ms(self) -> int:
        return duration_ms(self.every)

    @property
    def offset_ms(self) -> int:
        return duration_ms(self.offset)


Window: TypeAlias = Tumbling | Sliding


def slice_ms(window: Window) -> int:
    """The length of the longest pieces that every window is a whole number of."""
    return math.gcd(window.size_ms, window.slide_ms)


@dataclass(frozen=True)
class Watermark:
    """How the event time of a source is known, and how far behind it may run.

    Made by `bounded_out_of_orderness` or `monotonic`. `on` names the event-time column: a timestamp
    (any unit; without zone it is read as UTC), a date, or an int64 of ms since the epoch.
    """

    on: str
    bound: Duration = "0s"
    idle_after: Duration | None = None

    @classmethod
    def bounded_out_of_orderness(
        cls, bound: Duration, *, on: str, idle_after: Duration | None = None
    ) -> Watermark:
        """Rows come at most `bound` behind the latest one of their split; later ones are late.

        A split that gives no rows for `idle_after` (processing time) steps aside.
        """
        return cls(on=on, bound=bound, idle_after=idle_after)

    @classmethod
    def monotonic(cls, *, on: str, idle_after: Duration | None = None) -> Watermark:
        """Timestamps never go back within a split."""
        return cls(on=on, idle_after=idle_after)

    @property
    def bound_ms(self) -> int:
        return duration_ms(self.bound)

    @property
    def idle_after_ms(self) -> int | None:
        return None if self.idle_after is None else duration_ms(self.idle_after)
