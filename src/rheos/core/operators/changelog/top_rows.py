"""The first rows of keys while other rows arrive, by number. An order is a whole number for each row,
so that no row becomes a Python object for a comparison.

```python
tops = TopRows(1, orders=np.array([1, 2, 0]), ties=None)
tops.add_key(7, [1])
tops.enter([7, 7], [0, 2])
assert tops.numbers == {7: [2]}
changes = tops.changes()
assert changes.rows.tolist() == [1, 0, 0, 2]
assert changes.ops.tolist() == [UPDATE_BEFORE, UPDATE_AFTER, UPDATE_BEFORE, UPDATE_AFTER]
```
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.graph.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

Numbers = npt.NDArray[np.int64]

_OPS = pa.array([INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE])
_INSERT, _UPDATE_BEFORE, _UPDATE_AFTER, _DELETE = range(4)
_NONE = -1


class RankChanges(NamedTuple):
    """Changes of the rows at ranks, as columns."""

    rows: Numbers
    """Numbers of the rows."""
    ranks: Numbers
    """Ranks, from 1."""
    ops: pa.Array
    origins: Numbers
    """Number of the row whose arrival caused the change."""


class TopRows:
    """The first `n` rows of keys, and the changes of their ranks."""

    def __init__(self, n: int, orders: Numbers, ties: Numbers | None) -> None:
        """Create the lists without keys.

        Args:
            n: Maximum number of rows of a key, apart from ties.
            orders: For each row, its place in the order. Equal rows have equal places.
            ties: For each row, the rank of its value, if rows with the value of the last rank are
                included.
        """
        self._n = n
        self._places = orders
        self._orders: list[int] = orders.tolist()
        self._ties: list[int] | None = None if ties is None else ties.tolist()
        self.numbers: dict[int, list[int]] = {}
        """For each key, the numbers of its first rows in order."""
        self._of_key: dict[int, list[int]] = {}
        """For each key, the places of these rows."""
        self.entered: list[int] = []
        """Numbers of the rows that have been among the first, in the order of arrival."""
        self._ranks: list[int] = []
        """Number of rows that ranked before each of these rows."""
        self._counts: list[int] = []
        """Number of ranks that each of these rows has changed."""
        self._was: list[int] = []
        """Number of the old row at each changed rank; _NONE if the rank is new."""
        self._now: list[int] = []
        """Number of the new row; _NONE if the rank is gone."""

    def add_key(self, key: int, numbers: Iterable[int]) -> None:
        """Add a key with its first rows, in order."""
        self.numbers[key] = [*numbers]
        self._of_key[key] = [self._orders[number] for number in self.numbers[key]]

    def enter(self, keys: Sequence[int], numbers: Iterable[int]) -> None:
        """Add arriving rows one after the other. A row after equal rows ranks after them."""
        n, orders, ties = self._n, self._orders, self._ties
        was, now = self._was, self._now
        for key, number in zip(keys, numbers, strict=True):
            places, first = self._of_key[key], self.numbers[key]
            place = orders[number]
            rank, before = bisect_right(places, place), len(first)
            if rank >= n and (ties is None or ties[number] != ties[first[n - 1]]):
                continue
            was += first[rank:]
            places.insert(rank, place)
            first.insert(rank, number)
            size = before + 1
            if before >= n and (ties is None or ties[first[n - 1]] != ties[first[n]]):
                del places[n:], first[n:]
                size = n
            now += first[rank:]
            if size > before:
                was.append(_NONE)
            else:
                now += [_NONE] * (before - size)
            self.entered.append(number)
            self._ranks.append(rank)
            self._counts.append(max(size, before) - rank)

    def changes(self) -> RankChanges:
        """Return the changes in the order of arrival and rank. A rank whose row was replaced by an
        equal one is unchanged."""
        was, now = np.array(self._was, np.int64), np.array(self._now, np.int64)
        counts = np.array(self._counts, np.int64)
        ranks = np.repeat(self._ranks - (counts.cumsum() - counts), counts) + np.arange(1, len(was) + 1)
        had, has = was != _NONE, now != _NONE
        same = had & has & (self._places[was] == self._places[now])
        there = np.stack([had & ~same, has & ~same], 1)
        ops = np.empty((len(was), 2), np.int64)
        ops[:, 0] = np.where(has, _UPDATE_BEFORE, _DELETE)
        ops[:, 1] = np.where(had, _UPDATE_AFTER, _INSERT)
        change = np.nonzero(there)[0]
        return RankChanges(
            np.stack([was, now], 1)[there],
            ranks[change],
            _OPS.take(pa.array(ops[there])),
            np.repeat(self.entered, counts)[change],
        )
