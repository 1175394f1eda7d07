"""The slots of single words, in tables that are searched for all rows at once.

If the words are close together, as ids often are, a word is the address of its slot. Otherwise a slot
is at the place of the word's hash, or in the next free place. A table by address is never larger than
one by hash would be, and look-ups in it take a third of the time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rheos.core.native.running import NativeTable
from rheos.core.protocol.elements import FEW_ROWS
from rheos.core.protocol.hashing import Words
from rheos.core.state.slots import EMPTY, Slots

_FACTOR1 = np.uint64(0x9E3779B97F4A7C15)
_FACTOR2 = np.uint64(0xD6E8FEB86659FD93)
_S32 = np.uint64(32)
_WORD = (1 << 64) - 1
_INT_FACTOR1, _INT_FACTOR2 = int(_FACTOR1), int(_FACTOR2)

# A table has at least this many places per word. More places are better while the table fits the
# processor's caches: every further place searched costs a round of NumPy calls.
_PLACES = 16
_PLACES_OF_MANY = 8
_MANY = 1 << 16
_FEWEST_PLACES = 1024


class WordIndex:
    """Numbers words in the order in which they arrive."""

    def __init__(self) -> None:
        self._words: Words = np.zeros(64, dtype=np.uint64)
        self._size = 0
        self._highest = 0
        self._table: _ByAddress | _ByHash = _ByAddress(_FEWEST_PLACES)

    def __len__(self) -> int:
        return self._size

    def find(self, words: Words) -> Slots:
        """Return the slots of the words, EMPTY for unknown words."""
        return self._table.find(words)

    def lookup_or_add(self, words: Words) -> Slots:
        if len(words) <= FEW_ROWS and (known := self._table.find_few(words.tolist())) is not None:
            return np.array(known, dtype=np.int32)
        slots = self._table.find(words)
        (fresh,) = (slots < 0).nonzero()
        if len(fresh):
            words = words[fresh]
            self._add(_distinct(words))
            slots[fresh] = self._table.find(words)
        return slots

    def native(self) -> NativeTable:
        """Return the table as a kernel reads it, until a word is added."""
        return self._table.native()

    def _add(self, words: Words) -> None:
        """Assign slots to words that are new and distinct."""
        start, end = self._size, self._size + len(words)
        if end > len(self._words):
            self._words = np.resize(self._words, max(end, 2 * len(self._words)))
        self._words[start:end] = words
        self._size = end
        self._highest = max(self._highest, int(words.max()))
        if self._table.has_room(end, self._highest):
            self._table.insert(self._words, start, end)
        else:
            self._table = self._larger_table()
            self._table.insert(self._words, 0, end)

    def _larger_table(self) -> _ByAddress | _ByHash:
        places = 1 << _places_for(self._size).bit_length()
        if self._highest < places:
            return _ByAddress(min(places, 2 * self._highest + _FEWEST_PLACES))
        return _ByHash(places)


def _places_for(words: int) -> int:
    return words * (_PLACES if words <= _MANY else _PLACES_OF_MANY)


def _distinct(words: Words) -> Words:
    """Return the distinct words, in any order."""
    highest = int(words.max())
    if highest >= _places_for(len(words)):
        # `np.unique` looks each word up in a hash table, which takes ten times as long.
        ordered = np.sort(words)
        of_sorted: Words = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
        return of_sorted
    at, rows = words.view(np.int64), np.arange(len(words))
    last = np.empty(highest + 1, dtype=np.int64)
    # If a word has several rows, the last one written stays: exactly one row finds itself.
    last[at] = rows
    distinct: Words = words[last[at] == rows]
    return distinct


class _ByAddress:
    """A table in which a word is the address of its slot. All words beyond the table use the last
    place, which is always empty."""

    def __init__(self, places: int) -> None:
        self._slots: Slots = np.full(places + 1, EMPTY, dtype=np.int32)
        self._beyond = np.uint64(places)

    def has_room(self, words: int, highest: int) -> bool:
        return highest < len(self._slots) - 1

    def find(self, words: Words) -> Slots:
        return self._slots.take(np.minimum(words, self._beyond).view(np.int64))

    def find_few(self, words: Sequence[int]) -> list[int] | None:
        """Return the slots; None if a word is unknown."""
        slot_at, beyond = self._slots.item, int(self._beyond)
        slots = [slot_at(word if word < beyond else beyond) for word in words]
        return None if EMPTY in slots else slots

    def native(self) -> NativeTable:
        return NativeTable(self._slots, int(self._beyond))

    def insert(self, words: Words, start: int, end: int) -> None:
        """Insert the words of the slots from `start` to before `end`."""
        self._slots[words[start:end].view(np.int64)] = np.arange(start, end, dtype=np.int32)


class _ByHash:
    """An open-addressing table with a power of two of places."""

    def __init__(self, places: int) -> None:
        self._slots: Slots = np.full(places, EMPTY, dtype=np.int32)
        self._words: Words = np.zeros(1, dtype=np.uint64)
        """Words by slot; at least one element, because empty places are looked up, too."""
        self._mask = places - 1
        self._shift = np.uint64(64 - (places.bit_length() - 1))

    def has_room(self, words: int, highest: int) -> bool:
        return _places_for(words) <= len(self._slots)

    def find(self, words: Words) -> Slots:
        places = self._first_places(words)
        slots = self._slots.take(places)
        others = np.flatnonzero((self._words.take(slots) != words) & (slots >= 0))
        if len(others):
            slots[others] = self._probe(words[others], places[others])
        return slots

    def find_few(self, words: Sequence[int]) -> list[int] | None:
        """Return the slots, looked up one by one; None if a word is unknown."""
        slot_at, word_of, mask, shift = self._slots.item, self._words.item, self._mask, int(self._shift)
        slots = []
        for word in words:
            place = _first_place(word, shift)
            while (slot := slot_at(place)) >= 0 and word_of(slot) != word:
                place = (place + 1) & mask
            if slot < 0:
                return None
            slots.append(slot)
        return slots

    def native(self) -> NativeTable:
        return NativeTable(self._slots, self._mask, self._words, int(self._shift))

    def _first_places(self, words: Words) -> npt.NDArray[np.int64]:
        mixed = words * _FACTOR1
        mixed ^= mixed >> _S32
        mixed *= _FACTOR2
        mixed >>= self._shift
        return mixed.view(np.int64)

    def _probe(self, words: Words, places: npt.NDArray[np.int64]) -> Slots:
        """Return the slots of words, probing from these places on; EMPTY for unknown words."""
        slots = np.empty(len(words), dtype=np.int32)
        searching = np.arange(len(words))
        while len(searching):
            places[searching] = (places[searching] + 1) & self._mask
            found = self._slots[places[searching]]
            slots[searching] = found
            searching = searching[(found >= 0) & (self._words[found] != words[searching])]
        return slots

    def insert(self, words: Words, start: int, end: int) -> None:
        """Insert the words of the slots in [`start`, `end`). `words` are those of all slots."""
        self._words = words
        slots = np.arange(start, end, dtype=np.int32)
        places = self._first_places(words[start:end])
        while len(slots):
            free = self._slots[places] == EMPTY
            # If several words want one place, the last one written has it; the others continue.
            self._slots[places[free]] = slots[free]
            left = self._slots[places] != slots
            slots, places = slots[left], (places[left] + 1) & self._mask


def _first_place(word: int, shift: int) -> int:
    """Return the first place of one word, as `_ByHash._first_places` does."""
    mixed = word * _INT_FACTOR1 & _WORD
    mixed ^= mixed >> 32
    return (mixed * _INT_FACTOR2 & _WORD) >> shift
