"""The state of running aggregates on the local disk, with recently used keys in memory.

Memory holds two generations of keys, each a `RunningState`. A key that the newer generation lacks is
moved from the older one, or else read from the database. All such keys of a batch are read at once.
When the newer generation is full, its changes are written to the database and it becomes the older. So
only keys that were not used for a whole generation are evicted, and no order by last use is needed.

In the database each key has an entry with the packed parts of its cells: see
`state.rocksdb.packed_entries`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.aggregates.segments import Ints
from rheos.core.operators.running_state import KeptAggregates, RunningState
from rheos.core.protocol.elements import Batch
from rheos.core.state.rocksdb.database import Database
from rheos.core.state.rocksdb.packed_entries import KEY, PIECE_ROWS, PackedEntries
from rheos.core.state.slots import Slots

_FEWEST_KEYS = 64

# Approximate memory per key: in the index, for each string in its key, for each part of a cell.
_KEY_BYTES = 110
_TEXT_BYTES = 160
_PART_BYTES = 16


class DiskRunningState:
    """Running state larger than memory, with the interface of `RunningState`. Recent keys are in
    memory."""

    def __init__(
        self, of: KeptAggregates, *, name: str, groups: range, max_parallelism: int, memory_bytes: int
    ) -> None:
        self._make = partial(RunningState, of)
        self._of = of
        self.name = name
        self._groups = groups
        self._max_parallelism = max_parallelism
        self._newer = self._make()
        self._older = self._make()
        columns = self._newer.freeze().columns()
        described = [pa.field(column, values.type) for column, values in columns.items()]
        self._columns = pa.schema(described)
        self._most_keys = max(memory_bytes // 2 // _bytes_per_key(self._columns), _FEWEST_KEYS)
        self._database: Database | None = None

    @property
    def database(self) -> Database:
        assert self._database is not None, "state is used only after it was opened"
        return self._database

    def __len__(self) -> int:
        """Return the number of keys in memory."""
        return len(self._newer) + len(self._older)

    def open(self, database: Database) -> bool:
        """Continue with the state in the database. Return False if it is missing or has other columns:
        then the caller must write it with `write`."""
        found = PackedEntries.stored(database, self.name, len(self._of.keys))
        if found is None or found.columns != self._columns:
            return False
        self._database, self.entries = database, found
        return True

    def stored(self, database: Database) -> Iterator[pa.Table] | None:
        """Return the stored tables of a database, with any columns; None if nothing is stored."""
        found = PackedEntries.stored(database, self.name, len(self._of.keys))
        return None if found is None else found.tables(database, self._groups)

    def write(self, database: Database, tables: Iterable[pa.Table]) -> None:
        """Write these rows as the first state, to a database without it."""
        self._database = database
        deciding = len(self._of.keys)
        self.entries = PackedEntries.declared(database, self.name, self._columns, deciding)
        for table in tables:
            for begin in range(0, table.num_rows, PIECE_ROWS):
                piece = self._make()
                piece.thaw(table.slice(begin, PIECE_ROWS))
                self.entries.write(database, piece.freeze().columns(), self._max_parallelism)

    # --- rows -------------------------------------------------------------------------------------

    def slots_of(self, columns: Sequence[pa.Array]) -> Slots:
        """Return the slot of each key, valid until the next call. Raise NullKeyError for a null key."""
        if len(self._newer) >= self._most_keys:
            self.flush()
            self._older, self._newer = self._newer, self._make()
        known = len(self._newer)
        slots = self._newer.slots_of(columns)
        if len(self._newer) > known:
            self._bring_in(np.arange(known, len(self._newer)))
        return slots

    def slots_within(self, keys: Sequence[pa.Array], of: Ints, values: pa.Array) -> Slots:
        """Return the slot of each key whose last column is a value, as `RunningState` does."""
        rows = pa.array(of)
        return self.slots_of([*(column.take(rows) for column in keys), values])

    def knows(self, key: Sequence[pa.Array]) -> bool:
        """Return whether a key has state; `key` has one row."""
        if self._newer.knows(key) or self._older.knows(key):
            return True
        places = self.entries.places(key, self._max_parallelism)
        return self.database.get_all(places.to_pylist())[0] is not None

    def run(self, slots: Slots, batch: Batch) -> dict[str, pa.Array]:
        return self._newer.run(slots, batch)

    def value(self, name: str, at: Ints, kind: pa.DataType) -> pa.Array:
        """Return the current value of an aggregate at these slots; `kind` is its `running_type`."""
        return self._newer.value(name, at, kind)

    def _bring_in(self, slots: Ints) -> None:
        """Load the state of the keys of new slots."""
        keys = self._newer.keys(slots)
        if len(self._older):
            found = self._older.find(keys).astype(np.int64)
            there = found >= 0
            if there.any():
                frozen = self._older.freeze(found[there])
                parts = {name: part() for name, part in frozen.parts.items()}
                self._newer.put(slots[there], parts)
                missing = pa.array(np.flatnonzero(~there))
                slots, keys = slots[~there], [key.take(missing) for key in keys]
        if not len(slots):
            return
        places = self.entries.places(keys, self._max_parallelism)
        order = pc.sort_indices(places)
        values = self.database.get_all(places.take(order).to_pylist())
        among = order.to_numpy()
        there = np.fromiter((value is not None for value in values), np.bool_, len(values))
        if there.any():
            parts = self.entries.parts([value for value in values if value is not None])
            self._newer.put(slots[among[there]], parts)

    def drop(self, gone: Callable[[Mapping[str, pa.Array]], npt.NDArray[np.bool_]]) -> None:
        """Delete the keys that `gone` selects; it receives the parts of many keys. In memory they
        remain until other keys evict them."""
        self.flush()
        for table in self.entries.tables(self.database, self._groups):
            columns = {name: table.column(name).combine_chunks() for name in table.column_names}
            rows = pa.array(np.flatnonzero(gone(columns)))
            keys = [columns[name].take(rows) for name in columns if name.startswith(KEY)]
            if len(rows):
                self.entries.delete(self.database, keys, self._max_parallelism)

    def flush(self) -> None:
        """Write all changes to the database. The keys remain in memory."""
        changed = self._newer.changed()
        if not len(changed):
            return
        there = self._newer.is_occupied(changed)
        self.entries.write(self.database, self._newer.freeze(there).columns(), self._max_parallelism)
        gone = np.setdiff1d(changed, changed if there is None else there, assume_unique=True)
        if len(gone):
            self.entries.delete(self.database, self._newer.keys(gone), self._max_parallelism)
        self._newer.settle()


def _bytes_per_key(columns: pa.Schema) -> int:
    size = _KEY_BYTES
    for field in columns:
        text = not (pa.types.is_primitive(field.type) or pa.types.is_boolean(field.type))
        size += _TEXT_BYTES if text else _PART_BYTES
    return size
