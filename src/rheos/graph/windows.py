"""What the user says of time: windows, watermarks, durations. Frozen; the logic is in `operators`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

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

Unit: TypeAlias = Literal["s", "ms", "us", "ns"]
UNIT_NS: Mapping[str, int] = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def slice_ms(window: Window) -> int:
    """The length of the longest pieces that every window is a whole number of."""
    return math.gcd(window.size_ms, window.slide_ms)


@dataclass(frozen=True)
class Watermark:
    """How the event time of a source is known, and how far behind it may run.

    Made by `bounded_out_of_orderness` or `monotonic`. `on` names the event-time column: a timestamp
    (any unit; without zone it is read as UTC), a date, or an int64 of ms since the epoch. Other numbers
    since the epoch, floats too, say their `unit` ("s", "ms", "us", "ns"); text says its `format`
    ("%Y-%m-%d %H:%M:%S"; "%z" where the zone is a part of it, otherwise it is read as UTC).
    """

    on: str
    bound: Duration = "0s"
    idle_after: Duration | None = None
    unit: Unit | None = None
    format: str | None = None

    @classmethod
    def bounded_out_of_orderness(
        cls,
        bound: Duration,
        *,
        on: str,
        idle_after: Duration | None = None,
        unit: Unit | None = None,
        format: str | None = None,
    ) -> Watermark:
        """Rows come at most `bound` behind the latest one of their split; later ones are late.

        A split that gives no rows for `idle_after` (processing time) steps aside.
        """
        return cls(on, bound, idle_after, unit, format)

    @classmethod
    def monotonic(
        cls,
        *,
        on: str,
        idle_after: Duration | None = None,
        unit: Unit | None = None,
        format: str | None = None,
    ) -> Watermark:
        """Timestamps never go back within a split."""
        return cls(on, "0s", idle_after, unit, format)

    @property
    def bound_ms(self) -> int:
        return duration_ms(self.bound)

    @property
    def idle_after_ms(self) -> int | None:
        return None if self.idle_after is None else duration_ms(self.idle_after)
