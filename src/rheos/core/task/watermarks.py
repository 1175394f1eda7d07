"""Merges the watermarks of several channels into their minimum, ignoring idle channels. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS


class Activity(Enum):
    ACTIVE = "active"
    IDLE = "idle"
    ENDED = "ended"


@dataclass(slots=True)
class _Lane:
    watermark_ms: int = MIN_TIMESTAMP_MS
    before_ms: int = MIN_TIMESTAMP_MS
    """Watermark before it rose last."""
    activity: Activity = Activity.ACTIVE


class WatermarkMerger:
    """The watermark of an input with `lanes` channels. Channels in `untimed` have no event time, and
    count as ended from the start.

    `watermark_ms` never decreases, even if an idle lane becomes active with an older watermark. When
    all lanes have ended, it is MAX_TIMESTAMP_MS. `idle` is true while all lanes that have not ended are
    idle, and there is at least one. A lane has ended once its watermark is MAX_TIMESTAMP_MS, which
    arrives before its End. Otherwise event time would end if one lane ends while the others are idle.
    """

    def __init__(self, lanes: int, untimed: Collection[int] = ()) -> None:
        self._lanes = [_Lane() for _ in range(lanes)]
        self._untimed = untimed
        for lane in untimed:
            self._lanes[lane].activity = Activity.ENDED
        self.watermark_ms = MIN_TIMESTAMP_MS
        self.idle = False
        self.ahead: frozenset[int] = frozenset()
        """Lanes that were beyond the merged watermark even before their own watermark rose last."""

    def advance(self, lane: int, watermark_ms: int) -> bool:
        """Record a lane's watermark, and make it active. Return whether the merged watermark rose."""
        state = self._lanes[lane]
        if watermark_ms > state.watermark_ms:
            state.before_ms, state.watermark_ms = state.watermark_ms, watermark_ms
        if watermark_ms == MAX_TIMESTAMP_MS:
            state.activity = Activity.ENDED
        elif state.activity is Activity.IDLE:
            state.activity = Activity.ACTIVE
        return self._merge()

    def others(self, lane: int) -> int:
        """Return the minimum watermark of the other lanes that count, or MAX_TIMESTAMP_MS."""
        counting = (
            state.watermark_ms
            for number, state in enumerate(self._lanes)
            if number != lane and state.activity is Activity.ACTIVE
        )
        return min(counting, default=MAX_TIMESTAMP_MS)

    def set_activity(self, lane: int, activity: Activity) -> bool:
        """Record that a lane is idle, active or ended. Return whether the merged watermark rose."""
        if lane in self._untimed:
            return False
        self._lanes[lane].activity = activity
        return self._merge()

    def _merge(self) -> bool:
        rose = self._rose()
        self.ahead = frozenset(
            [
                number
                for number, lane in enumerate(self._lanes)
                if lane.before_ms > self.watermark_ms and lane.activity is Activity.ACTIVE
            ]
        )
        return rose

    def _rose(self) -> bool:
        live = [lane for lane in self._lanes if lane.activity is not Activity.ENDED]
        active = [lane for lane in live if lane.activity is Activity.ACTIVE]
        self.idle = bool(live) and not active
        if active:
            merged = min(lane.watermark_ms for lane in active)
        elif not live:
            merged = MAX_TIMESTAMP_MS
        else:
            return False
        if merged <= self.watermark_ms:
            return False
        self.watermark_ms = merged
        return True
