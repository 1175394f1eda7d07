"""Hashes of values, for keys and sketches. They depend on the values alone, not on library versions.

A value is normalised to 64-bit words:

    integers, booleans            the value as int64 (uint64 by its bits)
    floats                        as float64, -0.0 as 0.0, every NaN as one
    timestamps, dates, times,
    durations                     in ns, modulo 2**64, so that the unit does not matter
    strings, binary               the bytes, eight a word, little-endian, the last one padded by zeros
    decimals                      the shortest decimal string, as bytes
    dictionaries, run-ends,
    extension types               as the values that they represent

The finaliser of splitmix64 mixes each word. The words of a string are mixed with their positions and
added up; the sum is mixed with the length. The hashes of a key's columns are combined in the order of
the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import InputError, Site
from rheos.core.protocol.elements import FEW_ROWS, Batch
from rheos.core.protocol.shown_rows import shown_record

Words: TypeAlias = npt.NDArray[np.uint64]
Offsets: TypeAlias = npt.NDArray[np.int64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_INT_GAMMA, _INT_MIX1, _INT_MIX2 = int(_GAMMA), int(_MIX1), int(_MIX2)
_WORD = (1 << 64) - 1
_S27, _S30, _S31, _S33 = (np.uint64(shift) for shift in (27, 30, 31, 33))

_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_NS = 86_400 * _NS["s"]

# Masks that keep the lowest n bytes of a word, for n from 0 to 8.
_LOW_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)

# Maximum length in words up to which strings are hashed word by word, over all rows at a time.
_ROUNDS = 32


class NullKeyError(ValueError):
    """A null in a key column. Callers convert it to an InputError with the record. That error is the
    same wherever the null is detected: at the sender or the receiver, in any runtime."""

    def __init__(self, column: int, row: int) -> None:
        super().__init__(f"key column {column} is null in row {row}")
        self.column = column
        """Position of the column among the key columns."""
        self.row = row

    def located_in(self, batch: Batch, keys: Sequence[str], keyed_at: Site | None) -> InputError:
        """Return the error for the user: column, record of the batch, and line of the `key_by`."""
        key = keys[self.column]
        return InputError(
            f"the key column {key!r} is null",
            site=keyed_at,
            operator=None if keyed_at is None else "key_by",
            record=shown_record(batch, self.row),
            hint="a row without a key cannot be routed to a subtask: before key_by(), drop such "
            f"rows with .filter(col({key!r}).is_not_null()), or fill in the key with "
            f".with_columns(col({key!r}).fill_null(...))",
        )


def hash_keys(columns: Sequence[pa.Array]) -> Words:
    """Return the hash of each row's key. Raise NullKeyError, or TypeError for an invalid type."""
    return _finish(premix(columns))


