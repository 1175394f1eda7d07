"""Values per key, with the number of their rows: running state whose last key column is the value. It
finds the least or greatest value of a key.

In memory, a search scans the array of all values. On disk the values are sorted, and a search reads few
of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.aggregates.cells import SlotArray
from rheos.core.aggregates.segments import Ints
from rheos.core.operators.running_disk import DiskRunningState
from rheos.core.operators.running_state import MemoryRunningState
from rheos.core.state.key_index import KeyIndex


class MemoryValues(MemoryRunningState):
    def _begin(self) -> None:
        super()._begin()
        of = self._of
        self._owners = KeyIndex([of.schema.field(key).type for key in of.keys])
        self._owner = SlotArray(np.int32, 0)
        """For each slot, the slot of the key to which its value belongs. Only searches need it, so it
        ends before the slots that were added after the last search."""
        self._owned = 0

    def _find_owners(self) -> None:
        """Determine the keys to which new values belong."""
        size = len(self._index)
        if size > self._owned:
            fresh = np.arange(self._owned, size)
            self._owner.grow(size)
            keys = self.keys(fresh)[: len(self._of.keys)]
            self._owner.values[fresh] = self._owners.lookup_or_add(keys)
            self._owned = size

    def best(self, keys: Sequence[pa.Array], others: Sequence[pa.Array], *, greatest: bool) -> pa.Array:
        """Return, for each of the distinct `keys`, its best value that has rows; else null.
        `others` are combinations of key and value to ignore."""
        self._find_owners()
        place = np.full(len(self._owners), -1)
        place[self._owners.find(keys)] = np.arange(len(keys[0]))
        of = place[self._owner.values[: self._owned]]
        of[self.find(others)] = -1
        slots = self.is_occupied(np.flatnonzero(of >= 0))
        assert slots is not None
        values = self.keys(slots)[-1]
        ranks, holder = ranked(values, greatest=greatest)
        best = np.full(len(keys[0]), len(holder))
        np.minimum.at(best, of[slots], ranks)
        return by_rank(values, holder, best)


class DiskValues(DiskRunningState):
    def best(self, keys: Sequence[pa.Array], others: Sequence[pa.Array], *, greatest: bool) -> pa.Array:
        """Return the best value of each key, as `MemoryValues.best` does."""
        self.flush()
        left_out = {*self.entries.places(others, self._max_parallelism).to_pylist()}
        starts = self.entries.places(keys, self._max_parallelism)
        found = [self._best(start, left_out, greatest=greatest) for start in starts.to_pylist()]
        there = [place for place in found if place is not None]
        number = np.cumsum([place is not None for place in found]) - 1
        values = self.entries.keys(there)[-1] if there else pa.array([], others[-1].type)
        return values.take(pa.array(number, mask=np.array([place is None for place in found])))

    def _best(self, start: bytes, left_out: set[bytes], *, greatest: bool) -> bytes | None:
        scan = self.database.scan_prefix_backwards if greatest else self.database.scan_prefix
        return next((place for place, _ in scan(start) if place not in left_out), None)


def ranked(values: pa.Array, *, greatest: bool) -> tuple[Ints, Ints]:
    """Return the rank of each value, best first and nulls last, and the position of one value of each
    rank. NaN is the greatest number."""
    order = "descending" if greatest else "ascending"
    ranks: Ints = pc.rank(values, sort_keys=order, tiebreaker="dense").to_numpy().astype(np.int64) - 1
    if greatest and pa.types.is_floating(values.type):
        # Arrow ranks NaN after all numbers in both orders.
        nan = pc.is_nan(values).fill_null(False).to_numpy(zero_copy_only=False)
        if nan.any():
            ranks = np.where(nan, 0, ranks + (ranks < ranks[nan].min()))
    holder = np.empty(int(ranks.max()) + 1 if len(ranks) else 0, np.int64)
    holder[ranks] = np.arange(len(ranks))
    return ranks, holder


def by_rank(values: pa.Array, holder: Ints, ranks: Ints) -> pa.Array:
    """Return the values of these ranks; null for a rank that no value has."""
    none = ranks >= len(holder)
    places = np.append(holder, 0)[np.where(none, len(holder), ranks)]
    return values.take(pa.array(places, mask=none))
