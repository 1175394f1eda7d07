"""Columns of bytes, made of values that are encoded a few at a time.

A conversion of a list reads all encoded values from memory again. Here, each block of values is copied
into the column while it is in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

BinaryColumn: TypeAlias = "pa.Array | pa.ChunkedArray"
"""Column of bytes. It has chunks if its values exceed the size of an array."""

_BLOCK_ROWS = 64
_MAX_ARRAY_BYTES = (1 << 31) - 1
"""Maximum size in bytes of the values of a binary array."""


def binary_column(rows: int, encode: Callable[[slice], Sequence[bytes]]) -> BinaryColumn:
    """Return a column of `rows` values. `encode` returns the values of some rows, each as bytes, and is
    called again for all rows if they exceed the size of an array."""
    offsets = np.zeros(rows + 1, np.int64)
    data, size = np.empty(0, np.uint8), 0
    for begin in range(0, rows, _BLOCK_ROWS):
        block = encode(slice(begin, begin + _BLOCK_ROWS))
        done = begin + len(block)
        offsets[begin + 1 : done + 1] = [*map(len, block)]
        joined = np.frombuffer(b"".join(block), np.uint8)
        end = size + len(joined)
        if end > len(data):
            # Room for all values, if the others are as long, and for an eighth more.
            grown = np.empty(end * rows // done * 9 // 8 + 1, np.uint8)
            grown[:size] = data[:size]
            data = grown
        data[size:end] = joined
        size = end
    if size > _MAX_ARRAY_BYTES:
        return pa.array(encode(slice(0, rows)), pa.binary())
    ends = np.cumsum(offsets).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(data[:size])]
    )


def chunks_of(column: BinaryColumn) -> Sequence[pa.Array]:
    """Return the arrays of a column."""
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]
