"""The rows of a column in a snapshot of the memory backend. Every backend can read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.core.state.columnar.column import StateColumn
from rheos.core.state.columnar.keys import SlotKeys
from rheos.core.state.keys import Key, KeyCodec
from rheos.core.state.memory_tables import Frozen, MemoryValueTable, StateTable
from rheos.core.state.parts import Entries, restore_values, stored_values
from rheos.core.state.slots import Slots


class ColumnTable(StateTable):
    """A table of one value per key, in the stored form of `MemoryValueTable`."""

    def __init__(self, column: StateColumn, keys: SlotKeys) -> None:
        super().__init__(column.expiry)
        self._column = column
        self._keys = keys

    @classmethod
    def of_table(cls, column: StateColumn, keys: SlotKeys, table: MemoryValueTable) -> ColumnTable:
        """Return a table with the values and the changes of another, whose chain of parts it continues.
        Raise UnrestorableError if a value does not fit the column."""
        made = cls(column, keys)
        made.chain = table.chain
        slots = keys.slots_of(list(table.values))
        column.grow(len(keys))
        column.load(slots, list(table.values.values()))
        changed = keys.slots_of(list(table.dirty))
        column.grow(len(keys))
        column.changed[changed] = True
        return made

    def move_to(self, table: MemoryValueTable) -> None:
        """Move the values and the changes to an empty table, which continues the chain of parts."""
        column = self._column
        there = self._slots(column.present)
        changed = self._slots(column.changed)
        table.values.update(zip(self._keys.later(there)(), column.later(there)(), strict=True))
        table.dirty.update(self._keys.later(changed)())
        table.chain = self.chain

    def changes(self) -> int:
        return int(np.count_nonzero(self._column.changed))

    def freeze_all(self) -> Frozen:
        self._column.changed[:] = False
        return self.copy()

    def freeze_changes(self) -> Frozen:
        changed = self._slots(self._column.changed)
        self._column.changed[:] = False
        return self._freeze(changed)

    def copy(self) -> Frozen:
        return self._freeze(self._slots(self._is_kept()))

    def _is_kept(self) -> np.ndarray:
        """Return, for each slot, whether a full snapshot contains it."""
        return self._column.present

    def _slots(self, flags: np.ndarray) -> Slots:
        return np.flatnonzero(flags).astype(np.int32)

    def _freeze(self, slots: Slots) -> Frozen:
        column, keys = self._column, self._keys.later(slots)
        there = column.present[slots]
        values = column.later(slots)
        codec = column.codec

        def entries() -> Entries:
            known = keys()
            encoded: list[bytes | None] = list(codec.encode(values(), known))
            for row in np.flatnonzero(~there).tolist():
                encoded[row] = None
            return Entries(known, [b""] * len(known), stored_values(encoded))

        return len(slots), entries

    def sweep(self) -> Iterator[None]:
        return iter(())

    def entries(self) -> int:
        return int(np.count_nonzero(self._column.present))

    def forget(self) -> None:
        self._column.reset()

    def restore(self, tables: Iterable[pa.Table], keys: KeyCodec) -> None:
        column = self._column
        values: dict[Key, Any] = {}
        restore_values(values, tables, keys, column.codec.decode_all)
        slots = self._keys.slots_of(list(values))
        column.grow(len(self._keys))
        column.load(slots, list(values.values()))
