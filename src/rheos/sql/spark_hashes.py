"""Spark's 32-bit Murmur3 and 64-bit XXH64 of columns of all types, computed for whole columns.

Each value is hashed with the hash so far as its seed: that of the columns, fields or elements before
it. A null leaves the hash as it is. XXH64 is by Yann Collet; both are in the public domain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rheos.core.graph.row_functions import of_one_length

SEED: Final = 42
"""Seed of the first column, as in Spark."""
_LONG_DIGITS: Final = 18
"""Digits of the longest decimals that Spark keeps in 64 bits."""
_FEW_ROWS: Final = 16
"""Number of rows that are computed one by one, as the others are shorter."""

Words = npt.NDArray[Any]
"""Unsigned integers: hashes, seeds, or parts of strings."""


@dataclass(frozen=True)
class Algorithm:
    """One of the hash functions, over values of its three kinds."""

    word: type[np.unsignedinteger[Any]]
    """Type of a hash."""
    of_ints: Callable[[Words, Words], Words]
    """Function that hashes 32-bit values with their seeds."""
    of_longs: Callable[[Words, Words], Words]
    """Function that hashes 64-bit values with their seeds."""
    of_bytes: Callable[[Words, Words, Words, Words], Words]
    """Function that hashes parts of bytes, with where they begin, how many bytes they have, and their
    seeds."""


def hashes(columns: Sequence[pl.Series], *, by: Algorithm) -> pl.Series:
    """Return the hash of each row, as Spark's HASH and XXHASH64 do."""
    given = of_one_length(columns)
    found = np.full(len(given[0]), SEED, by.word)
    for column in given:
        found = _hashed(column, found, by)
    return pl.Series(columns[0].name, found.view(np.dtype(by.word).name.removeprefix("u")))


def _hashed(column: pl.Series, seeds: Words, by: Algorithm) -> Words:
    """Return the hashes of the values of a column; those of nulls are their seeds."""
    there = column.is_not_null().to_numpy()
    if not there.all():
        made = seeds.copy()
        if there.any():
            made[there] = _hashed(column.drop_nulls(), seeds[there], by)
        return made
    match column.dtype:
        case pl.Null():
            return seeds
        case pl.List():
            return _of_lists(column, seeds, by)
        case pl.Struct():
            for field in column.struct.unnest():
                seeds = _hashed(field, seeds, by)
            return seeds
        case pl.String() | pl.Binary():
            return by.of_bytes(*_parts(column.cast(pl.Binary)), seeds)
        case pl.Decimal() as of:
            unscaled = column.cast(pl.Decimal(38, of.scale)).to_physical()
            if of.precision > _LONG_DIGITS:
                return by.of_bytes(*_parts(_big_endian(unscaled)), seeds)
            return by.of_longs(unscaled.cast(pl.Int64).to_numpy().view(np.uint64), seeds)
        case pl.Float32() | pl.Float64() as of:
            single = of == pl.Float32()
            values = column.to_numpy() + (np.float32(0) if single else 0.0)  # -0.0 is 0.0.
            values[np.isnan(values)] = np.nan
            return (
                by.of_ints(values.view(np.uint32), seeds)
                if single
                else by.of_longs(values.view(np.uint64), seeds)
            )
        case pl.Boolean() | pl.Int8() | pl.Int16() | pl.Int32() | pl.UInt8() | pl.UInt16() | pl.Date():
            return by.of_ints(column.to_physical().cast(pl.Int32).to_numpy().view(np.uint32), seeds)
        case pl.Datetime():
            column = column.dt.epoch("us")
        case pl.Duration():
            column = column.dt.total_microseconds()
    return by.of_longs(column.cast(pl.Int64).to_numpy().view(np.uint64), seeds)


def _of_lists(column: pl.Series, seeds: Words, by: Algorithm) -> Words:
    """Return the hashes of lists: that of an element is the seed of the next one."""
    sizes = column.list.len().to_numpy().astype(np.int64)
    elements = column.list.explode(empty_as_null=False, keep_nulls=False)
    begins = np.cumsum(sizes) - sizes
    found = seeds.copy()
    for place in range(int(sizes.max(initial=0))):
        longer = np.flatnonzero(sizes > place)
        found[longer] = _hashed(elements.gather(begins[longer] + place), found[longer], by)
    return found


