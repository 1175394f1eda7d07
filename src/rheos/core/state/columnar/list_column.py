"""The lists of one declaration: the elements of all keys in one array.

A store keeps the lists, in every form of a function. The column has copies: a key's list is copied when
the key arrives, and changes are stored at the end of a call. So checkpoints do not depend on the form.

values   3 7 9 _ | 4 4 | 3 7 9 5 6 _ _ _        an element is never overwritten
starts   slot 0: 6 (moved from 0, which had no room), slot 1: 4
lengths  slot 0: 5                               slot 1: 2
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.core.errors import ProgramError
from rheos.core.graph.state import ListState
from rheos.core.state.codec import shown
from rheos.core.state.columnar.column import DTYPES, array_of_stored
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.keys import Key
from rheos.core.state.slots import Slots
from rheos.core.state.stores import ListStore

_FEW = 1 << 12
_NOTHING: list[Any] = []
_OF_SLOTS = ("starts", "lengths", "rooms", "stored", "replaced", "changed")
"""Arrays with an element for each slot."""


def check_list(declared: ListState[Any], what: str) -> None:
    """Raise ProgramError if `what` cannot keep the lists of a declaration in a column."""
    if declared.type not in DTYPES:
        raise ProgramError(
            f"state {declared.name!r} is a list of {shown(declared.type)}, but {what} supports only "
            "lists of int, float, bool and str",
            site=declared.site,
            hint="declare one of these types, or split it into several states",
        )
    if declared.ttl is not None:
        raise ProgramError(
            f"state {declared.name!r} is a list with a time to live, which {what} does not support",
            site=declared.site,
            hint="clear it with a timer, or write the function as a plain KeyedProcessFunction",
        )


class ListColumn:
    """Copies of the lists of a declaration, by slot."""

    def __init__(
        self, declared: ListState[Any], texts: StringCodes, store: ListStore, *, is_read: bool = True
    ) -> None:
        """Create the column, without lists. `is_read` is whether calls read lists. Otherwise they only
        append to them, so that no list is copied."""
        self.name = declared.name
        self.type = declared.type
        self.texts = texts
        self._store = store
        self._is_read = is_read
        self.used = np.zeros(1, np.int64)
        """Number of elements of `values` that lists have occupied."""
        self._enough = _FEW
        """Number of occupied elements above which unused ones are released."""
        self.reset()

    def reset(self) -> None:
        """Forget all lists. The stored ones stay."""
        self.values: npt.NDArray[Any] = np.zeros(_FEW, DTYPES[self.type])
        self.used[0] = 0
        self._resize(0)

    def _resize(self, size: int) -> None:
        self.starts, self.lengths, self.rooms = (np.zeros(size, np.int64) for _ in range(3))
        self.stored = np.zeros(size, np.int64)
        """Number of elements that the store has."""
        self.replaced = np.zeros(size, np.bool_)
        """Whether the list replaces the stored one, instead of extending it."""
        self.changed = np.zeros(size, np.bool_)

    def arrays(self) -> list[npt.NDArray[Any]]:
        """Return the arrays that have an element for each slot. Restoring them undoes a call."""
        return [getattr(self, name) for name in _OF_SLOTS]

    def grow(self, size: int) -> None:
        """Extend the column to this number of slots."""
        more = size - len(self.lengths)
        if more > 0:
            more = max(more, len(self.lengths), 64)
            for name, array in zip(_OF_SLOTS, self.arrays(), strict=True):
                setattr(self, name, np.append(array, np.zeros(more, array.dtype)))

    def keep(self, slots: Slots, moved: Slots) -> None:
        """Keep only these slots, and move them to the slots `moved`."""
        before = self.arrays()
        self._resize(max(len(slots), 64))
        for old, new in zip(before, self.arrays(), strict=True):
            new[moved] = old[slots]

    # --- between the column and the store -------------------------------------------------------------

    def load(self, keys: Sequence[Key], begin: int) -> None:
        """Copy the lists of keys from the store to the slots from `begin` on. Raise UnrestorableError
        if an element does not fit the column."""
        if not self._is_read or not keys:
            return
        read = self._store.read
        lists = [read(key, _NOTHING) for key in keys]
        slots = slice(begin, begin + len(keys))
        lengths = np.array([len(each) for each in lists], np.int64)
        ends = np.cumsum(lengths)
        used, total = int(self.used[0]), int(ends[-1])
        if total:
            elements = array_of_stored(
                list(chain.from_iterable(lists)),
                self.type,
                self.texts,
                f"a stored element of state {self.name!r}",
            )
            if used + total > len(self.values):
                more = max(total, len(self.values))
                self.values = np.append(self.values, np.zeros(more, self.values.dtype))
            self.values[used : used + total] = elements
            self.used[0] = used + total
        self.starts[slots] = used + ends - lengths
        self.lengths[slots] = self.rooms[slots] = self.stored[slots] = lengths

    def store(self, keys: Sequence[Key]) -> list[Key]:
        """Store all changes, and return the keys whose lists have changed. `keys` has the key of each
        slot."""
        slots = np.flatnonzero(self.changed)
        store = self._store
        for slot in slots.tolist():
            key, start, length = keys[slot], int(self.starts[slot]), int(self.lengths[slot])
            if self.replaced[slot]:
                store.replace(key, self._list(start, start + length))
                continue
            found = store.values.get(key)
            if found is None:
                found = store.enter(key)
            found += self._list(start + int(self.stored[slot]), start + length)
            store.appended.add(key)
        self.changed[slots] = self.replaced[slots] = False
        if self._is_read:
            self.stored[slots] = self.lengths[slots]
        else:
            self.starts[slots] = self.lengths[slots] = self.rooms[slots] = 0
        if self.used[0] > self._enough:
            self._compact()
        return [keys[slot] for slot in slots.tolist()]

    def _compact(self) -> None:
        """Release the elements that no list contains any more."""
        slots = np.flatnonzero(self.lengths)
        lengths = self.lengths[slots]
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        places = np.repeat(self.starts[slots] - (ends - lengths), lengths) + np.arange(total)
        values = np.zeros(max(_FEW, 2 * total), self.values.dtype)
        values[:total] = self.values[places]
        self.values = values
        self.starts[slots], self.rooms[:] = ends - lengths, self.lengths
        self.used[0], self._enough = total, max(_FEW, 2 * total)

    def _list(self, start: int, stop: int) -> list[Any]:
        values: list[Any] = self.values[start:stop].tolist()
        return values if self.type is not str else [self.texts.text(code) for code in values]
