"""Merging of state by small integer keys: the address of a key is its distance from the smallest key.

When sliding windows fire, the operator groups all their slices, and most of the time is needed to hash
the keys. If the keys are close together, as ids often are, no hashing is needed. Each column is then an
array with one place for every key from the smallest to the largest. The result is sorted by key.

By the same addresses, `foremost_candidates` leaves out rows that cannot be among the first of their
key, before the others are sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from rheos.core.operators.window.arrays import fits, identity
from rheos.core.operators.window.contract import Ints

_SPARSE = 4
"""Maximum number of places per row."""
_FEW = 1 << 10
"""Number of places that is always permitted."""
_MANY_ROWS = 1 << 12
_FEW_OF_A_KEY = 4
_FEW_FIRST = 8
"""Maximum number of first rows for which candidates are selected: each needs a pass over the rows."""
_GAIN = 2
"""Minimum ratio of rows to the expected number of candidates."""
_KEYS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)


def pays_for_rows(keys: pl.Series) -> bool:
    """Return whether rows with these keys are faster to merge by address than to group. They are if
    there are many rows, dense keys, and few rows per key."""
    if len(keys) < _MANY_ROWS or keys.dtype not in _KEYS or keys.null_count():
        return False
    values = keys.to_numpy()
    places = int(values.max()) - int(values.min()) + 1
    return len(values) // _FEW_OF_A_KEY <= places <= _SPARSE * len(values)


def merged_by_address(
    frames: Sequence[pl.DataFrame], key: str, reduces: Mapping[str, np.ufunc]
) -> pl.DataFrame | None:
    """Merge frames to one row per key, with the columns of `reduces`: `add` of int64, `minimum` and
    `maximum` of numbers. A frame that lacks a column adds nothing to it. Return None if the keys are
    too sparse, or if a value is null or NaN, which Polars merges differently."""
    if not all(_fits(frame, key, reduces) for frame in frames):
        return None
    frames = [frame for frame in frames if frame.height]
    if not frames:
        return None
    found = _addresses([frame[key] for frame in frames])
    if found is None:
        return None
    addresses, low, places = found
    there = np.zeros(places, np.bool_)
    for address in addresses:
        there[address] = True
    taken = np.flatnonzero(there)
    columns = [pl.Series(key, taken + low).cast(frames[0].schema[key])]
    for name, reduce in reduces.items():
        given = [(a, f[name].to_numpy()) for a, f in zip(addresses, frames, strict=True) if name in f]
        if given:
            merged = np.full(places, identity(reduce, given[0][1].dtype), given[0][1].dtype)
            for address, values in given:
                reduce.at(merged, address, values)
            columns.append(pl.Series(name, merged[taken]))
    return pl.DataFrame(columns)


def _addresses(keys: Sequence[pl.Series]) -> tuple[list[Ints], int, int] | None:
    """Return the address of each key, the smallest key, and the number of places. Return None if the
    keys are too sparse."""
    values = [of.to_numpy().astype(np.int64, copy=False) for of in keys]
    low, high = min(int(of.min()) for of in values), max(int(of.max()) for of in values)
    most = _FEW + _SPARSE * sum(map(len, values))
    if low >= 0 and high < most:
        low = 0
    if high - low >= most:
        return None
    # Ids that begin near zero are addresses themselves, without a copy.
    return [of - low for of in values] if low else values, low, high - low + 1


def foremost_candidates(
    frame: pl.DataFrame, key: str, column: str, rows: int, *, smallest: bool
) -> pl.DataFrame:
    """Return the rows that may be among the first `rows` of their key by `column`, ascending if
    `smallest`; or all rows if the keys are too sparse, the column is not numeric, or little is gained.

    A row is left out if its key has at least `rows` rows with other values that precede its own.
    """
    reduce = np.minimum if smallest else np.maximum
    if frame.height < _MANY_ROWS or rows > _FEW_FIRST or not _fits(frame, key, {column: reduce}):
        return frame
    found = _addresses([frame[key]])
    if found is None:
        return frame
    [addresses], _, places = found
    values = frame[column].to_numpy()
    chosen = np.zeros(frame.height, np.bool_)
    left = np.arange(frame.height)
    for number in range(rows):
        best = np.full(places, identity(reduce, values.dtype), values.dtype)
        reduce.at(best, addresses, values)
        hits = values == best[addresses]
        if number == 0 and _GAIN * rows * int(np.count_nonzero(hits)) > frame.height:
            return frame
        chosen[left[hits]] = True
        others = ~hits
        left, addresses, values = left[others], addresses[others], values[others]
    return frame.filter(pl.Series(chosen))


def _fits(frame: pl.DataFrame, key: str, reduces: Mapping[str, np.ufunc]) -> bool:
    if frame.schema[key] not in _KEYS or frame[key].null_count():
        return False
    return all(fits(frame[name], reduce) for name, reduce in reduces.items() if name in frame)
