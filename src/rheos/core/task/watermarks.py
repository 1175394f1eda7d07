"""Merging the watermarks of several channels into one: their minimum, without the idle ones. Pure."""

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
    activity: Activity = Activity.ACTIVE


class WatermarkMerger:
    """The watermark of an input with `lanes` channels. Those in `untimed` have no event time: they say
    nothing of it, and count as ended from the start.

    `watermark_ms` never regresses, also when an idle lane comes back with an older watermark. When
    all lanes have ended it is MAX_TIMESTAMP_MS. `idle` holds while every lane that has not ended is
    idle (and there is one). A lane has ended once its watermark is MAX_TIMESTAMP_MS, which comes before
    its end: else event time would end where one lane does, and the others are idle.
    """

    def __init__(self, lanes: int, untimed: Collection[int] = ()) -> None:
        self._lanes = [_Lane() for _ in range(lanes)]
        self._untimed = untimed
        for lane in untimed:
            self._lanes[lane].activity = Activity.ENDED
        self.watermark_ms = MIN_TIMESTAMP_MS
        self.idle = False

    def advance(self, lane: int, watermark_ms: int) -> bool:
        """A watermark came on the lane; whether the merged one rose. An advance makes it active."""
        state = self._lanes[lane]
        if watermark_ms > state.watermark_ms:
            state.watermark_ms = watermark_ms
        if watermark_ms == MAX_TIMESTAMP_MS:
            state.activity = Activity.ENDED
        elif state.activity is Activity.IDLE:
            state.activity = Activity.ACTIVE
        return self._merge()

    def others(self, lane: int) -> int:
        """Return the minimum watermark of the other lanes that count; MAX_TIMESTAMP_MS if none
        counts."""
        counting = (
            state.watermark_ms
            for number, state in enumerate(self._lanes)
            if number != lane and state.activity is Activity.ACTIVE
        )
        return min(counting, default=MAX_TIMESTAMP_MS)

    def set_activity(self, lane: int, activity: Activity) -> bool:
        """The lane fell idle, came back or ended; whether the merged watermark rose."""
        if lane in self._untimed:
            return False
        self._lanes[lane].activity = activity
        return self._merge()

    def _merge(self) -> bool:
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
