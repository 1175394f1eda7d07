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
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.errors import UnrestorableError
from rheos.core.graph.state import ValueState
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.columnar.column import StateColumn
from rheos.core.state.columnar.column_table import ColumnTable
from rheos.core.state.columnar.expiring import ExpiringColumn, ExpiringTable
from rheos.core.state.columnar.keys import SlotKeys
from rheos.core.state.columnar.record_column import RecordColumn
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.expiry import Expiry
from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.memory import MemoryBackend
from rheos.core.state.memory_tables import MemoryValueTable
from rheos.core.state.scope import KeyScope
from rheos.core.state.slots import Slots
from rheos.core.state.stores import ABSENT, MISSING, ValueStore

_FEW_KEYS = 1 << 12


class ColumnarState(ABC):
    """The state of one subtask of a function whose declarations are columns."""

    def __init__(
        self, declared: Iterable[ValueState[Any]], codec: KeyCodec, texts: StringCodes, scope: KeyScope
    ) -> None:
        self.texts = texts
        self.keys = SlotKeys(codec)
        self.columns = {each.name: _column(each, texts, scope) for each in declared}
        texts.fix()
        self._scratch = np.empty(0, np.intp)

    def goes_by_event_time(self) -> bool:
        """Return whether a value expires by event time, so that the event times of calls are needed."""
        expiries = [column.expiry for column in self.columns.values()]
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

    def _sweep_texts(self) -> None:
        if not self.texts.too_many():
            return
        held = [text for column in self.columns.values() for text in column.text_columns()]
        codes = self.texts.keep([column.values for column in held])
        for column, new in zip(held, codes, strict=True):
            column.values = new


class MemoryColumns(ColumnarState):
    """State whose columns are the values of all keys."""

    def __init__(
        self,
        declared: Iterable[ValueState[Any]],
        codec: KeyCodec,
        texts: StringCodes,
        backend: MemoryBackend,
    ) -> None:
        super().__init__(declared, codec, texts, backend.scope)
        self._backend = backend
        self._enough = _FEW_KEYS
        """Number of keys at which unused ones are released."""
        for name, column in self.columns.items():
            backend.keep(name, _table_class(column)(column, self.keys))

    def _entered(self, rows: int, first: int, size: int) -> None:
        # New slots already have the defaults.
        self._backend.sweep(rows)

    def leave(self) -> None:
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
        left = np.flatnonzero(used).astype(np.int32)
        self._enough = max(_FEW_KEYS, 2 * len(left))
        if size >= self._enough:
            moved = self.keys.keep(left)
            for column in self.columns.values():
                column.keep(left, moved)


class MovedColumns(MemoryColumns):
    """State that was moved from the tables of a memory backend, and can be moved back."""

    def __init__(
        self,
        declared: Sequence[ValueState[Any]],
        codec: KeyCodec,
        texts: StringCodes,
        backend: MemoryBackend,
        tables: Mapping[str, MemoryValueTable],
    ) -> None:
        super().__init__(declared, codec, texts, backend)
        self._before = tables
        try:
            self._columns = {
                name: _table_class(self.columns[name]).of_table(self.columns[name], self.keys, table)
                for name, table in tables.items()
            }
        except UnrestorableError:
            for name, table in tables.items():
                backend.keep(name, table)
            raise
        self._make_room(0, 0)
        for name, table in tables.items():
            backend.keep(name, self._columns[name])
            table.forget()

    def give_back(self) -> None:
        for name, table in self._before.items():
            self._columns[name].move_to(table)
            self._backend.keep(name, table)


class BackedColumns(ColumnarState):
    """State whose values are in a backend, which may have them on disk."""

    def __init__(
        self,
        declared: Iterable[ValueState[Any]],
        codec: KeyCodec,
        texts: StringCodes,
        backend: KeyedStateBackend,
        stores: Mapping[str, ValueStore] | None = None,
    ) -> None:
        """Create the columns. `stores` has the backend's stores, if they exist already."""
        super().__init__(declared, codec, texts, backend.scope)
        self._backend = backend
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
        self.keys.forget()
        self._sweep_texts()


def _column(declared: ValueState[Any], texts: StringCodes, scope: KeyScope) -> StateColumn:
    if dataclasses.is_dataclass(declared.type):
        return RecordColumn(declared, texts)
    if declared.ttl is None:
        return StateColumn(declared, texts)
    return ExpiringColumn(declared, texts, Expiry(declared.ttl, scope))


def _table_class(column: StateColumn) -> type[ColumnTable]:
    return ExpiringTable if isinstance(column, ExpiringColumn) else ColumnTable


def columnar_state(
    declared: Iterable[ValueState[Any]],
    codec: KeyCodec,
    backend: KeyedStateBackend,
    texts: StringCodes | None = None,
) -> ColumnarState:
    """Return the state of a function's declarations, which `check_column` has accepted. Called before
    the backend is restored. `texts` has the strings whose codes the caller relies on."""
    texts = StringCodes() if texts is None else texts
    if isinstance(backend, MemoryBackend):
        return MemoryColumns(declared, codec, texts, backend)
    return BackedColumns(declared, codec, texts, backend)


def moved_state(
    declared: Iterable[ValueState[Any]],
    codec: KeyCodec,
    backend: KeyedStateBackend,
    texts: StringCodes | None = None,
) -> ColumnarState:
    """Return the state of declarations whose stores a backend has already. Until `give_back`, only the
    columns are used. Raise UnrestorableError, and leave the stores unchanged, if a value does not fit
    its column."""
    texts, known = StringCodes() if texts is None else texts, list(declared)
    if isinstance(backend, MemoryBackend):
        tables = {each.name: backend.value_table(each.name) for each in known}
        return MovedColumns(known, codec, texts, backend, tables)
    stores = {each.name: backend.value_table(each.name) for each in known}
    return BackedColumns(known, codec, texts, backend, stores)
