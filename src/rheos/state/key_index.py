"""Numbers the keys that a subtask has seen: each key gets a dense slot, in vectorised look-ups.

Columnar state keeps arrays by slot. Keys are distinguished by their exact normalised value, never by
their hash alone. Nothing is ever removed: the memory is that of the keys seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.protocol.columns import plain_type
from rheos.protocol.elements import FEW_ROWS
from rheos.protocol.hashing import Words, normalised, plain

Slots: TypeAlias = npt.NDArray[np.int32]
"""Positions in the arrays of a columnar state."""
AnySlots: TypeAlias = npt.NDArray[np.signedinteger[Any]]
"""Slots of any width. With those of numpy's own, `intp`, arrays are indexed in a third of the time."""

_FACTOR1 = np.uint64(0x9E3779B97F4A7C15)
_FACTOR2 = np.uint64(0xD6E8FEB86659FD93)
_S32 = np.uint64(32)
_WORD = (1 << 64) - 1
_INT_FACTOR1, _INT_FACTOR2 = int(_FACTOR1), int(_FACTOR2)

# A table has at least so many places for a key, the more the better while it fits the processor's
# caches: every further place looked at costs a round of numpy calls.
_PLACES = 16
_PLACES_OF_MANY = 8
_MANY = 1 << 16
_EMPTY = -1

# The key columns are collected in pieces; the small ones are put together when there are this many.
_MAX_CHUNKS = 64


class KeySlots:
    """The slots of keys made of one or more columns. Those of another port may be of other types, where
    these are of one key type (`graph.types.key_type`)."""

    def __init__(self, columns: int) -> None:
        self._columns = [_ColumnIndex() for _ in range(columns)]
        # Slots of the first columns and of the next one make the slots of both.
        self._pairs = [WordIndex() for _ in range(1, columns)]

    def __len__(self) -> int:
        return len(self._pairs[-1]) if self._pairs else len(self._columns[0])

    def lookup_or_add(self, columns: Sequence[pa.Array]) -> Slots:
        """The slot of each row's key; a new key gets the next free slot.

        Raises NullKeyError.
        """
        columns = [plain(column, position) for position, column in enumerate(columns)]
        slots = self._columns[0].lookup_or_add(columns[0])
        for column, index, pairs in zip(columns[1:], self._columns[1:], self._pairs, strict=True):
            right = index.lookup_or_add(column)
            left = slots.astype(np.uint64)
            left <<= _S32
            left |= right.astype(np.uint64)
            slots = pairs.lookup_or_add(left)
        return slots

    def find(self, columns: Sequence[pa.Array]) -> Slots:
        """The slot of each row's key, -1 where it is not known. The keys are not null."""
        columns = [plain(column, position) for position, column in enumerate(columns)]
        slots = self._columns[0].find(columns[0])
        for column, index, pairs in zip(columns[1:], self._columns[1:], self._pairs, strict=True):
            right = index.find(column)
            known = np.flatnonzero((slots >= 0) & (right >= 0))
            left = slots[known].astype(np.uint64)
            left <<= _S32
            left |= right[known].astype(np.uint64)
            slots = np.full(len(slots), _EMPTY, dtype=np.int32)
            slots[known] = pairs.find(left)
        return slots


