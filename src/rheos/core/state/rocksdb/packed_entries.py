"""Rows of columns as entries of the database: one packed entry for each key.

The place of an entry is the state, the key group and the packed key (`state.packing`); its value is the
packed columns outside the key. The names and types of the columns are stored, too. So the state of
another program can be read row by row, and written in a new form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.state.key_groups import groups_of_columns
from rheos.core.state.order_encoding import from_ordered, ordered
from rheos.core.state.packing import Packing
from rheos.core.state.parts import GROUP
from rheos.core.state.rocksdb.database import Database
from rheos.core.state.rocksdb.layout import DatabaseCatalogue, EntryForm, range_start

KEY = "key."
"""Prefix of the names of key columns."""

_COLUMNS = range_start(0) + b"columns "
"""Prefix of the entry, by the name of a state, that holds the schema of its columns."""

_PREFIX_BYTES = 4
"""Length in bytes of state and key group."""

PIECE_ROWS = 1 << 16
"""Number of rows that are read or written at once."""


class PackedEntries:
    """The entries of one state. If a key column does not decide the key group, it is the last one,
    stored as bytes in the order of its values."""

    def __init__(self, state: int, columns: pa.Schema, deciding: int) -> None:
        """Describe the entries of a state.

        Args:
            state: Id of the state in the database.
            columns: Columns of the rows; the names of key columns begin with `KEY`.
            deciding: Number of leading key columns that decide the key group.
        """
        self.columns = columns
        self._state = state
        self._deciding = deciding
        keys = [field for field in columns if field.name.startswith(KEY)]
        parts = [field for field in columns if not field.name.startswith(KEY)]
        self._names = [field.name for field in keys], [field.name for field in parts]
        kinds = [field.type for field in keys]
        self._last = kinds.pop() if len(kinds) > deciding else None
        self._keys = Packing(kinds, prefix_bytes=_PREFIX_BYTES)
        self._parts = Packing([field.type for field in parts])

    @classmethod
    def stored(cls, database: Database, name: str, deciding: int) -> PackedEntries | None:
        """Return the entries of a state in a database; `None` if it lacks the state."""
        data = database.get(_COLUMNS + name.encode())
        if data is None:
            return None
        columns = pa.ipc.read_schema(pa.py_buffer(data))
        return cls(DatabaseCatalogue.read(database).states[name].id, columns, deciding)

    @classmethod
    def declared(
        cls, database: Database, name: str, columns: pa.Schema, deciding: int
    ) -> PackedEntries:
        """Declare a state with these columns in a database that does not have it."""
        catalogue = DatabaseCatalogue.read(database)
        state = catalogue.declare(name, EntryForm.VALUE)
        catalogue.write(database)
        batch = database.batch()
        batch.put(_COLUMNS + name.encode(), columns.serialize().to_pybytes())
        database.write(batch)
        return cls(state, columns, deciding)

    def places(self, keys: Sequence[pa.Array], max_parallelism: int) -> pa.Array:
        """Return the places of keys. Without the last column, which does not decide the key group, they
        are prefixes of the places of all its values."""
        groups = groups_of_columns(keys[: self._deciding], max_parallelism)
        prefix = np.zeros((len(groups), _PREFIX_BYTES), dtype=np.uint8)
        prefix[:, :2] = np.frombuffer(range_start(self._state)[:2], dtype=np.uint8)
        prefix[:, 2:] = groups.astype(">u2").view(np.uint8).reshape(-1, 2)
        places = self._keys.pack([_canonical(key) for key in keys[: self._deciding]], prefix)
        if len(keys) == self._deciding:
            return places
        nothing = pa.scalar(b"", pa.large_binary())
        last = ordered(_canonical(keys[-1]))
        return pc.binary_join_element_wise(places.cast(pa.large_binary()), last, nothing)

    def keys(self, places: Sequence[bytes]) -> list[pa.Array]:
        """Decode the keys of these places."""
        if self._last is None:
            return self._keys.unpack(places)
        keys, last = self._keys.unpack_before(places)
        return [*keys, from_ordered(last, self._last)]

    def parts(self, values: Sequence[bytes]) -> dict[str, pa.Array]:
        """Decode the columns of stored values."""
        return dict(zip(self._names[1], self._parts.unpack(values), strict=True))

    def write(self, database: Database, columns: Mapping[str, pa.Array], max_parallelism: int) -> None:
        """Write rows, replacing those of the same keys."""
        keys = [columns[name] for name in self._names[0]]
        if not len(keys[0]):
            return
        places = self.places(keys, max_parallelism)
        values = self._parts.pack([columns[name] for name in self._names[1]])
        data = values.to_pylist()
        database.write_entries(places.to_pylist(), lambda some: [data[at] for at in some])

    def delete(self, database: Database, keys: Sequence[pa.Array], max_parallelism: int) -> None:
        """Delete the rows of keys."""
        batch = database.batch()
        for place in self.places(keys, max_parallelism).to_pylist():
            batch.delete(place)
        database.write(batch)

    def tables(self, database: Database, groups: range) -> Iterator[pa.Table]:
        """Yield the rows of key groups as a snapshot stores them, in pieces, and at least one. The
        database has them sorted by key group."""
        start, stop = range_start(self._state, groups.start), range_start(self._state, groups.stop)
        places: list[bytes] = []
        values: list[bytes] = []
        for place, value in database.scan(start, stop):
            if len(places) == PIECE_ROWS:
                yield self._table(places, values)
                places, values = [], []
            places.append(place)
            values.append(value)
        yield self._table(places, values)

    def _table(self, places: list[bytes], values: list[bytes]) -> pa.Table:
        starts = b"".join(place[2:_PREFIX_BYTES] for place in places)
        groups = np.frombuffer(starts, dtype=">u2").astype(np.uint16)
        columns = {GROUP: pa.array(groups)}
        columns |= dict(zip(self._names[0], self.keys(places), strict=True)) | self.parts(values)
        return pa.table(columns)


def _canonical(key: pa.Array) -> pa.Array:
    """Return keys in a form in which equal keys have the same bits."""
    if not pa.types.is_floating(key.type):
        return key
    numbers = key.to_numpy() + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return pa.array(numbers, key.type)
