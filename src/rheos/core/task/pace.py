"""From a latency objective to a buffer timeout and a size of batches. Pure.

A slot has a subtask of every chain, so what one slot sees stands for the whole path of a row: along it
a row is gathered once for each exchange (that takes up to the buffer timeout), and what is left is
*work*: waiting for the slot's turn and for credit, and being processed. The controller is told now and
then how long work took at worst. It takes the median of a few, so that one pause of the machine
changes nothing, and steers so that work and gathering together stay under a share of the objective:

- What work leaves of it is for gathering: a longer timeout makes larger batches, which cost less.
- Where work alone takes all of it, queues are too long: batches become smaller, by half. Where it takes
  less than half, they grow by a quarter. In between they stay, and neither step leaps over that band.
- Batches never become so small that their own price outweighs that of their rows: that would make
  queues longer, not shorter. What rows cost is the least that was seen lately, as in small batches most
  of the cost is that of the batch.

Invariants: PA1, the timeout is between 0 and the share of the objective for one exchange. PA2, batches
have between 1 and `most_rows` rows. PA3, one step at most halves a setting or adds a quarter and a
little; batches that are too small for their price are doubled. PA4, after a step nothing is decided by
how long work took before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from rheos.core.plan.physical import Edge

OBSERVE_EVERY_US = 50_000

_SHARE = 0.8
"""Share of the objective to steer for: a slot does not see everything that takes time."""
_GROW_BELOW = 0.5
"""Part of that share: batches grow if work takes less."""
_SAMPLES = 5
_DECIDE_FROM = 3
_FIRST_TIMEOUT_US = 10_000
_MOST_TIMEOUT_US = 100_000
_TIMEOUT_STEP_US = 200
_DEAD_BAND = 0.125
"""Share of the timeout by which a new one must differ to be a reason for a change."""
_WORTH_US = 1_000
"""If the rows of a batch take this long, the batch is large enough: its own cost is a small part of
that."""
_LEAST_ROWS = 16
_COSTS = 100
"""So many intervals are remembered for what a row costs."""
_ENOUGH_ROWS = 1_024


@dataclass(frozen=True, slots=True)
class Observed:
    """Measurements of a slot since its last report."""

    rows: int
    """Number of rows that its operators have taken or emitted."""
    busy_us: int
    waited_us: int
    """The longest that a batch took from its arrival until it was processed."""
    stuck_us: int
    """Time that the oldest row of a buffer has waited beyond the buffer timeout."""
    turn_us: int
    """The longest turn of the slot's loop: for that long, the slot notices no arrival."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The chosen settings."""

    batch_rows: int
    buffer_timeout_us: int


class PaceController:
    """Chooses the settings of one slot. `observe` is called at intervals, and returns the settings from
    then on."""

    def __init__(self, objective_us: int, exchanges: int, most_rows: int) -> None:
        """`exchanges`: number of exchanges on the longest path of a row."""
        self._goal_us = int(objective_us * _SHARE)
        self._exchanges = exchanges
        self._gathers = max(exchanges, 1)
        self._most_timeout_us = min(self._goal_us // self._gathers, _MOST_TIMEOUT_US)
        self._most_rows = most_rows
        self._work_us: deque[int] = deque(maxlen=_SAMPLES)
        self._row_us: deque[float] = deque(maxlen=_COSTS)
        self.pace = Pace(most_rows, min(self._most_timeout_us // 2, _FIRST_TIMEOUT_US))
        self.found_us = 0
        """Worst latency of a row by the last measurement; 0 if there were no rows."""

    def observe(self, seen: Observed) -> Pace:
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
    """Return the number of edges on the longest path of a row that is in no loop."""
    forward = [edge for edge in edges if not edge.feedback]
    depth = {edge.source: 0 for edge in forward}
    for _ in forward:  # As often as a path is long at the most.
        for edge in forward:
            depth[edge.target] = max(depth.get(edge.target, 0), depth[edge.source] + 1)
    return max(depth.values(), default=0)
