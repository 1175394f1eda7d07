"""The columns of a function during a call of the operator: the slots of the keys, and their values.

slots = state.enter(key columns) the slots of the rows; their stored values are in the columns slots =
state.enter_keys(keys) the same for Python keys, such as those of timers state.leave() changes are
stored

Slots are valid until `leave`. With the memory backend the columns are the state itself; from time to
time, keys without state release their slots. With a backend whose values are on disk, slots belong to
one call of the operator: the columns are filled with the stored values of the call's keys, and changes
are written back.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.errors import UnrestorableError
from rheos.core.graph.state import ListState, MapState, ValueState
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.columnar.column import StateColumn
from rheos.core.state.columnar.column_table import ColumnTable
from rheos.core.state.columnar.expiring import ExpiringColumn, ExpiringTable
from rheos.core.state.columnar.keys import SlotKeys
from rheos.core.state.columnar.list_column import ListColumn
from rheos.core.state.columnar.map_column import MapColumn
from rheos.core.state.columnar.record_column import RecordColumn
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.expiry import Expiry
from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.kinds.list import list_store
from rheos.core.state.kinds.map import map_store
from rheos.core.state.memory import MemoryBackend
from rheos.core.state.memory_tables import MemoryValueTable
from rheos.core.state.scope import KeyScope
from rheos.core.state.slots import Slots
from rheos.core.state.stores import ABSENT, MISSING, ValueStore

_FEW_KEYS = 1 << 12


class ColumnarState(ABC):
    """The state of one subtask of a function whose declarations are columns."""

    def __init__(
        self,
        declared: Iterable[ValueState[Any]],
        codec: KeyCodec,
        texts: StringCodes,
        backend: KeyedStateBackend,
        lists: Mapping[str, ListColumn],
        maps: Mapping[str, MapColumn],
    ) -> None:
        self.texts = texts
        self.keys = SlotKeys(codec)
        self.columns = {each.name: _column(each, texts, backend.scope) for each in declared}
        self.lists = lists
        self.maps = maps
        self._copied: list[ListColumn | MapColumn] = [*lists.values(), *maps.values()]
        self._loaded = 0
        """Number of slots whose lists and maps were copied."""
        self._backend = backend
        texts.fix()
        self._scratch = np.empty(0, np.intp)

    def goes_by_event_time(self) -> bool:
        """Return whether a value expires by event time, so that the event times of calls are needed."""
        expiries = [column.expiry for column in self.columns.values()]
        expiries += [map.expiry for map in self.maps.values()]
        return any(expiry is not None and expiry.goes_by_event_time for expiry in expiries)

    def column(self, name: str) -> StateColumn:
        """Return the column of a state, or of a field of a dataclass: "basket.items"."""
        state, _, field = name.partition(".")
        column = self.columns[state]
        if not field:
            return column
        assert isinstance(column, RecordColumn)
        return column.parts[field]

    def enter(self, columns: Sequence[pa.Array]) -> Slots:
        """Return the slots of the rows' keys. Raise NullKeyError if a key is null."""
        first = len(self.keys)
        slots = self.keys.slots(columns)
        self._make_room(len(slots), first)
        return slots

    def enter_keys(self, keys: Sequence[Key]) -> Slots:
        first = len(self.keys)
        slots = self.keys.slots_of(keys)
        self._make_room(len(slots), first)
        return slots

    def scratch(self) -> npt.NDArray[np.intp]:
        """Return an array with a number for each slot. Each caller may overwrite it."""
        if len(self._scratch) < len(self.keys):
            self._scratch = np.empty(2 * len(self.keys), np.intp)
        return self._scratch

    def _make_room(self, rows: int, first: int) -> None:
        size = len(self.keys)
        for column in self.columns.values():
            column.grow(size)
        for each in self._copied:
            each.grow(size)
        self._entered(rows, first, size)

    @abstractmethod
    def _entered(self, rows: int, first: int, size: int) -> None:
        """Prepare for calls with this number of rows or timers, and new slots in [`first`, `size`)."""

    @abstractmethod
    def leave(self) -> None:
        """End the call. No slot is used until the next `enter`."""

    def give_back(self) -> None:
        """Return the state to the stores that `moved_state` took it from, after `leave`. The columns
        are not used any more."""

    def forget(self) -> None:
        """Forget all keys. The backend must forget them, too."""
        self.keys.forget()
        self._forget_copies()

    def store_maps(self) -> None:
        """Store the changes of maps."""
        for each in self.maps.values():
            self._backend.check_limits(each.store(self.keys.listed()))

    def drop_maps(self) -> None:
        """Drop the changes of maps that are not stored. The state is not used any more, except that it
        is given back."""
        for each in self.maps.values():
            each.reset()
            each.grow(len(self.keys))

    def _load_copies(self, end: int) -> None:
        """Copy the lists and maps of the keys of new slots, which are before `end`."""
        begin, self._loaded = self._loaded, end
        if self._copied and begin < end:
            keys = self.keys.listed()[begin:end]
            for each in self._copied:
                each.load(keys, begin)

    def _forget_copies(self) -> None:
        self._loaded = 0
        for each in self._copied:
            each.reset()

    def _store_copies(self) -> None:
        """Store the changes of lists and maps."""
        for each in self.lists.values():
            self._backend.check_limits(each.store(self.keys.listed()))
        self.store_maps()

    def _sweep_texts(self) -> None:
        if not self.texts.too_many():
            return
        for each in self.maps.values():
            each.compact()
        parts = [(each, part) for each in self.maps.values() for part in each.text_parts()]
        held: list[StateColumn | ListColumn] = [
            each for each in self.lists.values() if each.type is str
        ]
        held += [text for column in self.columns.values() for text in column.text_columns()]
        arrays = [column.values for column in held] + [getattr(each, part) for each, part in parts]
        codes = iter(self.texts.keep(arrays))
        for column in held:
            column.values = next(codes)
        for map, part in parts:
            setattr(map, part, next(codes))
        for map in self.maps.values():
            map.compact()


