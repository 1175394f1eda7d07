"""The keys of a subtask by slot: looked up by columns, returned as Python values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.core.state.key_index import KeyIndex
from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.slots import AnySlots, Slots


class SlotKeys:
    """Assigns slots to keys. `codec` defines the type of a key."""

    def __init__(self, codec: KeyCodec) -> None:
        self._codec = codec
        self._index = KeyIndex(codec.types)
        self._listed: list[Key] = []

    def __len__(self) -> int:
        return len(self._index)

    def slots(self, columns: Sequence[pa.Array]) -> Slots:
        """Return the slot of each row's key. Raise NullKeyError if a key is null."""
        return self._index.lookup_or_add(columns)

    def slots_of(self, keys: Sequence[Key]) -> Slots:
        if not keys:
            return np.empty(0, np.int32)
        return self._index.lookup_or_add(self._codec.columns(keys))

    def listed(self) -> list[Key]:
        """Return the keys by slot. The list grows as keys arrive."""
        first = len(self._listed)
        if first < len(self._index):
            self._listed += self._python([column.slice(first) for column in self._index.freeze()])
        return self._listed

    def columns(self, slots: AnySlots) -> list[pa.Array]:
        """Return the key columns of these slots."""
        taken = pa.array(slots)
        return [column.take(taken).combine_chunks() for column in self._index.freeze()]

    def later(self, slots: Slots) -> Callable[[], list[Key]]:
        """Return a function that returns the keys of these slots as of now, in any thread."""
        columns = self._index.freeze()

        def keys() -> list[Key]:
            taken = pa.array(slots)
            return self._python([column.take(taken) for column in columns])

        return keys

    def _python(self, columns: Sequence[pa.ChunkedArray]) -> list[Any]:
        whole = [column.combine_chunks() for column in columns]
        return self._codec.listed(whole)

    def keep(self, slots: Slots) -> Slots:
        """Keep only the keys of these slots, and return their new slots."""
        columns = self.columns(slots)
        self.forget()
        return self._index.lookup_or_add(columns)

    def forget(self) -> None:
        """Forget all keys."""
        self._index = KeyIndex(self._codec.types)
        self._listed = []
