"""Rows of columns as bytes, one value per row, and back: vectorised.

A row is a struct of fixed width, followed by the bytes of the columns without a fixed width:

    numbers, points in time, durations    their bits, big-endian
    strings, binary, decimals, booleans   the length, 4 bytes, -1 for null; their bytes after the struct

The struct's fields have the order of the columns. Only columns without a fixed width may hold nulls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bytes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]


class Packing:
    """Packs rows of columns with these types."""

    def __init__(self, types: Sequence[pa.DataType], *, prefix_bytes: int = 0) -> None:
        """Create the packing. `prefix_bytes` are left free before the struct."""
        self._types = list(types)
        fields: list[Any] = [("prefix", np.uint8, (prefix_bytes,))]
        fields += [(f"f{at}", _stored(kind)) for at, kind in enumerate(types)]
        self._struct = np.dtype(fields)
        self._texts = [at for at, kind in enumerate(types) if fixed(kind) is None]

    def pack(self, columns: Sequence[pa.Array], prefix: Bytes | None = None) -> pa.Array:
        """Return the rows as binary values."""
        rows = np.zeros(len(columns[0]), self._struct)
        if prefix is not None:
            rows["prefix"] = prefix
        texts = []
        for at, (column, kind) in enumerate(zip(columns, self._types, strict=True)):
            number = fixed(kind)
            if number is not None:
                rows[f"f{at}"] = _numbers(column, number)
                continue
            text = as_bytes(column)
            lengths = pc.binary_length(text).fill_null(-1)
            rows[f"f{at}"] = lengths.to_numpy(zero_copy_only=False)
            texts.append(text.fill_null(b"") if text.null_count else text)
        width = pa.binary(self._struct.itemsize)
        packed = pa.Array.from_buffers(width, len(rows), [None, pa.py_buffer(rows.tobytes())])
        if not texts:
            return packed
        nothing = pa.scalar(b"", pa.large_binary())
        return pc.binary_join_element_wise(packed.cast(pa.large_binary()), *texts, nothing)

    def unpack(self, rows: Sequence[bytes]) -> list[pa.Array]:
        """Return the columns of packed rows."""
        return self._unpacked(rows, more=False)[0]

    def unpack_before(self, rows: Sequence[bytes]) -> tuple[list[pa.Array], pa.Array]:
        """Return the columns of packed rows that are followed by more bytes, and these bytes."""
        columns, ends = self._unpacked(rows, more=True)
        rest = [row[end:] for row, end in zip(rows, ends.tolist(), strict=True)]
        return columns, pa.array(rest, pa.large_binary())

    def _unpacked(self, rows: Sequence[bytes], *, more: bool) -> tuple[list[pa.Array], Ints]:
        """Return the columns, and the position in each row after them."""
        data = np.frombuffer(b"".join(rows), dtype=np.uint8)
        width = self._struct.itemsize
        if not self._texts and not more:
            starts = np.arange(len(rows), dtype=np.int64) * width
            structs = data.view(self._struct)
        else:
            lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
            starts = np.cumsum(lengths) - lengths
            structs = data[starts[:, None] + np.arange(width)].reshape(-1).view(self._struct)
        at_byte = starts + width
        columns: list[pa.Array] = []
        for at, kind in enumerate(self._types):
            number = fixed(kind)
            field = structs[f"f{at}"]
            if number is not None:
                values = pa.array(field.astype(np.dtype(number.to_pandas_dtype())))
                columns.append(values.view(kind))
                continue
            lengths = field.astype(np.int64)
            text = _gathered(data, at_byte, lengths)
            at_byte = at_byte + np.maximum(lengths, 0)
            columns.append(from_bytes(text, kind))
        return columns, at_byte - starts


def _stored(kind: pa.DataType) -> np.dtype[Any]:
    number = fixed(kind)
    return np.dtype(">i4") if number is None else np.dtype(number.to_pandas_dtype()).newbyteorder(">")


def fixed(kind: pa.DataType) -> pa.DataType | None:
    """Return the numeric type with the same bits as a type; None if the type has no fixed width."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return kind
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return None


def _numbers(column: pa.Array, number: pa.DataType) -> npt.NDArray[Any]:
    numbers: npt.NDArray[Any] = column.view(number).to_numpy()
    return numbers


def as_bytes(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_decimal(kind):
        column = column.view(pa.binary(kind.bit_width // 8))
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.uint8()).view(pa.binary(1))
    return column.cast(pa.large_binary())


def from_bytes(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        return column.cast(pa.binary(kind.bit_width // 8)).view(kind)
    if pa.types.is_boolean(kind):
        return column.cast(pa.binary(1)).view(pa.uint8()).cast(kind)
    return column.cast(kind)


def _gathered(data: Bytes, starts: Ints, lengths: Ints) -> pa.Array:
    """Return the bytes at these positions as binary values; null if the length is -1."""
    there = np.maximum(lengths, 0)
    offsets = np.concatenate([[0], np.cumsum(there)])
    index = np.repeat(starts - offsets[:-1], there) + np.arange(int(offsets[-1]))
    nulls = None
    if bool((lengths < 0).any()):
        nulls = pa.array(lengths >= 0).buffers()[1]
    buffers = [nulls, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data[index].tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)
