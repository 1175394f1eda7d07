"""The number of slots of a job, computed from its load, for `parallelism="auto"`. Pure.

Every slot has a subtask of every operator, so the whole job is scaled. Once a second, the controller
receives four values: the share of their time in which the slots worked or were blocked by others that
worked (in the rest they were idle), the part of it that their rows needed, the number of rows that the
sources emitted and, if the sources know it, the number of rows that wait in them.

With a short buffer timeout slots make many small runs, and may be busy all the time with few rows. So
the load is what the rows needed: the fixed cost of small runs is spare (`core/task/fixed_cost.py`), and
so are waits for a core (`core/task/core_waits.py`). A run takes 1 / (1 - load) times its fixed cost, so
latency is low until the load is almost `FULL`. If the sources have a backlog, the load is all of the
time in which the slots were busy.

- If the load is high (`FULL` on average over `WIDEN_AFTER_MS`), the job gets enough slots for a load of
  `TARGET`. If rows wait in the sources, it gets enough slots to process new rows and the waiting ones
  within `CATCH_UP_S`. If the current slots will manage that, it waits. If they certainly will not
  (`OVERLOADED`, with a backlog that grows), the job gets more after `OVERLOADED_FOR_MS`.
- If fewer slots would still have time left (`SPARE`), even for the highest recent load, it gets fewer.
  "Recent" means a minute. It is longer if a rescale takes long. It doubles each time that fewer slots
  soon proved to be too few.
- If more slots did not process more rows, the parallelism stays as it is for some time. Then one slot
  reads a whole split, or an external system or the machine is the limit.

A rescale costs a checkpoint and a pause, in which rows accumulate. So the controller ignores the load
just after the start of an attempt.

Invariants:

- AS1, a request is within the bounds and the number of slots.
- AS2, one step at most doubles the parallelism.
- AS3, there is no request until the last one is answered and its attempt has settled.
- AS4, under a constant load no step reverts the one before. The same work never fills a slot after a
  step down, nor spares one after a step up, as SPARE < TARGET < FULL.
- AS5, the load is at least what the rows needed, and nothing of it is spare during a backlog.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from math import ceil

from rheos.runtimes.job import ScalingBounds

OBSERVE_EVERY_MS = 1_000
FULL = 0.85
TARGET = 0.7
SPARE = 0.6
SETTLE_MS = 10_000
WIDEN_AFTER_MS = 10_000
OVERLOADED = 0.97
OVERLOADED_FOR_MS = 5_000
"""Time in ms for which the load must be `OVERLOADED`, longer than a short peak."""
NARROW_AFTER_MS = 60_000
MOST_PATIENCE_MS = 3_600_000
SOON_MS = 600_000
"""Time in ms within which a reverted step counts as a mistake."""
CATCH_UP_S = 60
_BEHIND_S = 0.1
"""Duration in seconds: waiting rows are a backlog if they exceed the input of this time."""
_SHARE_OF_TIME = 20
"""Minimum time between two steps down, as a multiple of the duration of a rescale."""
_WORTH = 0.8
"""Maximum share of its slots that a job may have after a step down: a smaller step is not worth it."""
_GAIN = 1.1
"""Minimum factor by which more slots must increase the number of rows."""
NO_GAIN_FOR_MS = 600_000
FIRST_RETRY_MS = 30_000
MOST_RETRY_MS = 600_000


@dataclass(frozen=True, slots=True)
class SlotLoad:
    """The load of an attempt in about the last second."""

    shares: Sequence[float]
    """Share of the time, for each slot, in which it worked or was blocked by others."""
    rows_per_s: float
    """Number of rows per second that the sources emitted."""
    lag_rows: int | None = None
    """Number of rows that wait in the sources; None if it is unknown."""
    slots: int = 1_000_000
    """Number of slots available to the job, including its own."""
    needed: Sequence[float] = ()
    """The part of `shares` that the rows needed, without waits for a core and the fixed cost of small
    runs. If empty, it is unknown."""

    def has_backlog(self) -> bool:
        """Return whether the sources have a backlog."""
        return (self.lag_rows or 0) > self.rows_per_s * _BEHIND_S

    def loads(self) -> list[float]:
        """Return the load of each slot: 1 is all that it can do (AS5)."""
        of = self.needed if self.needed and not self.has_backlog() else self.shares
        return [min(each, 1.0) for each in of]


class ScalingState(Enum):
    SETTLING = "the attempt has just started"
    WATCHING = "its load has not been observed long enough"
    STEADY = "its parallelism fits its load"
    CATCHING_UP = "it will soon have processed its backlog"
    ASKED = "it is being rescaled"
    AT_BOUND = "it needs a higher parallelism, but has reached the maximum"
    NO_SLOTS = "it needs a higher parallelism, but no more slots are free"
    UNEVEN = "one slot is fully busy and others are not: more slots would not help"
    NO_GAIN = "more slots did not increase the throughput"
    FAILED = "rescaling failed, and is retried later"


@dataclass(frozen=True, slots=True)
class WidthChange:
    parallelism: int
    why: str
    """Reason in a few words."""


@dataclass(frozen=True, slots=True)
class _Sample:
    at_ms: int
    mean: float
    most: float
    rows_per_s: float
    lag_rows: int | None


class ScalingController:
    """The controller of one driver's parallelism. Times are monotonic, in ms."""

    def __init__(self, bounds: ScalingBounds) -> None:
        self.bounds = bounds
        self.state = ScalingState.SETTLING
        self._parallelism = 0
        self._looks_from_ms = 0
        self._seen: deque[_Sample] = deque()
        self._asked_ms: int | None = None
        self._patience_ms = NARROW_AFTER_MS
        self._took_ms = 0
        """Duration of the longest rescale so far."""
        self._narrowed_ms: int | None = None
        self._before: tuple[float, int] | None = None
        """Rows per second, and the parallelism, before it was raised because the slots were busy."""
        self._no_gain_until_ms = 0
        self._retry_ms = FIRST_RETRY_MS
        self._not_before_ms = 0

    # --- events of the job ------------------------------------------------------------------------

    def began(self, parallelism: int, now_ms: int) -> None:
        """Note that an attempt runs, for whatever reason. Forget the load of the previous attempt."""
        if self._asked_ms is not None:
            self._took_ms = max(self._took_ms, now_ms - self._asked_ms)
        self._parallelism = parallelism
        self._seen.clear()
        self._looks_from_ms = now_ms + max(SETTLE_MS, 2 * self._took_ms)
        self.state = ScalingState.SETTLING

    def answered(self, done: bool, now_ms: int) -> None:
        """Note the outcome of the last request: `done` if the job was rescaled."""
        self._asked_ms = None
        if done:
            self._retry_ms = FIRST_RETRY_MS
        else:
            self._before = None
            self._not_before_ms = now_ms + self._retry_ms
            self._retry_ms = min(2 * self._retry_ms, MOST_RETRY_MS)

    def observe(self, load: SlotLoad, now_ms: int) -> WidthChange | None:
        """Return the change to request now. If it is None, `state` has the reason."""
        if self._asked_ms is not None:
            self.state = ScalingState.ASKED
            return None
        if now_ms < self._looks_from_ms or not load.shares:
            self.state = ScalingState.SETTLING
            return None
        self._see(load, now_ms)
        self.state, change = self._decide(load, now_ms)
        if change is not None:
            assert change.parallelism <= 2 * self._parallelism or self._is_outside(), "AS2"
            self._asked_ms = now_ms
        return change

    # --- the decision -----------------------------------------------------------------------------

    def _see(self, load: SlotLoad, now_ms: int) -> None:
        loads = load.loads()
        self._seen.append(_Sample(now_ms, _mean(loads), max(loads), load.rows_per_s, load.lag_rows))
        while self._seen[0].at_ms < now_ms - max(self._patience(), WIDEN_AFTER_MS):
            self._seen.popleft()

    def _decide(self, load: SlotLoad, now_ms: int) -> tuple[ScalingState, WidthChange | None]:
        if now_ms < self._not_before_ms:
            return ScalingState.FAILED, None
        if self._is_outside() and self._in_bounds(self._parallelism, load) != self._parallelism:
            width = self._in_bounds(self._parallelism, load)
            return ScalingState.ASKED, WidthChange(width, f"its bounds are {self.bounds}")
        overloaded = [seen for seen in self._seen if seen.at_ms > now_ms - OVERLOADED_FOR_MS]
        if self._covers(OVERLOADED_FOR_MS, now_ms) and _are_overloaded(overloaded):
            return self._wider(_mean([seen.mean for seen in overloaded]), overloaded, load, now_ms)
        lately = [seen for seen in self._seen if seen.at_ms > now_ms - WIDEN_AFTER_MS]
        if not self._covers(WIDEN_AFTER_MS, now_ms):
            return ScalingState.WATCHING, None
        mean = _mean([seen.mean for seen in lately])
        if mean >= FULL:
            return self._wider(mean, lately, load, now_ms)
        self._before = None
        if _mean([seen.most for seen in lately]) >= FULL:
            return ScalingState.UNEVEN, None
        return self._narrower(lately, now_ms)

    def _wider(
        self, mean: float, lately: Sequence[_Sample], load: SlotLoad, now_ms: int
    ) -> tuple[ScalingState, WidthChange | None]:
        rows_per_s = _mean([seen.rows_per_s for seen in lately])
        if self._before is not None:
            rows_before, width_before = self._before
            self._before = None
            if self._parallelism > width_before and rows_per_s <= rows_before * _GAIN:
                self._no_gain_until_ms = now_ms + NO_GAIN_FOR_MS
        if now_ms < self._no_gain_until_ms:
            return ScalingState.NO_GAIN, None
        waiting, needed = lately[-1].lag_rows or 0, _needed(lately, rows_per_s)
        waited = max(seen.lag_rows or 0 for seen in lately)
        if needed is not None and needed <= 1.0 and waited > rows_per_s * _BEHIND_S:
            return ScalingState.CATCHING_UP, None
        wanted = ceil(self._parallelism * max(needed or 1.0, 1.0) / TARGET)
        width = self._in_bounds(min(wanted, 2 * self._parallelism), load)
        if width <= self._parallelism:
            most = self.bounds.most
            at_bound = most is not None and self._parallelism >= most
            return ScalingState.AT_BOUND if at_bound else ScalingState.NO_SLOTS, None
        if self._narrowed_ms is not None:
            soon = now_ms - self._narrowed_ms < SOON_MS
            twice_ms = min(2 * self._patience_ms, MOST_PATIENCE_MS)
            self._patience_ms = twice_ms if soon else NARROW_AFTER_MS
            self._narrowed_ms = None
        self._before = rows_per_s, self._parallelism
        why = f"its load was {mean:.0%}"
        why += f", {waiting:,} rows are waiting" if waiting else ""
        return ScalingState.ASKED, WidthChange(width, why)

    def _narrower(
        self, lately: Sequence[_Sample], now_ms: int
    ) -> tuple[ScalingState, WidthChange | None]:
        if not self._covers(self._patience(), now_ms):
            return ScalingState.STEADY, None
        if (lately[-1].lag_rows or 0) > lately[-1].rows_per_s * CATCH_UP_S:
            return ScalingState.CATCHING_UP, None
        oldest, *others = [_mean([s.mean for s in w]) for w in _windows(self._seen, WIDEN_AFTER_MS)]
        peak = max(others)
        if oldest > peak * _GAIN:
            # The load was higher until then: wait for the result of the next seconds.
            return ScalingState.STEADY, None
        width = max(ceil(peak * self._parallelism / SPARE), self.bounds.least)
        if width > self._parallelism * _WORTH:
            return ScalingState.STEADY, None
        self._narrowed_ms = now_ms
        self._no_gain_until_ms = 0
        why = f"its load was at most {peak:.0%} for {self._patience() // 1000} s"
        return ScalingState.ASKED, WidthChange(width, why)

    # --- conditions -------------------------------------------------------------------------------

    def _patience(self) -> int:
        return max(self._patience_ms, _SHARE_OF_TIME * self._took_ms)

    def _covers(self, ms: int, now_ms: int) -> bool:
        """Return whether the attempt was observed for this time."""
        return self._looks_from_ms <= now_ms - ms

    def _is_outside(self) -> bool:
        most = self.bounds.most
        return self._parallelism < self.bounds.least or (most is not None and self._parallelism > most)

    def _in_bounds(self, width: int, load: SlotLoad) -> int:
        """Return the parallelism within the bounds and the slots (AS1)."""
        most = load.slots if self.bounds.most is None else min(self.bounds.most, load.slots)
        return max(min(width, most), min(self.bounds.least, most), 1)


