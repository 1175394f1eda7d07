"""Descriptions of batches for the kernels: structures of `kernels.c`, made once for a schema."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import pyarrow as pa

_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_NS = 86_400 * _NS["s"]


class _Layout(IntEnum):
    FIXED = 0
    BITS = 1
    TEXT32 = 2
    TEXT64 = 3


class NativeKind(IntEnum):
    """Type of the values that a kernel reads."""

    INT8 = 0
    INT16 = 1
    INT32 = 2
    INT64 = 3
    UINT8 = 4
    UINT16 = 5
    UINT32 = 6
    UINT64 = 7
    FLOAT32 = 8
    FLOAT64 = 9
    STRING32 = 10
    STRING64 = 11
    OTHER = 12
    """Any other type. A kernel cannot read these values, but it can see which are null."""


_KINDS = {
    pa.int8().id: NativeKind.INT8,
    pa.int16().id: NativeKind.INT16,
    pa.int32().id: NativeKind.INT32,
    pa.int64().id: NativeKind.INT64,
    pa.uint8().id: NativeKind.UINT8,
    pa.uint16().id: NativeKind.UINT16,
    pa.uint32().id: NativeKind.UINT32,
    pa.uint64().id: NativeKind.UINT64,
    pa.float32().id: NativeKind.FLOAT32,
    pa.float64().id: NativeKind.FLOAT64,
    pa.string().id: NativeKind.STRING32,
    pa.binary().id: NativeKind.STRING32,
    pa.large_string().id: NativeKind.STRING64,
    pa.large_binary().id: NativeKind.STRING64,
}


class ArrowArray(ctypes.Structure):
    """A batch in transit, by Arrow's C data interface. Only its place in memory matters here."""

    _fields_ = [("words", ctypes.c_int64 * 10)]


class ColumnLayout(ctypes.Structure):
    """Layout of a column's buffers, and the width of a value in bytes."""

    _fields_ = [("layout", ctypes.c_int32), ("width", ctypes.c_int32)]


class NativeValues(ctypes.Structure):
    """Position of a column, the kind of its values, and the unit of its times in ns."""

    _fields_ = [("column", ctypes.c_int32), ("kind", ctypes.c_int32), ("factor", ctypes.c_uint64)]


def columns_of(schema: pa.Schema) -> Any | None:
    """Return the array of `ColumnLayout` of a schema; None if the kernels do not know some column's
    layout."""
    columns = [_column(kind) for kind in schema.types]
    known = [column for column in columns if column is not None]
    return None if len(known) < len(columns) else (ColumnLayout * len(known))(*known)


def _column(kind: pa.DataType) -> ColumnLayout | None:
    if isinstance(kind, pa.BaseExtensionType):
        return _column(kind.storage_type)
    values = _KINDS.get(kind.id)
    if values is NativeKind.STRING32:
        return ColumnLayout(_Layout.TEXT32, 0)
    if values is NativeKind.STRING64:
        return ColumnLayout(_Layout.TEXT64, 0)
    if pa.types.is_boolean(kind):
        return ColumnLayout(_Layout.BITS, 0)
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        return ColumnLayout(_Layout.FIXED, kind.bit_width // 8)
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width:
        return ColumnLayout(_Layout.FIXED, kind.byte_width)
    return None


def values_of(schema: pa.Schema, column: str) -> NativeValues:
    """Return the values of a column that is aggregated."""
    place = schema.get_field_index(column)
    return NativeValues(place, _KINDS.get(schema.field(place).type.id, NativeKind.OTHER), 1)


def key_of(schema: pa.Schema, column: str) -> NativeValues | None:
    """Return the values of a key column, which is hashed; None if the kernels do not know its type."""
    place = schema.get_field_index(column)
    kind = None if place < 0 else schema.field(place).type
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if kind is None:
        return None
    if kind.id in _KINDS:
        return NativeValues(place, _KINDS[kind.id], 1)
    if pa.types.is_date32(kind):
        return NativeValues(place, NativeKind.INT32, _DAY_NS)
    if pa.types.is_date64(kind):
        return NativeValues(place, NativeKind.INT64, _NS["ms"])
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return NativeValues(
            place, NativeKind.INT32 if kind.bit_width == 32 else NativeKind.INT64, _NS[kind.unit]
        )
    return None


def keys_of(schema: pa.Schema, columns: Sequence[str]) -> Any | None:
    """Return the array of `NativeValues` of key columns; None if the kernels do not know some type."""
    keys = [key_of(schema, column) for column in columns]
    known = [key for key in keys if key is not None]
    return None if len(known) < len(keys) else (NativeValues * len(known))(*known)