class KeyIndex(KeySlots):
    """Slots of keys, and the keys by slot."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(len(types))
        self._types = [plain_type(kind) for kind in types]
        self._chunks: list[list[pa.Array]] = [[] for _ in types]
        self._size = 0

    def lookup_or_add(self, columns: Sequence[pa.Array]) -> Slots:
        slots = super().lookup_or_add(columns)
        size = len(self)
        if size > self._size:
            plain_columns = [plain(column, position) for position, column in enumerate(columns)]
            self._keep(plain_columns, slots, size)
        return slots

    def columns(self) -> list[pa.Array]:
        """The key columns by slot, with dictionaries decoded. Immutable."""
        for position, chunks in enumerate(self._chunks):
            self._chunks[position] = [_together(chunks, self._types[position])]
        return [chunks[0] for chunks in self._chunks]

    def freeze(self) -> list[pa.ChunkedArray]:
        """The key columns by slot, as they are now, without copying them."""
        return [
            pa.chunked_array(chunks, kind)
            for chunks, kind in zip(self._chunks, self._types, strict=True)
        ]

    def _keep(self, columns: Sequence[pa.Array], slots: Slots, size: int) -> None:
        rows = np.flatnonzero(slots >= self._size)
        firsts = np.empty(size - self._size, dtype=np.int64)
        # Of several rows of a key the last one written counts, and each of them is right.
        firsts[slots[rows] - self._size] = rows
        indices = pa.array(firsts)
        for chunks, column, kind in zip(self._chunks, columns, self._types, strict=True):
            chunks.append(column.cast(kind).take(indices))
        self._size = size
        if len(self._chunks[0]) >= _MAX_CHUNKS:
            kept = _large(self._chunks[0])
            for chunks, kind in zip(self._chunks, self._types, strict=True):
                chunks[kept:] = [_together(chunks[kept:], kind)]


class WordIndex:
    """The slots of single words: an open-addressing table, probed for all rows at once."""

    def __init__(self) -> None:
        self._words: Words = np.zeros(64, dtype=np.uint64)
        self._size = 0
        self._resize(1024)

    def __len__(self) -> int:
        return self._size

    def find(self, words: Words) -> Slots:
        return self._find(words)[0]

    def _find(self, words: Words) -> tuple[Slots, npt.NDArray[np.int64]]:
        """The slots, _EMPTY for words that are not there; and the rows that were not found at once."""
        places = self._first_places(words)
        slots = self._table.take(places)
        missed = np.flatnonzero((self._words.take(slots) != words) | (slots < 0))
        if len(missed):
            slots[missed] = self._probe(words[missed], places[missed], slots[missed])
        return slots, missed

    def lookup_or_add(self, words: Words) -> Slots:
        if len(words) <= FEW_ROWS and (known := self._find_few(words.tolist())) is not None:
            return known
        slots, missed = self._find(words)
        if len(missed):
            fresh = missed[slots[missed] < 0]
            if len(fresh):
                values, inverse = np.unique(words[fresh], return_inverse=True)
                slots[fresh] = self._add(values)[inverse]
        return slots

    def _find_few(self, words: Sequence[int]) -> Slots | None:
        """The slots, looked up one by one; None where a word is not there."""
        slot_at, word_of, mask, shift = self._table.item, self._words.item, self._mask, int(self._shift)
        slots = []
        for word in words:
            place = _first_place(word, shift)
            while (slot := slot_at(place)) >= 0 and word_of(slot) != word:
                place = (place + 1) & mask
            if slot < 0:
                return None
            slots.append(slot)
        return np.array(slots, dtype=np.int32)

    def _first_places(self, words: Words) -> npt.NDArray[np.int64]:
        mixed = words * _FACTOR1
        mixed ^= mixed >> _S32
        mixed *= _FACTOR2
        mixed >>= self._shift
        return mixed.view(np.int64)

    def _probe(self, words: Words, places: npt.NDArray[np.int64], slots: Slots) -> Slots:
        """The slots of words, looking on from places where others are; _EMPTY for those not there."""
        searching = np.flatnonzero(slots >= 0)
        while len(searching):
            places[searching] = (places[searching] + 1) & self._mask
            found = self._table[places[searching]]
            slots[searching] = found
            searching = searching[(found >= 0) & (self._words[found] != words[searching])]
        return slots

    def _add(self, words: Words) -> Slots:
        """Slots for words that are new and differ from each other."""
        start, end = self._size, self._size + len(words)
        if end > len(self._words):
            self._words = np.resize(self._words, max(end, 2 * len(self._words)))
        self._words[start:end] = words
        self._size = end
        needed = end * (_PLACES if end <= _MANY else _PLACES_OF_MANY)
        if needed > len(self._table):
            self._resize(1 << needed.bit_length())
        else:
            self._insert(start, end)
        return np.arange(start, end, dtype=np.int32)

    def _resize(self, places: int) -> None:
        self._table: Slots = np.full(places, _EMPTY, dtype=np.int32)
        self._mask = places - 1
        self._shift = np.uint64(64 - (places.bit_length() - 1))
        self._insert(0, self._size)

    def _insert(self, start: int, end: int) -> None:
        slots = np.arange(start, end, dtype=np.int32)
        places = self._first_places(self._words[start:end])
        while len(slots):
            free = self._table[places] == _EMPTY
            # Where several want one place, the last one written has it and the others go on.
            self._table[places[free]] = slots[free]
            left = self._table[places] != slots
            slots, places = slots[left], (places[left] + 1) & self._mask


def _first_place(word: int, shift: int) -> int:
    """As `WordIndex._first_places`, of one word."""
    mixed = word * _INT_FACTOR1 & _WORD
    mixed ^= mixed >> 32
    return (mixed * _INT_FACTOR2 & _WORD) >> shift


class _TextIndex:
    """The slots of texts: the distinct ones of a batch are looked up in a dict."""

    def __init__(self) -> None:
        self._slots: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def find(self, texts: pa.Array) -> Slots:
        encoded = texts.dictionary_encode()
        known = self._slots
        distinct = [known.get(text, _EMPTY) for text in encoded.dictionary.to_pylist()]
        slots: Slots = np.array(distinct, dtype=np.int32).take(encoded.indices.to_numpy())
        return slots

    def lookup_or_add(self, texts: pa.Array) -> Slots:
        encoded = texts.dictionary_encode()
        known = self._slots
        distinct = [known.setdefault(text, len(known)) for text in encoded.dictionary.to_pylist()]
        slots: Slots = np.array(distinct, dtype=np.int32).take(encoded.indices.to_numpy())
        return slots


class _ColumnIndex:
    """The slots of one column, by what its values normalise to."""

    def __init__(self) -> None:
        self._words = WordIndex()
        self._texts = _TextIndex()

    def __len__(self) -> int:
        return len(self._words) + len(self._texts)

    def find(self, column: pa.Array) -> Slots:
        values = normalised(column)
        if isinstance(values, np.ndarray):
            return self._words.find(values)
        return self._texts.find(values)

    def lookup_or_add(self, column: pa.Array) -> Slots:
        values = normalised(column)
        if isinstance(values, np.ndarray):
            return self._words.lookup_or_add(values)
        return self._texts.lookup_or_add(values)


def _large(chunks: Sequence[pa.Array]) -> int:
    """How many of the first chunks are longer than all that follow them: they are not copied again
    before as much has come, and there are few of them."""
    left = sum(map(len, chunks))
    for position, chunk in enumerate(chunks):
        left -= len(chunk)
        if len(chunk) <= left:
            return position
    return len(chunks) - 1


def _together(chunks: list[pa.Array], kind: pa.DataType) -> pa.Array:
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else pa.array([], kind)
