"""Dense slots for the keys that a subtask has seen, in vectorised look-ups.

Columnar state keeps arrays by slot. Keys are distinguished by their exact normalised value, never by
their hash alone. No key is ever removed, so memory grows with the number of keys seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.native.running import NativeTable
from rheos.core.protocol.columns import plain_type
from rheos.core.protocol.hashing import normalised, plain
from rheos.core.state.slots import EMPTY, Slots
from rheos.core.state.word_index import WordIndex

Ints: TypeAlias = npt.NDArray[np.int64]

_HALF = np.uint64(32)
"""Number of bits of each of the two slots that a word combines."""

# The key columns are collected in pieces; small pieces are combined when there are this many.
_MAX_CHUNKS = 64


class KeySlots:
    """The slots of keys with one or more columns. Keys from several ports may have different column
    types, if these belong to the same key type (`graph.types.key_type`)."""

    def __init__(self, columns: int) -> None:
        self._columns = [_ColumnIndex() for _ in range(columns)]
        # The slots of the first columns and of the next column are combined into the slots of both.
        self._pairs = [WordIndex() for _ in range(1, columns)]

    def __len__(self) -> int:
        return len(self._pairs[-1]) if self._pairs else len(self._columns[0])

    def lookup_or_add(self, columns: Sequence[pa.Array]) -> Slots:
        """Return the slot of each row's key; a new key gets the next free slot.

        Raise NullKeyError if a key is null.
        """
        return self._lookup_or_add(columns, None)

    def _lookup_or_add(self, columns: Sequence[pa.Array], of: Ints | None) -> Slots:
        """Return the slot of each row's key. If `of` is given, the columns before the last one have
        rows only for their distinct values, and `of` is the place among these of each row."""
        columns = [plain(column, position) for position, column in enumerate(columns)]
        slots = self._columns[0].lookup_or_add(columns[0])
        for place, column in enumerate(columns[1:], 1):
            right = self._columns[place].lookup_or_add(column)
            if of is not None and place == len(columns) - 1:
                slots = slots.take(of)
            left = slots.astype(np.uint64)
            left <<= _HALF
            left |= right.astype(np.uint64)
            slots = self._pairs[place - 1].lookup_or_add(left)
        return slots

    def native(self) -> NativeTable | None:
        """Return the table of the keys as a kernel reads it, until a key is added; None if keys have
        several columns, or are strings."""
        return None if self._pairs else self._columns[0].native()

    def find(self, columns: Sequence[pa.Array]) -> Slots:
        """Return the slot of each row's key, or -1 if the key is unknown. No key may be null."""
        columns = [plain(column, position) for position, column in enumerate(columns)]
        slots = self._columns[0].find(columns[0])
        for column, index, pairs in zip(columns[1:], self._columns[1:], self._pairs, strict=True):
            right = index.find(column)
            known = np.flatnonzero((slots >= 0) & (right >= 0))
            left = slots[known].astype(np.uint64)
            left <<= _HALF
            left |= right[known].astype(np.uint64)
            slots = np.full(len(slots), EMPTY, dtype=np.int32)
            slots[known] = pairs.find(left)
        return slots


class KeyIndex(KeySlots):
    """The slots of keys, and the keys by slot."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(len(types))
        self._types = [plain_type(kind) for kind in types]
        self._chunks: list[list[pa.Array]] = [[] for _ in types]
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def lookup_or_add(self, columns: Sequence[pa.Array]) -> Slots:
        return self._add_keys(columns, None)

    def lookup_or_add_within(self, firsts: Sequence[pa.Array], of: Ints, last: pa.Array) -> Slots:
        """Return the slot of each row's key; a new key gets the next free slot.

        Args:
            firsts: The columns before the last one, with a row for each distinct combination.
            of: The place of each row's combination among these.
            last: The last column. It has all rows.
        """
        return self._add_keys([*firsts, last], of)

    def _add_keys(self, columns: Sequence[pa.Array], of: Ints | None) -> Slots:
        slots = super()._lookup_or_add(columns, of)
        size = super().__len__()
        if size > self._size:
            plain_columns = [plain(column, position) for position, column in enumerate(columns)]
            self._keep(plain_columns, of, slots, size)
        return slots

    def columns(self) -> list[pa.Array]:
        """Return the key columns by slot, with dictionaries decoded. They are immutable."""
        for position, chunks in enumerate(self._chunks):
            self._chunks[position] = [_together(chunks, self._types[position])]
        return [chunks[0] for chunks in self._chunks]

    def freeze(self) -> list[pa.ChunkedArray]:
        """Return the current key columns by slot, without copying them."""
        return [
            pa.chunked_array(chunks, kind)
            for chunks, kind in zip(self._chunks, self._types, strict=True)
        ]

    def _keep(self, columns: Sequence[pa.Array], of: Ints | None, slots: Slots, size: int) -> None:
        rows = np.flatnonzero(slots >= self._size)
        firsts = np.empty(size - self._size, dtype=np.int64)
        # If a key has several rows, the last one written wins; each of them has the same key.
        firsts[slots[rows] - self._size] = rows
        rows_of = [pa.array(firsts if of is None else of[firsts])] * len(columns)
        rows_of[-1] = pa.array(firsts)
        for chunks, column, kind, indices in zip(
            self._chunks, columns, self._types, rows_of, strict=True
        ):
            chunks.append(column.cast(kind).take(indices))
        self._size = size
        if len(self._chunks[0]) >= _MAX_CHUNKS:
            kept = _large(self._chunks[0])
            for chunks, kind in zip(self._chunks, self._types, strict=True):
                chunks[kept:] = [_together(chunks[kept:], kind)]


class _TextIndex:
    """The slots of strings. The distinct strings of a batch are looked up in a dict."""

    def __init__(self) -> None:
        self._slots: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def find(self, texts: pa.Array) -> Slots:
        encoded = texts.dictionary_encode()
        known = self._slots
        distinct = [known.get(text, EMPTY) for text in encoded.dictionary.to_pylist()]
        slots: Slots = np.array(distinct, dtype=np.int32).take(encoded.indices.to_numpy())
        return slots

    def lookup_or_add(self, texts: pa.Array) -> Slots:
        encoded = texts.dictionary_encode()
        known = self._slots
        distinct = [known.setdefault(text, len(known)) for text in encoded.dictionary.to_pylist()]
        slots: Slots = np.array(distinct, dtype=np.int32).take(encoded.indices.to_numpy())
        return slots


class _ColumnIndex:
    """The slots of one column, by its normalised values."""

    def __init__(self) -> None:
        self._words = WordIndex()
        self._texts = _TextIndex()

    def __len__(self) -> int:
        return len(self._words) + len(self._texts)

    def native(self) -> NativeTable | None:
        return None if len(self._texts) else self._words.native()

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
    """Return the number of leading chunks that are longer than all chunks after them. They are not
    copied again before the same amount has been added, and there are few of them."""
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