def _big_endian(unscaled: pl.Series) -> pl.Series:
    """Return numbers as Java's BigInteger writes them, with as few bytes as their sign allows."""
    data = []
    for number in unscaled.to_list():
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        data.append(number.to_bytes(size, "big", signed=True))
    return pl.Series(data, dtype=pl.Binary)


def _parts(column: pl.Series) -> tuple[Words, Words, Words]:
    """Return the bytes of all values and a few zeros, where each value begins, and its length."""
    array = column.to_arrow().cast(pa.large_binary())
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    _, ends, data = array.buffers()
    bounds = np.frombuffer(ends, np.int64, len(array) + 1, array.offset * 8)
    every = np.frombuffer(b"" if data is None else data, np.uint8)
    return np.concatenate([every, np.zeros(8, np.uint8)]), bounds[:-1], np.diff(bounds)


def _words(data: Words, begins: Words, kind: str) -> Words:
    """Return the little-endian integers at these places."""
    size = np.dtype(kind).itemsize
    found: Words = np.lib.stride_tricks.sliding_window_view(data, size)[begins].copy().view(kind)
    return found[..., 0]


def _rolled(value: Words, bits: int) -> Words:
    width = value.dtype.itemsize * 8
    made: Words = (value << value.dtype.type(bits)) | (value >> value.dtype.type(width - bits))
    return made


# --- Murmur3 ------------------------------------------------------------------------------------------


_U32 = np.uint32
_ALL_32 = 0xFFFFFFFF


def _mixed_word(word: Words) -> Words:
    return _rolled(word * _U32(0xCC9E2D51), 15) * _U32(0x1B873593)


def _mixed(found: Words, word: Words) -> Words:
    return _rolled(found ^ word, 13) * _U32(5) + _U32(0xE6546B64)


def _finished(found: Words, size: Words | int) -> Words:
    found = found ^ np.asarray(size).astype(_U32)
    found = (found ^ (found >> _U32(16))) * _U32(0x85EBCA6B)
    found = (found ^ (found >> _U32(13))) * _U32(0xC2B2AE35)
    made: Words = found ^ (found >> _U32(16))
    return made


def _murmur_of_ints(values: Words, seeds: Words) -> Words:
    return _finished(_mixed(seeds, _mixed_word(values)), 4)


def _murmur_of_longs(values: Words, seeds: Words) -> Words:
    low, high = values.astype(_U32), (values >> np.uint64(32)).astype(_U32)
    return _finished(_mixed(_mixed(seeds, _mixed_word(low)), _mixed_word(high)), 8)


def _murmur_of_bytes(data: Words, begins: Words, sizes: Words, seeds: Words) -> Words:
    """Hash whole words, then each of the last bytes as a signed word of its own, as only Spark does."""
    whole = sizes // 4
    found = seeds.copy()
    place, longer = 0, np.flatnonzero(whole)
    while len(longer) > _FEW_ROWS:
        words = _words(data, begins[longer] + place * 4, "<u4")
        found[longer] = _mixed(found[longer], _mixed_word(words))
        place += 1
        longer = longer[whole[longer] > place]
    for row in longer.tolist():
        at = begins[row] + 4 * np.arange(place, whole[row])
        found[row] = _murmur_of_words(int(found[row]), _mixed_word(_words(data, at, "<u4")).tolist())
    for rest in range(3):
        longer = np.flatnonzero(sizes % 4 > rest)
        last = data[begins[longer] + whole[longer] * 4 + rest].view(np.int8).astype(np.int32)
        found[longer] = _mixed(found[longer], _mixed_word(last.view(_U32)))
    return _finished(found, sizes)


def _murmur_of_words(found: int, words: list[int]) -> int:
    for word in words:
        found ^= word
        found = ((found << 13 | found >> 19) * 5 + 0xE6546B64) & _ALL_32
    return found


MURMUR3 = Algorithm(_U32, _murmur_of_ints, _murmur_of_longs, _murmur_of_bytes)


# --- XXH64 --------------------------------------------------------------------------------------------