class MemoryColumns(ColumnarState):
    """State whose columns are the values of all keys."""

    def __init__(
        self,
        declared: Iterable[ValueState[Any]],
        codec: KeyCodec,
        texts: StringCodes,
        backend: MemoryBackend,
        lists: Mapping[str, ListColumn],
        maps: Mapping[str, MapColumn],
    ) -> None:
        super().__init__(declared, codec, texts, backend, lists, maps)
        self._memory = backend
        self._enough = _FEW_KEYS
        """Number of keys at which unused ones are released."""
        for name, column in self.columns.items():
            backend.keep(name, _table_class(column)(column, self.keys))

    def _entered(self, rows: int, first: int, size: int) -> None:
        # New slots already have the defaults.
        self._memory.sweep(rows)
        self._load_copies(size)

    def leave(self) -> None:
        self._store_copies()
        if len(self.keys) >= self._enough:
            self._release_slots()
        self._sweep_texts()

    def _release_slots(self) -> None:
        """Release the keys without state, unless the next snapshot has to record that."""
        size = len(self.keys)
        used = np.zeros(size, np.bool_)
        for column in self.columns.values():
            # Slots move: a running sweep would miss those that move to slots it has passed.
            column.clear_gone(slice(0, size))
            used |= column.present[:size] | column.changed[:size]
        for map in self.maps.values():
            map.compact()
            used |= map.lengths[:size] > 0  # Maps may be large, so they are not copied again.
        left = np.flatnonzero(used).astype(np.int32)
        self._enough = max(_FEW_KEYS, 2 * len(left))
        if size >= self._enough:
            moved = self.keys.keep(left)
            for column in self.columns.values():
                column.keep(left, moved)
            for each in self._copied:
                each.keep(left, moved)
            self._loaded = len(left)


class MovedColumns(MemoryColumns):
    """State that was moved from the tables of a memory backend, and can be moved back."""

    def __init__(
        self,
        declared: Sequence[ValueState[Any]],
        codec: KeyCodec,
        texts: StringCodes,
        backend: MemoryBackend,
        tables: Mapping[str, MemoryValueTable],
        lists: Mapping[str, ListColumn],
        maps: Mapping[str, MapColumn],
    ) -> None:
        super().__init__(declared, codec, texts, backend, lists, maps)
        self._before = tables
        try:
            self._columns = {
                name: _table_class(self.columns[name]).of_table(self.columns[name], self.keys, table)
                for name, table in tables.items()
            }
            self._make_room(0, 0)
        except UnrestorableError:
            for name, table in tables.items():
                backend.keep(name, table)
            raise
        for name, table in tables.items():
            backend.keep(name, self._columns[name])
            table.forget()

    def give_back(self) -> None:
        for name, table in self._before.items():
            self._columns[name].move_to(table)
            self._memory.keep(name, table)


