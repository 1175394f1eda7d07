"""Separates the working time of a slot into the cost of its rows and a fixed cost of its runs. Pure.

A run of a chain has a fixed cost, however few rows it takes: framing, look-ups, and the interpreter's
steps between them. A slot whose buffer timeout is short makes many small runs, and may be busy all the
time with few rows. With more rows, each run takes more of them, and the number of runs falls. So the
fixed cost is spare capacity: the automatic scaling subtracts it from the time in which a slot was busy.

The fixed cost is the intercept of a straight line through the newest samples of rows and durations. The
estimate is deliberately low: the slope is the upper end of its interval, pauses are left out, and
without a slope (all runs take the same number of rows) the fixed cost is zero.

Invariants:

- FC1, the fixed cost of a run is at least zero, and at most the duration of that run.
- FC2, an interval in which a chain took large batches has no fixed cost: its runs cannot become fewer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from rheos.core.task.chain import ChainRunner
from rheos.core.task.traffic import SpentTime

_SAMPLES = 256
_DECIDE_FROM = 64
_TURNS = 8
"""Number of turns of which one is measured, because measuring each would cost 4 % of a small turn."""
_PAUSED = 4.0
"""Durations above this multiple of the median are pauses, or work that is not for rows."""
_STANDARD_ERRORS = 2.0
"""Number of standard errors by which the slope is raised."""
_LARGE = 2
"""A batch is large if it has at least the maximum number of rows of a batch, divided by this."""


class RunCost:
    """The fixed cost of the runs of one chain, or of the turns of the loop."""

    def __init__(self) -> None:
        self.rows = 0
        self.with_rows = 0
        """Number of runs that took rows."""
        self._fixed_us = 0.0
        self._fixed_of_run_us = 0.0
        self._samples: deque[tuple[int, int]] = deque(maxlen=_SAMPLES)

    def ran(self, rows: int, took_us: int) -> None:
        """Record a run that took this number of rows, and this time."""
        self._fixed_us += min(took_us, self._fixed_of_run_us)
        if rows == 0:
            return
        self.rows += rows
        self.with_rows += 1
        self._samples.append((rows, took_us))

    def take_us(self) -> float:
        """Return the fixed cost of the runs since the last call, in µs. Renew the estimate."""
        taken, self._fixed_us = self._fixed_us, 0.0
        if len(self._samples) >= _DECIDE_FROM:
            self._fixed_of_run_us = fixed_cost_us(self._samples)
        return taken


def fixed_cost_us(samples: Sequence[tuple[int, int]]) -> float:
    """Return the fixed cost of a run, in µs. The estimate is deliberately low.

    Args:
        samples: Number of rows of a run, and its duration in µs.

    >>> fixed_cost_us([(rows, 100 + 3 * rows) for rows in (1, 2, 3, 4)])
    100.0
    >>> fixed_cost_us([(1, 100), (1, 110), (1, 90), (1, 95)])
    0.0
    """
    rows, took_us = np.array(samples, np.float64).T
    kept = took_us <= _PAUSED * np.median(took_us)
    rows, took_us = rows[kept], took_us[kept]
    spread = rows - rows.mean()
    squares = float(spread @ spread)
    if squares == 0 or len(rows) < 3:
        return 0.0
    slope = float(spread @ took_us) / squares
    left = took_us - took_us.mean() - slope * spread
    error = float(np.sqrt(left @ left / (len(rows) - 2) / squares))
    row_us = max(slope, 0.0) + _STANDARD_ERRORS * error
    return max(float(took_us.mean() - row_us * rows.mean()), 0.0)


class FixedCosts:
    """The fixed costs of the chains of one slot, and of the loop around them."""

    def __init__(self, chains: Sequence[tuple[ChainRunner, SpentTime]]) -> None:
        self._chains = [_WatchedChain(chain, spent) for chain, spent in chains]
        self._loop = RunCost()
        self._costs = [self._loop, *(watched.cost for watched in self._chains)]
        self._turn = 0
        """Number of the turn, modulo `_TURNS`. The counts at the end of turn 0 are those before turn 1,
        which is measured."""
        self._reported = [(0, 0)] * len(self._costs)
        """Rows, and runs with rows, of each cost at the last report."""
        self._total_us = 0.0

    def turned(self, took_us: int) -> None:
        """Record a turn of the slot's loop in which something was done."""
        self._turn = (self._turn + 1) % _TURNS
        if self._turn > 1:
            return
        if self._turn == 0:
            for watched in self._chains:
                watched.begin()
            return
        rows = 0
        for watched in self._chains:
            ran_rows, ran_us = watched.turned()
            rows += ran_rows
            took_us -= ran_us
        self._loop.ran(rows, max(took_us, 0))

    def total_us(self, batch_rows: int, worked_share: float = 1.0) -> int:
        """Return the sum of all fixed costs up to now. Called once for each report.

        Args:
            batch_rows: Maximum number of rows of a batch since the last call.
            worked_share: Share of the working time since then in which the thread did not wait for a
                core.
        """
        took_large = False
        before, self._reported = self._reported, [(each.rows, each.with_rows) for each in self._costs]
        for (rows, runs), (rows_before, runs_before) in zip(self._reported, before, strict=True):
            taken = runs - runs_before
            took_large |= taken > 0 and (rows - rows_before) * _LARGE >= taken * batch_rows
        fixed_us = _TURNS * worked_share * sum(each.take_us() for each in self._costs)
        self._total_us += 0.0 if took_large else fixed_us
        return int(self._total_us)


class _WatchedChain:
    """A chain, and its counts before the measured turn."""

    def __init__(self, chain: ChainRunner, spent: SpentTime) -> None:
        self.cost = RunCost()
        self._chain = chain
        self._spent = spent
        self._rows = 0
        self._busy_us = 0

    def begin(self) -> None:
        """Note the counts before a turn."""
        self._rows, self._busy_us = self._chain.rows_taken, self._spent.busy_us

    def turned(self) -> tuple[int, int]:
        """Return the rows that the chain took in the turn, and its working time."""
        ran_us = self._spent.busy_us - self._busy_us
        if ran_us == 0:
            return 0, 0
        ran_rows = self._chain.rows_taken - self._rows
        self.cost.ran(ran_rows, ran_us)
        return ran_rows, ran_us
