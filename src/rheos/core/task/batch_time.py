"""How many rows a batch may have, so that no chain works on one for long. Pure.

What waits at a chain is counted in batches (credits), and a barrier, a timer or a row behind a batch
waits until that is processed. So what a batch takes decides how long rows wait at full load: 16,384
rows are 2 ms of a running sum, 30 ms of a function in Python and minutes of one that asks a server.

At intervals it is seen what each chain of the slot has taken in, and how long it worked. The size
begins small. It is doubled where a batch of twice the rows would take clearly less than it may, by what
the dearest rows cost, and halved until one takes no longer. What a row costs is the least of the last
second, since a machine pauses now and then, and without the time in which the slot only waited for its
turn: many slots on few cores would else look slow, and smaller batches make them slower. Intervals of
small batches say nothing: in these the price of a batch is most of what is seen.

Invariants: BT1, batches have between 1 and `most_rows` rows. BT2, one step at most doubles them. BT3,
while rows cost the same the size comes to rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

_BATCH_US = 16_000
"""Maximum time that a batch may take."""
_PIECE_US = 500
"""A batch is cut into a piece for each subtask that reads, and each piece should be worth its price."""
_GROW_BELOW = 0.8
"""The size is doubled only if a batch of twice the rows would take less than this share of the time
that a batch may take."""
_FIRST_ROWS = 1_024
_INTERVALS = 20
_SMALL = 16
"""Batches of less than this part of the size that holds are small."""


class Intake(NamedTuple):
    """Rows and batches that a chain has taken in, and its working time, since its attempt began."""

    rows: int
    batches: int
    busy_us: int


class BatchTime:
    """Chooses the size of batches of one slot. `observe` is called at intervals, and returns the size
    from then on."""

    def __init__(self, chains: int, most_rows: int, parallelism: int) -> None:
        self.rows = min(_FIRST_ROWS, most_rows)
        self._most_rows = most_rows
        self._batch_us = max(_BATCH_US, parallelism * _PIECE_US)
        self._seen = [Intake(0, 0, 0)] * chains
        self._row_us = [deque[float](maxlen=_INTERVALS) for _ in range(chains)]

    def observe(self, taken: Sequence[Intake], share: float = 1.0) -> int:
        """By chain, always in the same order. `share` is that of the time since the last call in which
        the slot worked, and did not only wait for a core."""
        told = False
        for costs, now, before in zip(self._row_us, taken, self._seen, strict=True):
            rows, batches = now.rows - before.rows, now.batches - before.batches
            if rows and rows * _SMALL >= self.rows * batches:
                costs.append((now.busy_us - before.busy_us) * share / rows)
                told = True
        self._seen = list(taken)
        if not told:
            return self.rows
        dearest_us = max(min(costs) for costs in self._row_us if costs)
        grown = min(2 * self.rows, self._most_rows)
        if grown * dearest_us < self._batch_us * _GROW_BELOW:
            self.rows = grown
        while self.rows > 1 and self.rows * dearest_us > self._batch_us:
            self.rows = (self.rows + 1) // 2
        assert 1 <= self.rows <= self._most_rows, "BT1"
        return self.rows