_U64 = np.uint64
_ALL_64 = (1 << 64) - 1
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_STRIPE: Final = 32
"""Bytes that four sums read at once."""


def _avalanche(found: Words) -> Words:
    found = (found ^ (found >> _U64(33))) * _U64(_P2)
    found = (found ^ (found >> _U64(29))) * _U64(_P3)
    made: Words = found ^ (found >> _U64(32))
    return made


def _round(total: Words, word: Words) -> Words:
    return _rolled(total + word * _U64(_P2), 31) * _U64(_P1)


def _with_long(found: Words, word: Words) -> Words:
    return _rolled(found ^ _round(np.zeros_like(word), word), 27) * _U64(_P1) + _U64(_P4)


def _with_int(found: Words, word: Words) -> Words:
    return _rolled(found ^ (word.astype(_U64) * _U64(_P1)), 23) * _U64(_P2) + _U64(_P3)


def _xxh_of_ints(values: Words, seeds: Words) -> Words:
    return _avalanche(_with_int(seeds + _U64((_P5 + 4) & _ALL_64), values))


def _xxh_of_longs(values: Words, seeds: Words) -> Words:
    return _avalanche(_with_long(seeds + _U64((_P5 + 8) & _ALL_64), values))


def _xxh_of_bytes(data: Words, begins: Words, sizes: Words, seeds: Words) -> Words:
    stripes = sizes // _STRIPE
    found = seeds + _U64(_P5)
    long = np.flatnonzero(stripes)
    if len(long):
        found[long] = _xxh_of_stripes(data, begins[long], stripes[long], seeds[long])
    found = found + sizes.astype(_U64)
    at, rest = begins + stripes * _STRIPE, sizes % _STRIPE
    for step in range(3):
        longer = np.flatnonzero(rest // 8 > step)
        found[longer] = _with_long(found[longer], _words(data, at[longer] + step * 8, "<u8"))
    at, rest = at + rest // 8 * 8, rest % 8
    longer = np.flatnonzero(rest >= 4)
    found[longer] = _with_int(found[longer], _words(data, at[longer], "<u4"))
    at, rest = at + rest // 4 * 4, rest % 4
    for step in range(3):
        longer = np.flatnonzero(rest > step)
        last = data[at[longer] + step].astype(_U64) * _U64(_P5)
        found[longer] = _rolled(found[longer] ^ last, 11) * _U64(_P1)
    return _avalanche(found)


def _xxh_of_stripes(data: Words, begins: Words, stripes: Words, seeds: Words) -> Words:
    """Return the hashes of the first parts of strings, of 32 bytes each."""
    first = np.array([(_P1 + _P2) & _ALL_64, _P2, 0, -_P1 & _ALL_64], _U64)
    totals = seeds[:, None] + first
    lanes = 8 * np.arange(4)
    place, longer = 0, np.arange(len(begins))
    while len(longer) > _FEW_ROWS:
        words = _words(data, (begins[longer] + place * _STRIPE)[:, None] + lanes, "<u8")
        totals[longer] = _round(totals[longer], words)
        place += 1
        longer = longer[stripes[longer] > place]
    for row in longer.tolist():
        at = begins[row] + _STRIPE * np.arange(place, stripes[row])
        words = _words(data, at[:, None] + lanes, "<u8") * _U64(_P2)
        for lane in range(4):
            totals[row, lane] = _xxh_of_words(int(totals[row, lane]), words[:, lane].tolist())
    rolled = [_rolled(totals[:, lane], bits) for lane, bits in enumerate((1, 7, 12, 18))]
    found = rolled[0] + rolled[1] + rolled[2] + rolled[3]
    for lane in range(4):
        found = (found ^ _round(np.zeros_like(found), totals[:, lane])) * _U64(_P1) + _U64(_P4)
    made: Words = found
    return made


def _xxh_of_words(total: int, words: list[int]) -> int:
    for word in words:
        total = (total + word) & _ALL_64
        total = (total << 31 | total >> 33) * _P1 & _ALL_64
    return total


XXH64 = Algorithm(_U64, _xxh_of_ints, _xxh_of_longs, _xxh_of_bytes)
