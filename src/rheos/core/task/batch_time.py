"""Chooses the maximum number of rows in a batch, so that no chain works on a batch for too long. Pure.

Channels limit the number of waiting batches (credits), not of rows. A barrier, a timer or a row after a
batch waits until the batch is processed. So the processing time of a batch decides how long rows wait
at full load: 16,384 rows take 2 ms for a running sum, 30 ms for a Python function, and minutes for a
function that queries a server.

At intervals, the controller receives the number of rows that each chain of the slot has processed, and
its working time. The size begins small. It is doubled if a batch of twice the rows would clearly take
less than the maximum time. It is halved until a batch takes no longer than the maximum. The chain with
the most expensive rows decides.

The cost of a row is the minimum of the last second, because a machine pauses now and then. The cost
excludes time in which the slot only waited for a processor. Otherwise many slots on few cores would
seem slow, and smaller batches would make them slower. Intervals with small batches are ignored, because
the fixed cost of a batch dominates in them.

Invariants: BT1, batches have between 1 and `most_rows` rows. BT2, one step at most doubles them. BT3,
while the cost of rows is constant, the size converges.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

_BATCH_US = 16_000
"""Maximum time that a batch may take."""
_PIECE_US = 500
"""Minimum processing time of a piece, so that the piece is worth its fixed cost. A batch is cut into
one piece per reading subtask."""
_GROW_BELOW = 0.8
"""Share of the maximum time. The size is doubled only if a batch of twice the rows would take less."""
_FIRST_ROWS = 1_024
_INTERVALS = 20
_SMALL = 16
"""Divisor of the current size; smaller batches than the quotient count as small."""


class IntakeCounts(NamedTuple):
    """Rows and batches that a chain has taken, and its working time, since its attempt began."""

    rows: int
    batches: int
    busy_us: int


class BatchTime:
    """Chooses the batch size of one slot. `observe` is called at intervals, and returns the size."""

    def __init__(self, chains: int, most_rows: int, parallelism: int) -> None:
        self.rows = min(_FIRST_ROWS, most_rows)
        self._most_rows = most_rows
        self._batch_us = max(_BATCH_US, parallelism * _PIECE_US)
        self._seen = [IntakeCounts(0, 0, 0)] * chains
        self._row_us = [deque[float](maxlen=_INTERVALS) for _ in range(chains)]

    def observe(self, taken: Sequence[IntakeCounts], share: float = 1.0) -> int:
        """Return the new size. `taken` has all chains, always in the same order. `share` is the part
        of the time since the last call in which the slot worked instead of waiting for a core."""
        has_told = False
        for costs, now, before in zip(self._row_us, taken, self._seen, strict=True):
            rows, batches = now.rows - before.rows, now.batches - before.batches
            if rows and rows * _SMALL >= self.rows * batches:
                costs.append((now.busy_us - before.busy_us) * share / rows)
                has_told = True
        self._seen = list(taken)
        if not has_told:
            return self.rows
        dearest_us = max(min(costs) for costs in self._row_us if costs)
        grown = min(2 * self.rows, self._most_rows)
        if grown * dearest_us < self._batch_us * _GROW_BELOW:
            self.rows = grown
        while self.rows > 1 and self.rows * dearest_us > self._batch_us:
            self.rows = (self.rows + 1) // 2
        assert 1 <= self.rows <= self._most_rows, "BT1"
        return self.rows
