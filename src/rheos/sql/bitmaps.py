"""Bitmaps of 32,768 bits, with which Spark counts distinct integers: BITMAP_CONSTRUCT_AGG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from rheos.core.operators.row_expressions import refusal

BITS: Final = 1 << 15
_BYTES: Final = BITS // 8


def constructed(columns: Sequence[pl.Series], *, call: str) -> pl.Series:
    """Return the bitmap of each list of positions. `call` is the call in the query.

    Raises:
        ComputeError: a position is out of range.
    """
    [lists] = columns
    made = [_bitmap(np.asarray(positions or (), np.int64), call) for positions in lists.to_list()]
    return pl.Series(lists.name, made, pl.Binary())


def _bitmap(positions: npt.NDArray[np.int64], call: str) -> bytes:
    wrong = positions[(positions < 0) | (positions >= BITS)]
    if len(wrong):
        raise refusal(
            f"{call} received the position {wrong[0]}, but those of a bitmap are 0 to {BITS - 1:,}",
            "write BITMAP_CONSTRUCT_AGG(BITMAP_BIT_POSITION(n)), grouped by BITMAP_BUCKET_NUMBER(n)",
        )
    bits = np.zeros(BITS, np.bool_)
    bits[positions] = True
    return np.packbits(bits, bitorder="little").tobytes()


def combined(columns: Sequence[pl.Series], *, every: bool) -> pl.Series:
    """Return the bits that are set in any bitmap of each list; with `every`, in all of them."""
    [lists] = columns
    combine = np.bitwise_and if every else np.bitwise_or
    made = []
    for bitmaps in lists.to_list():
        whole = [np.full(_BYTES, 0xFF if every else 0, np.uint8), *map(_padded, bitmaps or ())]
        made.append(combine.reduce(whole).tobytes())
    return pl.Series(lists.name, made, pl.Binary())


def _padded(bitmap: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(bitmap[:_BYTES].ljust(_BYTES, b"\0"), np.uint8)


def count(bitmap: bytes) -> int:
    """Return the number of bits that are set."""
    return int.from_bytes(bitmap, "little").bit_count()
