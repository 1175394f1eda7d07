"""Chooses a buffer timeout and a batch size from a latency objective. Pure.

A slot has a subtask of every chain, so its measurements represent the whole path of a row. On the path,
a row is gathered with others once per exchange (for up to the buffer timeout). The rest of its latency
is *work*: waiting for the slot's turn and for credit, and being processed. The controller regularly
receives the worst time of work. It uses the median of a few measurements, so that one pause of the
machine has no effect. It keeps the sum of work and gathering below a share of the objective:

- The time that work leaves is available for gathering. A longer timeout makes larger batches, which
  cost less.
- If work alone uses all of it, queues are too long, and batches are halved. If work uses less than
  half, batches grow by a quarter. In between they stay as they are; neither step jumps over that range.
- Batches never become so small that their fixed cost exceeds that of their rows, as that would make
  queues longer. The cost of a row is the recent minimum, because in small batches most of the cost is
  the fixed cost.

Invariants: PA1, the timeout is between 0 and the share of the objective for one exchange. PA2, batches
have between 1 and `most_rows` rows. PA3, one step at most halves a setting, or adds a quarter and a
little; batches that are too small for their fixed cost are doubled. PA4, measurements of work from
before a step are not used after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from rheos.core.plan.physical import Edge

OBSERVE_EVERY_US = 50_000

_SHARE = 0.8
"""Share of the objective to aim for, because a slot does not see everything that takes time."""
_GROW_BELOW = 0.5
"""Part of that share; if work takes less, batches grow."""
_SAMPLES = 5
_DECIDE_FROM = 3
_FIRST_TIMEOUT_US = 10_000
_MOST_TIMEOUT_US = 100_000
_TIMEOUT_STEP_US = 200
_DEAD_BAND = 0.125
"""Minimum relative difference at which the timeout is changed."""
_WORTH_US = 1_000
"""Time of the rows of a batch that is large enough: its fixed cost is a small part of it."""
_LEAST_ROWS = 16
_COSTS = 100
"""Number of intervals over which the cost of a row is remembered."""
_ENOUGH_ROWS = 1_024


@dataclass(frozen=True, slots=True)
class SlotMeasurements:
    """Measurements of a slot since its last report."""

    rows: int
    """Number of rows that its operators have taken or emitted."""
    busy_us: int
    waited_us: int
    """Longest time from a batch's arrival until it was processed."""
    stuck_us: int
    """Time that the oldest row of a buffer has waited beyond the buffer timeout."""
    turn_us: int
    """Longest turn of the slot's loop. The slot notices no arrival during a turn."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The chosen settings."""

    batch_rows: int
    buffer_timeout_us: int


class PaceController:
    """Chooses the settings of one slot. `observe` is called at intervals, and returns them."""

    def __init__(self, objective_us: int, exchanges: int, most_rows: int) -> None:
        """Create the controller. `exchanges` is their number on the longest path of a row."""
        self._goal_us = int(objective_us * _SHARE)
        self._exchanges = exchanges
        self._gathers = max(exchanges, 1)
        self._most_timeout_us = min(self._goal_us // self._gathers, _MOST_TIMEOUT_US)
        self._most_rows = most_rows
        self._work_us: deque[int] = deque(maxlen=_SAMPLES)
        self._row_us: deque[float] = deque(maxlen=_COSTS)
        self.pace = Pace(most_rows, min(self._most_timeout_us // 2, _FIRST_TIMEOUT_US))
        self.found_us = 0
        """Worst latency of a row in the last measurement; 0 if there were no rows."""

    def observe(self, seen: SlotMeasurements) -> Pace:
        if seen.rows == 0:
            return self.pace
        self._row_us.append(max(seen.busy_us, 1) / seen.rows)
        self._work_us.append(self._exchanges * seen.waited_us + seen.stuck_us + seen.turn_us)
        work_us = int(median(self._work_us))
        self.found_us = work_us + self._gathers * self.pace.buffer_timeout_us
        if len(self._work_us) < _DECIDE_FROM:
            return self.pace
        chosen = Pace(self._rows(work_us), self._timeout_us(work_us))
        assert 0 <= chosen.buffer_timeout_us <= self._most_timeout_us, "PA1"
        assert 1 <= chosen.batch_rows <= self._most_rows, "PA2"
        if chosen != self.pace:
            self.pace = chosen
            self._work_us.clear()  # PA4
        return self.pace

    def _rows(self, work_us: int) -> int:
        rows = self.pace.batch_rows
        worth = int(_WORTH_US / min(self._row_us))
        least = min(max(worth, _LEAST_ROWS), _ENOUGH_ROWS, self._most_rows)
        grown = min(rows + max(rows // 4, 1), self._most_rows)
        if rows < least:
            return min(2 * rows, least)
        if work_us > self._goal_us:
            return max((rows + 1) // 2, least)
        return grown if work_us < self._goal_us * _GROW_BELOW else rows

    def _timeout_us(self, work_us: int) -> int:
        now_us = self.pace.buffer_timeout_us
        wanted_us = min(max((self._goal_us - work_us) // self._gathers, 0), self._most_timeout_us)
        if abs(wanted_us - now_us) <= now_us * _DEAD_BAND:
            return now_us
        if wanted_us < now_us:
            return max(wanted_us, now_us // 2)
        return min(wanted_us, now_us + now_us // 4 + _TIMEOUT_STEP_US)


def exchanges_on_path(edges: Iterable[Edge]) -> int:
    """Return the number of edges on the longest path of a row, ignoring loops."""
    forward = [edge for edge in edges if not edge.feedback]
    depth = {edge.source: 0 for edge in forward}
    for _ in forward:  # Upper bound of the length of a path.
        for edge in forward:
            depth[edge.target] = max(depth.get(edge.target, 0), depth[edge.source] + 1)
    return max(depth.values(), default=0)