def _needed(seen: Sequence[_Sample], rows_per_s: float) -> float | None:
    """Return the demand as a multiple of the rows that the slots process: new rows, and the waiting
    ones within CATCH_UP_S. Return None if sources do not know their waiting rows."""
    first, last = seen[0], seen[-1]
    if first.lag_rows is None or last.lag_rows is None or last.at_ms == first.at_ms:
        return None
    grown_per_s = (last.lag_rows - first.lag_rows) * 1000 / (last.at_ms - first.at_ms)
    comes_per_s = max(rows_per_s + grown_per_s, 0.0)
    return (comes_per_s + last.lag_rows / CATCH_UP_S) / max(rows_per_s, 1.0)


def _are_overloaded(seen: Sequence[_Sample]) -> bool:
    """Return whether the slots had no spare time, while the backlog grew steadily."""
    lags = [each.lag_rows for each in seen if each.lag_rows is not None]
    grew = 2 < len(lags) == len(seen) and all(later > earlier for earlier, later in pairwise(lags))
    return grew and min(each.mean for each in seen) >= OVERLOADED


def _windows(seen: Sequence[_Sample], length_ms: int) -> list[list[_Sample]]:
    """Return consecutive windows of the given length; the last one may be shorter."""
    windows: list[list[_Sample]] = []
    for each in seen:
        if windows and each.at_ms < windows[-1][0].at_ms + length_ms:
            windows[-1].append(each)
        else:
            windows.append([each])
    return windows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
