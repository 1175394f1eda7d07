"""What the user says of time: windows, watermarks, durations. Frozen; the logic is in `operators`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from rheos.protocol.durations import Duration as Duration
from rheos.protocol.durations import duration_ms as duration_ms


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
