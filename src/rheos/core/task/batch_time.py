"""Chooses the maximum number of rows in a batch, so that no chain works on a batch for too long. Pure.

Channels limit the number of waiting batches (credits), not of rows. A barrier, a timer or a row after a
batch waits until the batch is processed. So the processing time of a batch decides how long rows wait
at full load: 16,384 rows take 2 ms for a running sum, 30 ms for a Python function, and minutes for a
function that queries a server.

At intervals, the controller receives the number of rows that each chain of the slot has processed, and
its working time. The size begins small. It is doubled if a batch of twice the rows would clearly take
less than the maximum time. It is halved until a batch takes no longer than the maximum. The chain that
is nearest to its maximum decides.

Only the cost of rows becomes smaller with the batch, not its fixed cost (`batch_cost`). So the rows of
a batch may take twice as long as its fixed cost, even if both together take longer than the maximum:
smaller batches would mostly repeat the fixed cost. If the fixed cost is unknown and would matter, half
of the size is tried for a moment.

The cost excludes time in which the slot only waited for a processor. Otherwise many slots on few cores
would seem slow, and smaller batches would make them slower. Intervals with small batches are ignored,
because the slot has little to do in them.

Invariants: BT1, batches have between 1 and `most_rows` rows. BT2, one step at most doubles them. BT3,
while costs are constant, the size converges.
"""

from __future__ import annotations

from collections.abc import Sequence

from rheos.core.task.batch_cost import BatchCosts, IntakeCounts

_BATCH_US = 16_000
"""Maximum time that a batch may take."""
_PIECE_US = 500
"""Minimum processing time of a piece, so that the piece is worth its fixed cost. A batch is cut into
one piece per reading subtask."""
_GROW_BELOW = 0.8
"""Share of the maximum time. The size is doubled only if a batch of twice the rows would take less."""
_WORTH = 2
"""Multiple of the fixed cost of a batch that its rows may always take."""
_LARGER = 4
"""A chain that takes smaller batches than the slot's size, because others filter rows or cut batches,
may suddenly take batches larger by this factor."""
_AT_ONCE = 2.0
"""Multiple of the maximum time at which the first measurement is enough to halve the size."""
_FIRST_ROWS = 1_024
_SMALL = 16
"""Divisor of the current size; smaller batches than the quotient count as small."""
_TRY_INTERVALS = 4
"""Number of intervals for which half of the size is tried. Until then, the slot has processed the
batches that waited."""


class BatchTime:
    """Chooses the batch size of one slot. `observe` is called at intervals, and returns the size."""

    def __init__(self, chains: int, most_rows: int, parallelism: int) -> None:
        self.rows = min(_FIRST_ROWS, most_rows)
        self._most_rows = most_rows
        self._batch_us = max(_BATCH_US, parallelism * _PIECE_US)
        self._chains = [BatchCosts() for _ in range(chains)]
        self._tries = 0
        """Number of intervals for which the present try goes on."""
        self._rows_before = self.rows
        """The size before the last try."""

    def observe(self, taken: Sequence[IntakeCounts], share: float = 1.0) -> int:
        """Return the new size. `taken` has all chains, always in the same order. `share` is the part
        of the time since the last call in which the slot worked instead of waiting for a core."""
        small_rows = (self.rows - 1) // _SMALL
        measured = [
            chain.measure(now, share, small_rows)
            for chain, now in zip(self._chains, taken, strict=True)
        ]
        deciding = [chain for chain in self._chains if chain.present_rows > small_rows]
        if not any(measured) or not deciding:
            return self.rows
        nearest = max(deciding, key=self._row_share)
        share_of_row = self._row_share(nearest)
        grown = min(2 * self.rows, self._most_rows)
        if self._tries:
            self._tries -= 1
            self.rows = self.rows if self._tries else self._rows_before
        elif grown * share_of_row < _GROW_BELOW:
            self.rows = grown
        elif grown > self.rows > 1 and nearest.begin_try():
            self._rows_before, self._tries = self.rows, _TRY_INTERVALS
            self.rows //= 2
        if self.rows * share_of_row > (1 if nearest.is_settled else _AT_ONCE):
            while self.rows > 1 and self.rows * share_of_row > 1:
                self.rows = (self.rows + 1) // 2
        assert 1 <= self.rows <= self._most_rows, "BT1"
        return self.rows

    def _row_share(self, chain: BatchCosts) -> float:
        """Return the share of the maximum time that a chain needs for one row of the slot's batches."""
        taken = min(_LARGER * chain.present_rows / self.rows, 1.0)
        return taken * chain.row_us / max(self._batch_us - chain.fixed_us, _WORTH * chain.fixed_us)
