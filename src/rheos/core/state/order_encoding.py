"""Order-preserving encoding of values as bytes, and its inverse. So a database finds the least or
greatest value by a scan.

    whole numbers, points in time    big-endian, with the sign bit inverted
    floats                           their bits, adjusted to ascend; NaN is above all others
    decimals                         as whole numbers of their width
    strings, binary, booleans        their bytes
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.state.packing import Bytes, as_bytes, fixed, from_bytes


def ordered(column: pa.Array) -> pa.Array:
    """Return values without nulls as binary; -0.0 and 0.0 have different encodings."""
    kind = fixed(column.type)
    if kind is not None:
        bits = _upwards(column.view(kind).to_numpy())
        return _of_width(bits.astype(bits.dtype.newbyteorder(">")).view(np.uint8), bits.itemsize)
    if pa.types.is_decimal(column.type):
        width = column.type.bit_width // 8
        raw = np.frombuffer(b"".join(as_bytes(column).to_pylist()), np.uint8)
        turned = raw.reshape(-1, width)[:, ::-1].copy()
        turned[:, 0] ^= 0x80
        return _of_width(turned.reshape(-1), width)
    return as_bytes(column)


def from_ordered(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the values of type `kind` that `ordered` encoded."""
    number = fixed(kind)
    raw = np.frombuffer(b"".join(values.to_pylist()), np.uint8)
    if number is not None:
        width = number.bit_width // 8
        bits = raw.view(np.dtype(f">u{width}")).astype(f"u{width}")
        return pa.array(_decode_bits(bits, np.dtype(number.to_pandas_dtype())), number).view(kind)
    if pa.types.is_decimal(kind):
        width = kind.bit_width // 8
        turned = raw.reshape(-1, width).copy()
        turned[:, 0] ^= 0x80
        return from_bytes(_of_width(turned[:, ::-1].copy().reshape(-1), width), kind)
    return from_bytes(values, kind)


def _upwards(numbers: npt.NDArray[Any]) -> Any:
    """Return unsigned numbers that have the same order."""
    unsigned = np.dtype(f"u{numbers.itemsize}")
    bits = numbers.view(unsigned)
    sign = unsigned.type(1 << (8 * numbers.itemsize - 1))
    match numbers.dtype.kind:
        case "u":
            return bits
        case "i":
            return bits ^ sign
        case _:
            return np.where(bits & sign, ~bits, bits | sign)


def _decode_bits(bits: npt.NDArray[Any], kind: np.dtype[Any]) -> Any:
    sign = bits.dtype.type(1 << (8 * bits.itemsize - 1))
    match kind.kind:
        case "u":
            return bits
        case "i":
            return (bits ^ sign).view(kind)
        case _:
            return np.where(bits & sign, bits ^ sign, ~bits).view(kind)


def _of_width(raw: Bytes, width: int) -> pa.Array:
    buffers = [None, pa.py_buffer(raw.tobytes())]
    return pa.Array.from_buffers(pa.binary(width), len(raw) // width, buffers).cast(pa.large_binary())
