"""The columns of a function while the operator is called: which slots the keys have, and what is there.

    slots = state.enter(key columns)    the slots of the rows; what is stored of them is in the columns
    slots = state.enter_keys(keys)      the same, of Python's keys, such as those of timers
    state.leave()                       what has changed is kept

Slots hold until `leave`. In memory they hold for ever, and the columns are the state itself. Behind a
backend with its values on disk they are those of one call of the operator: columns are filled with what
the backend has of the call's keys, and what has changed is put back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.graph.state import ValueState
from rheos.state.backend import KeyedStateBackend
from rheos.state.columnar.column import StateColumn
from rheos.state.columnar.keys import SlotKeys
from rheos.state.columnar.table import ColumnTable
from rheos.state.columnar.texts import Texts
from rheos.state.key_index import Slots
from rheos.state.keys import Key, KeyCodec
from rheos.state.memory import MemoryBackend
from rheos.state.stores import ABSENT, MISSING, ValueStore


class ColumnarState(ABC):
    """The state of one subtask of a function whose declarations are columns."""

    def __init__(self, declared: Iterable[ValueState[Any]], codec: KeyCodec, texts: Texts) -> None:
        self.texts = texts
        self.keys = SlotKeys(codec)
        self.columns = {each.name: StateColumn(each, self.texts) for each in declared}
        texts.fix()

    def enter(self, columns: Sequence[pa.Array]) -> Slots:
        """Raises NullKeyError."""
        first = len(self.keys)
        slots = self.keys.slots(columns)
        self._make_room(first)
        return slots

    def enter_keys(self, keys: Sequence[Key]) -> Slots:
        first = len(self.keys)
        slots = self.keys.slots_of(keys)
        self._make_room(first)
        return slots

    def _make_room(self, first: int) -> None:
        size = len(self.keys)
        for column in self.columns.values():
            column.grow(size)
        if size > first:
            self._entered(first, size)

    @abstractmethod
    def _entered(self, first: int, size: int) -> None:
        """There are new slots, from `first` to `size`."""

    @abstractmethod
    def leave(self) -> None:
        """No slot is used any more until the next `enter`."""

    def forget(self) -> None:
        """As if no key had ever come; the backend forgets, too."""
        self.keys.forget()

    def _sweep_texts(self) -> None:
        if not self.texts.too_many():
            return
        held = [column for column in self.columns.values() if column.type is str]
        codes = self.texts.keep([column.values for column in held])
        for column, new in zip(held, codes, strict=True):
            column.values = new


class MemoryColumns(ColumnarState):
    """All keys have their slots, and their values are the columns."""

    def __init__(
        self,
        declared: Iterable[ValueState[Any]],
        codec: KeyCodec,
        texts: Texts,
        backend: MemoryBackend,
    ) -> None:
        super().__init__(declared, codec, texts)
        for name, column in self.columns.items():
            backend.keep(name, ColumnTable(column, self.keys))

    def _entered(self, first: int, size: int) -> None:
        pass  # What a new slot has stands there already: the defaults.

    def leave(self) -> None:
        self._sweep_texts()


class BackedColumns(ColumnarState):
    """The values are a backend's, which may have them on disk."""

    def __init__(
        self,
        declared: Iterable[ValueState[Any]],
        codec: KeyCodec,
        texts: Texts,
        backend: KeyedStateBackend,
    ) -> None:
        super().__init__(declared, codec, texts)
        self._backend = backend
        self._stores: dict[str, ValueStore] = {
            name: backend.values(name, column.type) for name, column in self.columns.items()
        }

    def _entered(self, first: int, size: int) -> None:
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
        column.values[there] = column.array(found)
        column.present[there] = True

    def leave(self) -> None:
        keys, size = self.keys.listed(), len(self.keys)
        for name, store in self._stores.items():
            column = self.columns[name]
            changed = np.flatnonzero(column.changed[:size])
            values = column.later(column.values[changed])()
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


def columnar_state(
    declared: Iterable[ValueState[Any]],
    codec: KeyCodec,
    backend: KeyedStateBackend,
    texts: Texts | None = None,
) -> ColumnarState:
    """Of the declarations of a function, each of which `check_column` has let pass. Called before the
    backend is restored. `texts` has those whose codes the caller relies on."""
    texts = Texts() if texts is None else texts
    if isinstance(backend, MemoryBackend):
        return MemoryColumns(declared, codec, texts, backend)
    return BackedColumns(declared, codec, texts, backend)
