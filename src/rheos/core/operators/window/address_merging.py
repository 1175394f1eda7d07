"""Merging of state by small integer keys: the address of a key is its distance from the smallest key.

When sliding windows fire, the operator groups all their slices, and most of the time is needed to hash
the keys. If the keys are close together, as ids often are, no hashing is needed. Each column is then an
array with one place for every key from the smallest to the largest. The result is sorted by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from rheos.core.operators.window.arrays import fits, identity

_SPARSE = 4
"""Maximum number of places per row."""
_FEW = 1 << 10
"""Number of places that is always permitted."""
_MANY_ROWS = 1 << 12
_FEW_OF_A_KEY = 4
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
    keys = [frame[key].to_numpy().astype(np.int64, copy=False) for frame in frames]
    low, high = min(int(of.min()) for of in keys), max(int(of.max()) for of in keys)
    most = _FEW + _SPARSE * sum(map(len, keys))
    if low >= 0 and high < most:
        low = 0
    places = high - low + 1
    if places > most:
        return None
    # Ids that begin near zero are addresses themselves, without a copy.
    addresses = [of - low for of in keys] if low else keys
    there = np.zeros(places, np.bool_)
    for address in addresses:
        there[address] = True
    found = np.flatnonzero(there)
    columns = [pl.Series(key, found + low).cast(frames[0].schema[key])]
    for name, reduce in reduces.items():
        given = [(a, f[name].to_numpy()) for a, f in zip(addresses, frames, strict=True) if name in f]
        if given:
            merged = np.full(places, identity(reduce, given[0][1].dtype), given[0][1].dtype)
            for address, values in given:
                reduce.at(merged, address, values)
            columns.append(pl.Series(name, merged[found]))
    return pl.DataFrame(columns)


def _fits(frame: pl.DataFrame, key: str, reduces: Mapping[str, np.ufunc]) -> bool:
    if frame.schema[key] not in _KEYS or frame[key].null_count():
        return False
    return all(fits(frame[name], reduce) for name, reduce in reduces.items() if name in frame)
