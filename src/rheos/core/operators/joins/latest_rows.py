"""The currently valid version of each key, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from rheos.core.operators.fitting import fitted
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.snapshots import PartMode, SnapshotPart
from rheos.core.state.key_index import KeySlots
from rheos.core.state.numbered_array import with_room
from rheos.core.state.numbered_rows import Numbers, taken
from rheos.core.state.parts import DeltaChain, by_group, keyed_part
from rheos.core.state.slots import Slots

LEAST_ROWS = 1 << 12
"""Minimum number of stored rows before replaced versions are removed. At least half of the rows must be
replaced versions, too."""


class LatestRows:
    """The latest row of each key. Rows are numbered in order of arrival. A delta has the rows that
    arrived since the last snapshot."""

    def __init__(
        self, state: str, schema: pa.Schema, keys: Sequence[str], max_parallelism: int
    ) -> None:
        self._state = state
        self._schema = schema
        self._keys = keys
        self._max_parallelism = max_parallelism
        self._chain = DeltaChain()
        self.clear()

    def clear(self) -> None:
        """Drop all rows."""
        self._slots = KeySlots(len(self._keys))
        self._parts: list[tuple[int, Batch]] = []
        self._next = 0
        self._settled = 0
        self._numbers: Numbers = np.full(1 << 10, -1, np.int64)

    def slots_of(self, rows: Batch) -> Slots:
        """Return the slots for new versions, which `put` then adds."""
        return self._slots.lookup_or_add([rows.column(key) for key in self._keys])

    def known(self, batch: Batch, keys: Sequence[str]) -> Slots:
        """Return the slots of these keys, -1 for a key that never had a version."""
        return self._slots.find([batch.column(key) for key in keys])

    def find(self, slots: Slots) -> Numbers:
        """Return the number of the version of each slot, or -1 if the slot has no version."""
        numbers: Numbers = np.where(slots >= 0, self._grow_numbers()[slots], -1)
        return numbers

    def take(self, numbers: Numbers, columns: Sequence[str]) -> Batch:
        """Return the versions with these numbers. At least one version must exist."""
        return taken(self._parts, numbers, columns)

    def put(self, slots: Slots, rows: Batch) -> None:
        """Add new versions of these slots, in the order in which they replace each other."""
        if not rows.num_rows:
            return
        self._grow_numbers()[slots] = np.arange(self._next, self._next + rows.num_rows)
        self._parts.append((self._next, rows))
        self._next += rows.num_rows
        # Each batch is more than twice as long as the next, so there are few.
        while len(self._parts) > 1 and self._parts[-2][1].num_rows <= 2 * self._parts[-1][1].num_rows:
            (first, before), (_, last) = self._parts[-2:]
            self._parts[-2:] = [(first, pa.concat_batches([before, last]))]
        held = sum(batch.num_rows for _, batch in self._parts)
        if held > LEAST_ROWS and held > 2 * len(self._slots):
            self._clear_away()

    def _grow_numbers(self) -> Numbers:
        self._numbers = with_room(self._numbers, len(self._slots), -1)
        return self._numbers

    def _clear_away(self) -> None:
        there = np.flatnonzero(self._numbers >= 0)
        numbers = self._numbers[there]
        order = np.argsort(numbers)
        rows = self.take(numbers[order], self._schema.names)
        settled = int(np.count_nonzero(numbers < self._settled))
        self._numbers[there[order]] = np.arange(self._next, self._next + len(order))
        self._parts = [(self._next, rows)]
        self._settled = self._next + settled
        self._next += len(order)

    # --- snapshots ------------------------------------------------------------------------------------

    def part(self) -> SnapshotPart:
        """Return the next snapshot's part."""
        numbers = self._numbers[self._numbers >= 0]
        fresh = numbers[numbers >= self._settled]
        mode = self._chain.next_mode(len(fresh))
        chosen = numbers if mode is PartMode.FULL else fresh
        self._chain.taken(mode, len(chosen))
        self._settled = self._next
        return self._part(mode, chosen)

    def whole(self) -> SnapshotPart:
        """Return all versions. This call does not change the next snapshot."""
        return self._part(PartMode.FULL, self._numbers[self._numbers >= 0])

    def force_full(self) -> None:
        self._chain.force_full()

    def _part(self, mode: PartMode, numbers: Numbers) -> SnapshotPart:
        parts, schema, keys = list(self._parts), self._schema, self._keys

        def write() -> pa.Table:
            rows = pa.RecordBatch.from_pylist([], schema)
            if len(numbers):
                rows = taken(parts, numbers, schema.names)
            return by_group(rows, keys, self._max_parallelism)

        return keyed_part(self._state, mode, len(numbers), write)

    def restore(self, tables: Iterable[pa.Table]) -> None:
        for table in tables:
            for batch in fitted(table, self._schema, "versions").combine_chunks().to_batches():
                self.put(self.slots_of(batch), batch)
