"""The state of running aggregates on the local disk, with the keys seen lately in memory.

Memory holds two generations of keys, each a `RunningState`. A key that the newer one lacks is taken
over from the older, or else read from the database: all such keys of a batch at once. When the newer
one is full, its changes are written to the database and it becomes the older: so what is dropped is
what was not used for a whole generation, and nothing is ordered by use.

In the database a key's entry is the packed parts of its cells, under state, key group and the packed
key (`state/packing.py`). Their names and types are stored beside: state of another program is read by
what it says of itself, row by row, and rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.aggregates.segments import Ints
from rheos.core.operators.running_state import KEY, FrozenRows, KeptAggregates, RunningState
from rheos.core.protocol.elements import Batch
from rheos.core.state.ordered import from_ordered, ordered
from rheos.core.state.packing import Packing
from rheos.core.state.rocksdb.database import Database
from rheos.core.state.rocksdb.layout import DatabaseCatalogue, EntryForm, range_start
from rheos.core.state.slots import Slots

_COLUMNS = range_start(0) + b"columns "
"""Under it and the state's name lies the schema of the packed columns."""

_PREFIX_BYTES = 4
"""State and key group."""

_PIECE_ROWS = 1 << 16
_FEWEST_KEYS = 64

# About what a key takes in memory: in the index, for each text in its key, for each part of a cell.
_KEY_BYTES = 110
_TEXT_BYTES = 160
_PART_BYTES = 16


class EntryPacking:
    """How the rows of a table are entries of the database. A column that does not decide the key group
    stands last in a key, as bytes in the order of its values."""

    def __init__(self, of: KeptAggregates, state: int, columns: pa.Schema) -> None:
        keys = [field for field in columns if field.name.startswith(KEY)]
        parts = [field for field in columns if not field.name.startswith(KEY)]
        self._of = of
        self._state = state
        self._names = [field.name for field in keys], [field.name for field in parts]
        kinds = [field.type for field in keys]
        self._last = kinds.pop() if of.within else None
        self._keys = Packing(kinds, prefix_bytes=_PREFIX_BYTES)
        self._parts = Packing([field.type for field in parts])

    def places(self, keys: Sequence[pa.Array], groups: npt.NDArray[np.uint16]) -> pa.Array:
        """Where keys of these key groups lie; without their last column, what begins the places of all
        values of that."""
        prefix = np.zeros((len(groups), _PREFIX_BYTES), dtype=np.uint8)
        prefix[:, :2] = np.frombuffer(range_start(self._state)[:2], dtype=np.uint8)
        prefix[:, 2:] = groups.astype(">u2").view(np.uint8).reshape(-1, 2)
        deciding = len(self._of.keys)
        places = self._keys.pack([_canonical(key) for key in keys[:deciding]], prefix)
        if len(keys) == deciding:
            return places
        nothing = pa.scalar(b"", pa.large_binary())
        last = ordered(_canonical(keys[-1]))
        return pc.binary_join_element_wise(places.cast(pa.large_binary()), last, nothing)

    def keys(self, places: Sequence[bytes]) -> list[pa.Array]:
        """The keys that lie there."""
        if self._last is None:
            return self._keys.unpack(places)
        keys, last = self._keys.unpack_before(places)
        return [*keys, from_ordered(last, self._last)]

    def parts(self, values: Sequence[bytes]) -> dict[str, pa.Array]:
        return dict(zip(self._names[1], self._parts.unpack(values), strict=True))

    def write(self, database: Database, rows: FrozenRows, max_parallelism: int) -> None:
        if not rows.rows:
            return
        columns = rows.columns()
        keys = [columns[name] for name in self._names[0]]
        places = self.places(keys, self._of.groups(keys, max_parallelism))
        values = self._parts.pack([columns[name] for name in self._names[1]])
        # Sorted writes are several times as fast.
        order = pc.sort_indices(places)
        batch = database.batch()
        put = batch.put
        for place, value in zip(
            places.take(order).to_pylist(), values.take(order).to_pylist(), strict=True
        ):
            put(place, value)
        database.write(batch)

    def delete(self, database: Database, keys: Sequence[pa.Array], max_parallelism: int) -> None:
        batch = database.batch()
        for place in self.places(keys, self._of.groups(keys, max_parallelism)).to_pylist():
            batch.delete(place)
        database.write(batch)

    def tables(self, database: Database, groups: range) -> Iterator[pa.Table]:
        """The rows of key groups as a snapshot holds them, in pieces; one at the least. The database
        has them by key group."""
        start, stop = range_start(self._state, groups.start), range_start(self._state, groups.stop)
        places: list[bytes] = []
        values: list[bytes] = []
        for place, value in database.scan(start, stop):
            if len(places) == _PIECE_ROWS:
                yield self._table(places, values)
                places, values = [], []
            places.append(place)
            values.append(value)
        yield self._table(places, values)

    def _table(self, places: list[bytes], values: list[bytes]) -> pa.Table:
        starts = b"".join(place[2:_PREFIX_BYTES] for place in places)
        groups = np.frombuffer(starts, dtype=">u2").astype(np.uint16)
        columns = {"key_group": pa.array(groups)}
        columns |= dict(zip(self._names[0], self.keys(places), strict=True)) | self.parts(values)
        return pa.table(columns)