class BackedColumns(ColumnarState):
    """State whose values are in a backend, which may have them on disk."""

    def __init__(
        self,
        declared: Iterable[ValueState[Any]],
        codec: KeyCodec,
        texts: StringCodes,
        backend: KeyedStateBackend,
        lists: Mapping[str, ListColumn],
        maps: Mapping[str, MapColumn],
        stores: Mapping[str, ValueStore] | None = None,
    ) -> None:
        """Create the columns. `stores` has the backend's stores of values, if they exist already."""
        super().__init__(declared, codec, texts, backend, lists, maps)
        self._stores: Mapping[str, ValueStore] = stores or {
            name: backend.values(name, column.type, column.expiry)
            for name, column in self.columns.items()
        }

    def _entered(self, rows: int, first: int, size: int) -> None:
        keys = self.keys.listed()
        for begin in range(first, size, self._backend.stride):
            end = min(begin + self._backend.stride, size)
            self._backend.prepare(keys[begin:end])
            for name, store in self._stores.items():
                self._read(self.columns[name], store, keys[begin:end], begin)
            self._load_copies(end)

    def _read(self, column: StateColumn, store: ValueStore, keys: Sequence[Key], begin: int) -> None:
        there, found = [], []
        for slot, key in enumerate(keys, begin):
            value = store.values.get(key, MISSING)
            if value is MISSING:
                value = store.fetch(key)
            if value is not ABSENT:
                there.append(slot)
                found.append(value)
        column.load(np.array(there, np.int32), found)

    def leave(self) -> None:
        self._store_copies()
        keys, size = self.keys.listed(), len(self.keys)
        for name, store in self._stores.items():
            column = self.columns[name]
            changed = np.flatnonzero(column.changed[:size]).astype(np.int32)
            values = column.later(changed)()
            there = column.present[changed].tolist()
            for slot, value, is_there in zip(changed.tolist(), values, there, strict=True):
                if is_there:
                    store.values[keys[slot]] = value
                    store.dirty.add(keys[slot])
                else:
                    store.remove(keys[slot])
            column.reset()
        self._forget_copies()
        self.keys.forget()
        self._sweep_texts()


def _column(declared: ValueState[Any], texts: StringCodes, scope: KeyScope) -> StateColumn:
    if dataclasses.is_dataclass(declared.type):
        return RecordColumn(declared, texts)
    if declared.ttl is None:
        return StateColumn(declared, texts)
    return ExpiringColumn(declared, texts, Expiry(declared.ttl, scope))


def _expiry_of(declared: MapState[Any, Any], backend: KeyedStateBackend) -> Expiry | None:
    return None if declared.ttl is None else Expiry(declared.ttl, backend.scope)


def _table_class(column: StateColumn) -> type[ColumnTable]:
    return ExpiringTable if isinstance(column, ExpiringColumn) else ColumnTable


def columnar_state(
    declared: Iterable[ValueState[Any]],
    codec: KeyCodec,
    backend: KeyedStateBackend,
    texts: StringCodes | None = None,
    lists: Iterable[ListState[Any]] = (),
    maps: Iterable[MapState[Any, Any]] = (),
) -> ColumnarState:
    """Return the state of a function's declarations, which `check_column` has accepted, of its `lists`
    and of its `maps`, which `check_list` and `check_map` have accepted. Called before the backend is
    restored. `texts` has the strings whose codes the caller relies on."""
    texts = StringCodes() if texts is None else texts
    columns = {each.name: ListColumn(each, texts, list_store(each, backend)) for each in lists}
    found = {}
    for each in maps:
        expiry = _expiry_of(each, backend)
        found[each.name] = MapColumn(each, texts, map_store(each, backend, expiry), expiry)
    if isinstance(backend, MemoryBackend):
        return MemoryColumns(declared, codec, texts, backend, columns, found)
    return BackedColumns(declared, codec, texts, backend, columns, found)


def moved_state(
    declared: Iterable[ValueState[Any]],
    codec: KeyCodec,
    backend: KeyedStateBackend,
    texts: StringCodes | None = None,
    lists: Iterable[ListState[Any]] = (),
    maps: Iterable[MapState[Any, Any]] = (),
    *,
    read_lists: Collection[str] = (),
) -> ColumnarState:
    """Return the state of declarations whose stores a backend has already. Until `give_back`, only the
    columns of values are used. Calls read only the lists of `read_lists`. Raise UnrestorableError, and
    leave the stores unchanged, if a value does not fit its column."""
    texts, known = StringCodes() if texts is None else texts, list(declared)
    columns = {
        each.name: ListColumn(
            each, texts, backend.list_table(each.name), is_read=each.name in read_lists
        )
        for each in lists
    }
    found = {
        each.name: MapColumn(each, texts, backend.map_table(each.name), _expiry_of(each, backend))
        for each in maps
    }
    if isinstance(backend, MemoryBackend):
        tables = {each.name: backend.value_table(each.name) for each in known}
        return MovedColumns(known, codec, texts, backend, tables, columns, found)
    stores = {each.name: backend.value_table(each.name) for each in known}
    return BackedColumns(known, codec, texts, backend, columns, found, stores)
