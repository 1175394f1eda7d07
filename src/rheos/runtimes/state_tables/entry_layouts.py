"""The layouts of entries: of declared state, and of timers.

Entries that expire have a column `expires_ms`: the time of their last update plus the time to live, in
ms since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import UnrestorableError
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS
from rheos.core.protocol.shapes import StateShape, TypeShape
from rheos.core.state.stamps import elements_of, latest_stamp_of, stamp_of, stamps_of, value_of
from rheos.core.state.timers import EVENT, NAMESPACE
from rheos.runtimes.state_tables.key_columns import KeyColumns
from rheos.runtimes.state_tables.state_layout import StateLayout, unique
from rheos.runtimes.state_tables.values import values_of

EVENT_DOMAIN, PROCESSING_DOMAIN = "event", "processing"


class EntryLayout(StateLayout):
    """Layout of state whose entries are key, namespace and value."""

    def __init__(self, shape: StateShape) -> None:
        self.keys = KeyColumns(shape.key)
        self.ttl = shape.ttl
        self._expires = {} if shape.ttl is None else {"expires_ms": pa.int64()}

    def _times(self, stamps_ms: Iterable[int]) -> list[pa.Array]:
        """Return the column of expiry times, if entries expire."""
        if self.ttl is None:
            return []
        ttl_ms = self.ttl.ms
        return [pa.array([min(at + ttl_ms, MAX_TIMESTAMP_MS) for at in stamps_ms], pa.int64())]

    def _stored(self, table: pa.Table) -> tuple[list[bytes], list[pa.Array]]:
        """Return the values without their stamps, and the column of expiry times."""
        stored = table.column("value").to_pylist()
        if self.ttl is None:
            return stored, []
        return [value_of(data) for data in stored], self._times(map(stamp_of, stored))

    def _keys(self, table: pa.Table) -> list[Any]:
        decode = self.keys.codec.decode
        return [decode(key) for key in table.column("key").to_pylist()]

    def _schema(self, **columns: pa.DataType) -> pa.Schema:
        """Return the schema of the keys and `columns`. A column with the name of a key is renamed."""
        fields = list(self.keys.shown)
        self.names = unique([field.name for field in fields], columns)
        return pa.schema(fields + [pa.field(self.names[c], kind) for c, kind in columns.items()])


class ValueLayout(EntryLayout):
    def __init__(self, state: str, shape: StateShape, trusted: bool) -> None:
        super().__init__(shape)
        self.values = values_of(state, shape.value, trusted=trusted)
        self.schema = self._schema(value=self.values.kind, **self._expires)

    def rows(self, table: pa.Table) -> pa.Table:
        stored, times = self._stored(table)
        keys, values = self.keys.columns(self._keys(table)), self.values.decode(stored)
        return pa.Table.from_arrays([*keys, values, *times], schema=self.schema)


class ListLayout(EntryLayout):
    """Layout of list state. Pass its tables in order: a list may continue in the next one."""

    def __init__(self, state: str, shape: StateShape, trusted: bool) -> None:
        super().__init__(shape)
        self._state = state
        self.values = values_of(state, shape.value, trusted=trusted)
        self.pickled = shape.value.name == "pickle"
        self._lists = values_of(state, TypeShape(name="list", args=[shape.value]), trusted=trusted)
        self.schema = self._schema(position=pa.int64(), value=self.values.kind, **self._expires)
        self._open: tuple[bytes, int] = (b"", 0)
        """The last key, and the number of its elements so far."""

    def rows(self, table: pa.Table) -> pa.Table:
        stored = table.column("value").to_pylist()
        segments = stored if self.ttl is None else [elements_of(data) for data in stored]
        if self.pickled:
            # A pickle contains a whole segment, and is shown as one value.
            lengths = np.ones(len(segments), dtype=np.int64)
            elements = pa.array(segments, pa.binary())
        else:
            lists = self._lists.decode(segments)
            lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
            elements = lists.flatten()
        owner = np.repeat(np.arange(len(lengths)), lengths)
        keys = [column.take(pa.array(owner)) for column in self.keys.columns(self._keys(table))]
        within = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        first = self._first(table.column("key").to_pylist(), lengths.tolist())
        position = pa.array(np.array(first, dtype=np.int64)[owner] + within)
        times = [] if self.ttl is None else self._times(self._stamps(stored, lengths.tolist()))
        return pa.Table.from_arrays([*keys, position, elements, *times], schema=self.schema)

    def _stamps(self, stored: Sequence[bytes], lengths: Sequence[int]) -> Iterator[int]:
        """Yield the time stamps of the elements that are shown."""
        for data, length in zip(stored, lengths, strict=True):
            stamps = (latest_stamp_of(data),) if self.pickled else stamps_of(data)
            if len(stamps) != length:
                raise UnrestorableError(
                    f"a stored list of state {self._state!r} has {length} elements, but "
                    f"{len(stamps)} update times"
                )
            yield from stamps

    def _first(self, keys: Sequence[bytes], lengths: Sequence[int]) -> list[int]:
        """Return the position of each segment's first element. Namespaces contain only the order."""
        found = []
        last, count = self._open
        for key, length in zip(keys, lengths, strict=True):
            if key != last:
                last, count = key, 0
            found.append(count)
            count += length
        self._open = last, count
        return found


class MapLayout(EntryLayout):
    def __init__(self, state: str, shape: StateShape, trusted: bool) -> None:
        super().__init__(shape)
        item, value = shape.value.args
        self.items = values_of(state, item, trusted=trusted)
        self.values = values_of(state, value, trusted=trusted)
        self.schema = self._schema(map_key=self.items.kind, value=self.values.kind, **self._expires)

    def rows(self, table: pa.Table) -> pa.Table:
        stored, times = self._stored(table)
        return pa.Table.from_arrays(
            [
                *self.keys.columns(self._keys(table)),
                self.items.decode(table.column("namespace").to_pylist()),
                self.values.decode(stored),
                *times,
            ],
            schema=self.schema,
        )


class TimerLayout(EntryLayout):
    def __init__(self, shape: StateShape) -> None:
        super().__init__(shape)
        self.schema = self._schema(timestamp_ms=pa.int64(), domain=pa.string())

    def rows(self, table: pa.Table) -> pa.Table:
        timers = [NAMESPACE.unpack(namespace) for namespace in table.column("namespace").to_pylist()]
        domains = [EVENT_DOMAIN if mark == EVENT else PROCESSING_DOMAIN for mark, _ in timers]
        return pa.Table.from_arrays(
            [
                *self.keys.columns(self._keys(table)),
                pa.array([timestamp for _, timestamp in timers], pa.int64()),
                pa.array(domains, pa.string()),
            ],
            schema=self.schema,
        )
