"""Separates the time of a chain's batches into a fixed cost of a batch and the cost of its rows. Pure.

A join of long windows, for example, may have a fixed cost of 10 ms for each batch. If that counted as a
cost of rows, rows would seem more expensive in smaller batches.

So the costs follow from batches of two sizes: the present one, and one that the chain had before. The
time for a size is the minimum of the last intervals with it, because a machine pauses now and then. A
minimum of few intervals may still be too high. For a smaller size, this error is harmless: the cost of
rows seems too low, so larger batches are measured. For a larger size, it would make rows seem too
expensive for good. So after few intervals a larger size counts only until a smaller one is known.

If the cost of rows changes while the size stays, the other sizes are forgotten. Without another size,
the whole time counts as cost of rows.

`fixed_cost` measures single small runs instead, and with another aim: it finds how much work would
disappear if runs were fewer, and takes the mean, not the minimum.

Invariants: BC1, both costs are at least zero. BC2, together they are the time of a batch of the present
size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import log2
from typing import NamedTuple

_INTERVALS = 20
"""Number of intervals of which the fastest counts."""
_CHANGED = 1.25
"""Ratio of the costs of rows at which they count as changed."""
_SETTLED = 3
"""Number of intervals from which the minimum of the present size may halve the size, or begin a try."""
_RELIABLE = 10
"""Number of intervals from which another size is preferred to those with fewer."""
_APART = 1.4
"""Minimum ratio of two sizes whose difference shows the cost of rows."""


class IntakeCounts(NamedTuple):
    """Rows and batches that a chain has taken, and its working time, since its attempt began."""

    rows: int
    batches: int
    busy_us: int


class _MeanBatch(NamedTuple):
    """The mean batch of an interval."""

    rows: float
    took_us: float

    @property
    def row_us(self) -> float:
        return self.took_us / self.rows


class BatchCosts:
    """The costs of the batches of one chain. They are zero until it has processed a batch."""

    def __init__(self) -> None:
        self.fixed_us = 0.0
        self.row_us = 0.0
        self.is_separated = False
        """Whether batches of two sizes have shown both costs; no more tries are necessary."""
        self.is_settled = False
        """Whether the present batches were measured in several intervals."""
        self.present_rows = 0.0
        """The rows of the fastest of the present batches; 0 before the first."""
        self._seen = IntakeCounts(0, 0, 0)
        self._size: int | None = None
        """The logarithm of the rows of the present batches; None before the first."""
        self._by_size: dict[int, deque[_MeanBatch]] = {}
        self._compared_us: float | None = None
        """The whole cost of a row in the present batches, when the other sizes were measured."""
        self._tried_with = 0
        """The number of known sizes at the last try."""

    def measure(self, now: IntakeCounts, share: float, small_rows: int) -> bool:
        """Add the work of an interval.

        Args:
            now: The counts at its end.
            share: The part of the interval in which the slot did not wait for a core.
            small_rows: Batches with up to this number of rows are small. They help to separate the
                costs, but the present batches remain those before.

        Returns:
            Whether the chain had batches that were not small.
        """
        rows, batches = now.rows - self._seen.rows, max(now.batches - self._seen.batches, 1)
        busy_us, self._seen = now.busy_us - self._seen.busy_us, now
        if not rows:
            return False
        batch = _MeanBatch(rows / batches, busy_us * share / batches)
        size = round(log2(batch.rows))
        is_small = batch.rows <= small_rows
        if size != self._size and not is_small:
            self._size, self._compared_us = size, None
        batches_of_size = self._by_size.setdefault(size, deque(maxlen=_INTERVALS))
        batches_of_size.append(batch)
        if size == self._size and len(batches_of_size) == _INTERVALS:
            self._compare(size, _fastest(batches_of_size).row_us)
        if self._size is not None:
            self._separate(self._by_size[self._size])
        return not is_small

    def begin_try(self) -> bool:
        """Return whether the chain should get batches of another size, so that the costs can be
        separated. If it had no other size in spite of a try, the answer is no until the cost of rows
        changes."""
        begins = self.is_settled and not self.is_separated and self._tried_with != len(self._by_size)
        if begins:
            self._tried_with = len(self._by_size)
        return begins

    def _compare(self, size: int, row_us: float) -> None:
        """Forget other sizes than this if the cost of a row has changed since they were measured."""
        if self._compared_us is None:
            self._compared_us = row_us
        elif not 1 / _CHANGED <= (row_us + 1e-9) / (self._compared_us + 1e-9) <= _CHANGED:
            self._compared_us = row_us
            self._by_size = {size: self._by_size[size]}
            self._tried_with = 0

    def _separate(self, present: deque[_MeanBatch]) -> None:
        now = _fastest(present)
        self.present_rows = now.rows
        self.is_settled = len(present) >= _SETTLED
        other, self.is_separated = self._other_size(now)
        self.row_us = now.row_us
        if other is not None:
            slope_us = (now.took_us - other.took_us) / (now.rows - other.rows)
            self.row_us = min(max(slope_us, 0.0), now.row_us)
        self.fixed_us = max(now.took_us - self.row_us * now.rows, 0.0)

    def _other_size(self, now: _MeanBatch) -> tuple[_MeanBatch | None, bool]:
        """Return the fastest batch of another size, and whether the size counts for good: the nearest
        one that is reliable, or else the nearest smaller one, or else the nearest."""
        others = [
            (len(batches) < _RELIABLE, other.rows > now.rows, apart, other)
            for batches in self._by_size.values()
            if (apart := abs(log2((other := _fastest(batches)).rows / now.rows))) >= log2(_APART)
        ]
        if not others:
            return None, False
        is_new, is_larger, _, other = min(others)
        return other, not (is_new and is_larger)


def _fastest(batches: Iterable[_MeanBatch]) -> _MeanBatch:
    return min(batches, key=lambda each: each.row_us)