class DiskRunningState:
    """Running state larger than memory: the interface is that of `RunningState`. What it has in memory
    are the keys seen lately."""

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
        assert self._database is not None, "state is used after it was opened"
        return self._database

    def __len__(self) -> int:
        """How many keys are in memory."""
        return len(self._newer) + len(self._older)

    def open(self, database: Database) -> bool:
        """Goes on with what the database has of it. False where it has nothing, or not these columns:
        then it is to be written anew."""
        found = stored_entries(self._of, database, self.name)
        if found is None or found[1] != self._columns:
            return False
        self._database, self.entries = database, found[0]
        return True

    def stored(self, database: Database) -> Iterator[pa.Table] | None:
        """What a database has of it, whatever its columns; None where it has nothing."""
        found = stored_entries(self._of, database, self.name)
        return None if found is None else found[0].tables(database, self._groups)

    def write(self, database: Database, tables: Iterable[pa.Table]) -> None:
        """Begins with these rows, in a database that has nothing of it."""
        self._database = database
        self.entries = store_entries(self._of, database, self.name, self._columns)
        for table in tables:
            for begin in range(0, table.num_rows, _PIECE_ROWS):
                piece = self._make()
                piece.thaw(table.slice(begin, _PIECE_ROWS))
                self.entries.write(database, piece.freeze(), self._max_parallelism)

    # --- rows -------------------------------------------------------------------------------------

    def slots_of(self, columns: Sequence[pa.Array]) -> Slots:
        """The slot of each key, until the next call. Raises NullKeyError."""
        if len(self._newer) >= self._most_keys:
            self.flush()
            self._older, self._newer = self._newer, self._make()
        known = len(self._newer)
        slots = self._newer.slots_of(columns)
        if len(self._newer) > known:
            self._bring_in(np.arange(known, len(self._newer)))
        return slots

    def run(self, slots: Slots, batch: Batch) -> dict[str, pa.Array]:
        return self._newer.run(slots, batch)

    def value(self, name: str, at: Ints, kind: pa.DataType) -> pa.Array:
        """What an aggregate is now at these slots; `kind` is its `running_type`."""
        return self._newer.value(name, at, kind)

    def _bring_in(self, slots: Ints) -> None:
        """Gives new slots what their keys had."""
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
        places = self.entries.places(keys, self._of.groups(keys, self._max_parallelism))
        order = pc.sort_indices(places)
        values = self.database.get_all(places.take(order).to_pylist())
        among = order.to_numpy()
        there = np.fromiter((value is not None for value in values), np.bool_, len(values))
        if there.any():
            parts = self.entries.parts([value for value in values if value is not None])
            self._newer.put(slots[among[there]], parts)

    def drop(self, gone: Callable[[Mapping[str, pa.Array]], npt.NDArray[np.bool_]]) -> None:
        """Drops the keys whose parts say so, given those of many. In memory they stay, until others
        take their place."""
        self.flush()
        for table in self.entries.tables(self.database, self._groups):
            columns = {name: table.column(name).combine_chunks() for name in table.column_names}
            rows = pa.array(np.flatnonzero(gone(columns)))
            keys = [columns[name].take(rows) for name in columns if name.startswith(KEY)]
            if len(rows):
                self.entries.delete(self.database, keys, self._max_parallelism)

    def flush(self) -> None:
        """Writes what has changed to the database. It stays in memory, too."""
        changed = self._newer.changed()
        if not len(changed):
            return
        there = self._newer.there(changed)
        self.entries.write(self.database, self._newer.freeze(there), self._max_parallelism)
        gone = np.setdiff1d(changed, changed if there is None else there, assume_unique=True)
        if len(gone):
            self.entries.delete(self.database, self._newer.keys(gone), self._max_parallelism)
        self._newer.settle()


def stored_entries(
    of: KeptAggregates, database: Database, name: str
) -> tuple[EntryPacking, pa.Schema] | None:
    """How a database holds the rows of a state, and their columns; None where it has none."""
    data = database.get(_COLUMNS + name.encode())
    if data is None:
        return None
    columns = pa.ipc.read_schema(pa.py_buffer(data))
    return EntryPacking(of, DatabaseCatalogue.read(database).states[name].id, columns), columns


def store_entries(
    of: KeptAggregates, database: Database, name: str, columns: pa.Schema
) -> EntryPacking:
    """Declares a state of rows with these columns."""
    catalogue = DatabaseCatalogue.read(database)
    state = catalogue.declare(name, EntryForm.VALUE)
    catalogue.write(database)
    batch = database.batch()
    batch.put(_COLUMNS + name.encode(), columns.serialize().to_pybytes())
    database.write(batch)
    return EntryPacking(of, state, columns)


def _canonical(key: pa.Array) -> pa.Array:
    """Keys that are equal as the same bits."""
    if not pa.types.is_floating(key.type):
        return key
    numbers = key.to_numpy() + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return pa.array(numbers, key.type)


def _bytes_per_key(columns: pa.Schema) -> int:
    size = _KEY_BYTES
    for field in columns:
        text = not (pa.types.is_primitive(field.type) or pa.types.is_boolean(field.type))
        size += _TEXT_BYTES if text else _PART_BYTES
    return size