def normalised(column: pa.Array) -> Words | pa.Array:
    """Normalise a key column by value: to words, or to a large_binary array for strings and decimals.

    The words may share memory with the column, so callers must not write to them. Two rows of a column
    have the same key exactly if their results are equal. The column must have no nulls.
    """
    kind = column.type
    if pa.types.is_int64(kind) or pa.types.is_uint64(kind):
        return column.to_numpy().view(np.uint64)
    if pa.types.is_integer(kind):
        return column.to_numpy().astype(np.int64).view(np.uint64)
    if _is_text(kind):
        return column if pa.types.is_large_binary(kind) else _large_binary(column)
    if pa.types.is_floating(kind):
        # Adding 0.0 turns -0.0 into 0.0 and changes nothing else.
        floats = column.to_numpy().astype(np.float64) + 0.0
        floats[np.isnan(floats)] = np.nan
        return floats.view(np.uint64)
    if pa.types.is_boolean(kind):
        return column.to_numpy(zero_copy_only=False).astype(np.uint64)
    if pa.types.is_date32(kind):
        return _scaled(column.view(pa.int32()), _DAY_NS)
    if pa.types.is_date64(kind):
        return _scaled(column.view(pa.int64()), _NS["ms"])
    if pa.types.is_time32(kind):
        return _scaled(column.view(pa.int32()), _NS[kind.unit])
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return _scaled(column.view(pa.int64()), _NS[kind.unit])
    if pa.types.is_decimal(kind):
        return _decimals(column)
    if isinstance(kind, pa.BaseExtensionType):
        return normalised(column.storage)
    if pa.types.is_dictionary(kind):
        return normalised(column.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return normalised(pc.run_end_decode(column))
    raise TypeError(f"a key cannot be of type {kind}")


def plain(column: pa.Array, position: int = 0) -> pa.Array:
    """Return the column with dictionaries and run-ends decoded. Raise NullKeyError for a null."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    elif pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if column.null_count:
        raise NullKeyError(position, pc.index(column.is_null(), True).as_py())
    return column


def premix(columns: Sequence[pa.Array]) -> Words:
    """Return the hashes before their last step, which keeps the 31 highest bits, in new memory."""
    mixed = _column(plain(columns[0], 0))
    for position, column in enumerate(columns[1:], 1):
        right = _column(plain(column, position))
        _finish(right)
        _finish(mixed)
        # Multiplying the left side makes (a, b) different from (b, a).
        mixed *= _MIX1
        mixed ^= right
        _mix(mixed, mixed)
    return mixed


def _column(column: pa.Array) -> Words:
    words = normalised(column)
    if not isinstance(words, np.ndarray):
        return _texts(words)
    if len(words) <= FEW_ROWS:
        return np.array([_mix_one(word) for word in words.tolist()], dtype=np.uint64)
    return _mix(words, np.empty_like(words))


def _mix_one(word: int) -> int:
    """Mix one word like `_mix`."""
    word = word + _INT_GAMMA & _WORD
    word = (word ^ word >> 30) * _INT_MIX1 & _WORD
    return (word ^ word >> 27) * _INT_MIX2 & _WORD


def _mix(words: Words, out: Words) -> Words:
    """Apply splitmix64 to each word, except its last step, which is `_finish`."""
    np.add(words, _GAMMA, out=out)
    shifted = out >> _S30
    out ^= shifted
    out *= _MIX1
    np.right_shift(out, _S27, out=shifted)
    out ^= shifted
    out *= _MIX2
    return out


def _finish(mixed: Words) -> Words:
    mixed ^= mixed >> _S31
    return mixed


def _texts(column: pa.Array) -> Words:
    rows = len(column)
    if rows == 0:
        return np.empty(0, dtype=np.uint64)
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[column.offset : column.offset + rows + 1]
    first, end = int(offsets[0]), int(offsets[-1])
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    # Every word is read as eight bytes, so the last word extends beyond the strings.
    padded = np.zeros(end - first + 8, dtype=np.uint8)
    if end > first:
        padded[: end - first] = np.frombuffer(data, dtype=np.uint8, count=end - first, offset=first)
    words_at = np.ndarray((end - first + 1,), dtype="<u8", buffer=padded.data, strides=(1,))

    longest = int(lengths.max())
    sums = words_at[starts] & _LOW_BYTES[np.minimum(lengths, 8)]
    _finish(_mix(sums, sums))
    if longest > _ROUNDS * 8:
        _add_words(sums, words_at, starts, lengths)
    else:
        for at in range(8, longest, 8):
            rows_left = np.flatnonzero(lengths > at)
            words = words_at[starts[rows_left] + at]
            words &= _LOW_BYTES[np.minimum(lengths[rows_left] - at, 8)]
            words += _position(at)
            sums[rows_left] += _finish(_mix(words, words))
    sums += lengths.view(np.uint64) * _MIX1
    return _mix(sums, sums)


def _add_words(sums: Words, words_at: Words, starts: Offsets, lengths: Offsets) -> None:
    """Add the words after the first to the sums, all at once. The cost depends on the total number of
    bytes, not on the length of the longest string."""
    rows = np.flatnonzero(lengths > 8)
    counts = (lengths[rows] - 1) >> 3
    firsts = np.cumsum(counts) - counts
    within = (np.arange(int(counts.sum())) - np.repeat(firsts, counts) + 1) << 3
    left = np.repeat(lengths[rows], counts) - within
    words = words_at[np.repeat(starts[rows], counts) + within] & _LOW_BYTES[np.minimum(left, 8)]
    words += within.view(np.uint64) * _MIX2
    sums[rows] += np.add.reduceat(_finish(_mix(words, words)), firsts)


def _position(at: int) -> np.uint64:
    return np.uint64(at * int(_MIX2) & (1 << 64) - 1)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _large_binary(column: pa.Array) -> pa.Array:
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    return column.cast(pa.large_binary())


def _scaled(numbers: pa.Array, by: int) -> Words:
    words: Words = numbers.to_numpy().astype(np.int64).view(np.uint64)
    return words if by == 1 else words * np.uint64(by)


def _decimals(column: pa.Array) -> pa.Array:
    encoded = column.dictionary_encode()
    texts = [format(value, "f") for value in encoded.dictionary.to_pylist()]
    texts = [text.rstrip("0").rstrip(".") if "." in text else text for text in texts]
    return pa.array([text.encode() for text in texts], pa.large_binary()).take(encoded.indices)
