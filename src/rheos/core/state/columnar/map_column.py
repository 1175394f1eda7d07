"""The maps of one declaration: the entries of all keys in arrays, with an index to find them.

A store keeps the maps, in every form of a function. The column has copies: a key's map is copied when
the key arrives, and changes are stored after calls. So checkpoints do not depend on the form.

owners   slot 0, slot 1, slot 0      an entry belongs to a slot; it is found by slot and item
items    "/a",   "/a",   "/b"
values   7,      1,      3
index    0 0 2 0 1 0 3 0             numbers of entries, from 1 on, at the places of their hashes
journal  1, ~0, 2                    entry 1 has changed, the map of slot 0 was cleared, entry 2 is new

An item that is removed and put again is a new entry, as it is in a dict.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.core.errors import ProgramError
from rheos.core.graph.state import MapState
from rheos.core.state.codec import shown
from rheos.core.state.columnar.column import DTYPES, array_of_stored
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.expiry import Expiry
from rheos.core.state.keys import Key
from rheos.core.state.slots import Slots
from rheos.core.state.stores import MapStore

Numbers = npt.NDArray[np.int64]

FACTORS = (-7046029254386353131, -4658895280553007687)
"""Factors of the hash of an entry, of its item and of its slot."""

OF_ENTRIES = ("items", "values", "owners", "born", "stamps", "present", "changed")
"""Arrays with an element for each entry."""

_FEW = 256
_NOTHING: dict[Any, Any] = {}


def check_map(declared: MapState[Any, Any], what: str) -> None:
    """Raise ProgramError if `what` cannot keep the maps of a declaration in a column."""
    if declared.key_type not in (int, str) or declared.value_type not in DTYPES:
        raise ProgramError(
            f"state {declared.name!r} is a map of {shown(declared.key_type)} to "
            f"{shown(declared.value_type)}, but {what} supports only maps of int or str to int, float, "
            "bool or str",
            site=declared.site,
            hint="declare these types, or split it into several states",
        )


def places_of(slots: Numbers, items: npt.NDArray[Any]) -> Numbers:
    """Return the hashes of entries."""
    of_item, of_slot = FACTORS
    hashes: Numbers = items.astype(np.int64) * of_item ^ slots * of_slot
    hashes = (hashes ^ hashes >> 32) * of_item
    return hashes ^ hashes >> 29


class MapColumn:
    """Copies of the maps of a declaration, by slot."""

    def __init__(
        self,
        declared: MapState[Any, Any],
        texts: StringCodes,
        store: MapStore,
        expiry: Expiry | None,
    ) -> None:
        """Create the column, without maps."""
        self.name = declared.name
        self.types = {"items": declared.key_type, "values": declared.value_type}
        self.texts = texts
        self.expiry = expiry
        self._store = store
        self.counts = np.zeros(2, np.int64)
        """Number of entries, and number of elements of the journal."""
        self._enough = _FEW
        """Number of entries above which dead ones are released."""
        self.reset()

    def reset(self) -> None:
        """Forget all maps, and all changes that are not stored. The stored maps stay."""
        self.items: npt.NDArray[Any] = np.zeros(_FEW, DTYPES[self.types["items"]])
        self.values: npt.NDArray[Any] = np.zeros(_FEW, DTYPES[self.types["values"]])
        self.owners, self.born, self.stamps = (np.zeros(_FEW, np.int64) for _ in range(3))
        self.present, self.changed = (np.zeros(_FEW, np.bool_) for _ in range(2))
        self.index = np.zeros(4 * _FEW, np.int64)
        self.journal = np.zeros(_FEW, np.int64)
        self.counts[:] = 0
        self._enough = _FEW
        self.versions, self.lengths = (np.zeros(0, np.int64) for _ in range(2))

    def grow(self, size: int) -> None:
        """Extend the column to this number of slots."""
        more = size - len(self.lengths)
        if more > 0:
            more = max(more, len(self.lengths), 64)
            self.versions = np.append(self.versions, np.zeros(more, np.int64))
            self.lengths = np.append(self.lengths, np.zeros(more, np.int64))

    def text_parts(self) -> list[str]:
        """Return the names of the arrays whose elements are codes of strings."""
        return [part for part, of in self.types.items() if of is str]

    def keep(self, slots: Slots, moved: Slots) -> None:
        """Keep only these slots, and move them to the slots `moved`. All changes are stored."""
        places = np.full(len(self.lengths), -1, np.int64)
        places[slots] = moved
        living = self._living()
        living = living[places[self.owners[living]] >= 0]
        self.owners[living] = places[self.owners[living]]
        self._release(living, max(len(slots), 64))

    def compact(self) -> None:
        """Release the entries that no call can see any more. All changes are stored."""
        self._release(self._living(), len(self.lengths))

    def _living(self) -> Numbers:
        """Return the numbers of the entries that a call may see."""
        there = self._in_maps()
        if self.expiry is not None:
            there &= self.stamps[: len(there)] > self.expiry.gone_ms()
        return np.flatnonzero(there)

    def _in_maps(self) -> npt.NDArray[np.bool_]:
        """Return for each entry whether it is in a map: neither removed nor cleared."""
        count = int(self.counts[0])
        in_maps: npt.NDArray[np.bool_] = self.present[:count] & (
            self.born[:count] == self.versions[self.owners[:count]]
        )
        return in_maps

    def _release(self, living: Numbers, slots: int) -> None:
        """Keep only these entries, of this number of slots."""
        count = len(living)
        room = max(_FEW, 2 * count)
        for name in OF_ENTRIES:
            before = getattr(self, name)
            kept = np.zeros(room, before.dtype)
            kept[:count] = before[living]
            setattr(self, name, kept)
        self.born[:] = 0
        self.versions = np.zeros(slots, np.int64)
        self.lengths = np.bincount(self.owners[:count], minlength=slots).astype(np.int64)
        self.counts[0], self._enough = count, room
        self._index_anew(np.arange(count))

    def _index_anew(self, numbers: Numbers) -> None:
        self.index = np.zeros(1 << max(10, (4 * len(numbers)).bit_length()), np.int64)
        self._add_to_index(numbers)

    def _add_to_index(self, numbers: Numbers) -> None:
        """Add new entries to the index, which has room for them."""
        mask = len(self.index) - 1
        places = places_of(self.owners[numbers], self.items[numbers]) & mask
        while len(numbers):
            free = self.index[places] == 0
            at, first = np.unique(places[free], return_index=True)
            self.index[at] = numbers[free][first] + 1
            left = self.index[places] != numbers + 1
            numbers, places = numbers[left], (places[left] + 1) & mask

    # --- between the column and the store -------------------------------------------------------------

    def load(self, keys: Sequence[Key], begin: int) -> None:
        """Copy the maps of keys from the store to the slots from `begin` on. Raise UnrestorableError
        if an integer does not fit the column."""
        read = self._store.read
        maps = [read(key, _NOTHING) for key in keys]
        lengths = np.array([len(each) for each in maps], np.int64)
        total = int(lengths.sum())
        if not total:
            return
        what = f"a stored {{}} of state {self.name!r}"
        stored = list(chain.from_iterable(each.values() for each in maps))
        stamps: list[int] = []
        if self.expiry is not None:
            stamps, stored = [stamp for stamp, _ in stored], [value for _, value in stored]
        new = {
            "items": (list(chain.from_iterable(maps)), what.format("item")),
            "values": (stored, what.format("value")),
        }
        arrays = {
            part: array_of_stored(given, self.types[part], self.texts, shown_as)
            for part, (given, shown_as) in new.items()
        }
        first = int(self.counts[0])
        numbers = np.arange(first, first + total)
        self._make_room(first + total)
        for part, array in arrays.items():
            getattr(self, part)[numbers] = array
        slots = slice(begin, begin + len(keys))
        self.owners[numbers] = np.repeat(np.arange(begin, begin + len(keys)), lengths)
        self.born[numbers] = self.versions[self.owners[numbers]]
        self.stamps[numbers] = stamps or 0
        self.present[numbers], self.changed[numbers] = True, False
        self.lengths[slots] = lengths
        self.counts[0] = first + total
        if 2 * (first + total) >= len(self.index):
            self._index_anew(np.flatnonzero(self._in_maps()))
        else:
            self._add_to_index(numbers)

    def _make_room(self, entries: int) -> None:
        more = entries - len(self.items)
        if more > 0:
            more = max(more, len(self.items))
            for name in OF_ENTRIES:
                array = getattr(self, name)
                setattr(self, name, np.append(array, np.zeros(more, array.dtype)))

    def store(self, keys: Sequence[Key]) -> list[Key]:
        """Store all changes, and return the keys whose maps have changed, some of them several times.
        `keys` has the key of each slot."""
        count = int(self.counts[1])
        if not count:
            return []
        journal = self.journal[:count]
        numbers = np.maximum(journal, 0)
        of_entries = self.owners[numbers]
        owners = np.where(journal < 0, ~journal, of_entries).tolist()
        outdated = self.born[numbers] != self.versions[of_entries]
        self.changed[numbers] = False
        self.counts[1] = 0
        items, values = (self._python(part, numbers) for part in ("items", "values"))
        if self.expiry is not None:
            values = list(zip(self.stamps[numbers].tolist(), values, strict=True))
        there = self.present[numbers].tolist()
        store, of_keys, changed = self._store, self._store.values, self._store.changed
        for at, (number, owner) in enumerate(zip(journal.tolist(), owners, strict=True)):
            key = keys[owner]
            if number < 0:
                store.clear(key)
            elif outdated[at]:
                continue  # The map was cleared afterwards.
            elif there[at]:
                found = of_keys.get(key)
                if found is None:
                    found = store.enter(key)
                found[items[at]] = values[at]
                changed[key].add(items[at])
            else:
                self._remove(key, items[at])
        if self.counts[0] > self._enough:
            self.compact()
        return [keys[owner] for owner in owners]

    def _remove(self, key: Key, item: Any) -> None:
        # The store lacks an item that has expired, or that was put and removed by the same calls.
        with suppress(KeyError):
            self._store.remove(key, item)

    def _python(self, part: str, numbers: Numbers) -> list[Any]:
        found: list[Any] = getattr(self, part)[numbers].tolist()
        return found if self.types[part] is not str else [self.texts.text(code) for code in found]
