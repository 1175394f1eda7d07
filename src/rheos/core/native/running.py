"""The update of running aggregates, as one native call."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from enum import IntEnum
from operator import is_
from typing import Any, NamedTuple, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.native.descriptions import (
    ArrowArray,
    NativeKind,
    NativeValues,
    columns_of,
    key_of,
    values_of,
)
from rheos.core.native.library import PYTHON, Kernels

MOST_ROWS = 1 << 16
"""Maximum number of rows that a kernel adds."""

_Array = npt.NDArray[Any]

_WHOLE = {
    NativeKind.INT8: 1,
    NativeKind.INT16: 2,
    NativeKind.INT32: 4,
    NativeKind.INT64: 8,
    NativeKind.UINT8: 1,
    NativeKind.UINT16: 2,
    NativeKind.UINT32: 4,
    NativeKind.UINT64: 8,
}
"""Size in bytes of each type of whole numbers."""
_REAL = (NativeKind.FLOAT32, NativeKind.FLOAT64)


class NativeOperation(IntEnum):
    """Update of a cell by a kernel."""

    COUNT = 0
    INT_SUM = 1
    FLOAT_SUM = 2
    INT_MEAN = 3
    FLOAT_MEAN = 4
    LEAST = 5
    GREATEST = 6


class NativeCell(NamedTuple):
    """The arrays of a running aggregate, by slot, and how a kernel updates them."""

    operation: NativeOperation
    total: _Array | None = None
    """Sums, or the best values."""
    counts: _Array | None = None
    seen: _Array | None = None
    """Whether a key has had a value."""


class NativeTable(NamedTuple):
    """The table in which a kernel looks keys up."""

    table: _Array
    """Slots by address, or by the place of the hash."""
    places: int
    """Number of addresses; or the size of the table less one."""
    words: _Array | None = None
    """Words by slot, of a table by hash."""
    shift: int = 0


class _Cell(ctypes.Structure):
    _fields_ = [
        ("values", NativeValues),
        ("operation", ctypes.c_int32),
        ("width", ctypes.c_int32),
        ("total", ctypes.c_void_p),
        ("count", ctypes.c_void_p),
        ("seen", ctypes.c_void_p),
    ]


class _Running(ctypes.Structure):
    _fields_ = [
        ("columns", ctypes.c_void_p),
        ("n_columns", ctypes.c_int32),
        ("n_cells", ctypes.c_int32),
        ("cells", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("n_outputs", ctypes.c_int32),
        ("by_hash", ctypes.c_int32),
        ("key", NativeValues),
        ("known", ctypes.c_int64),
        ("table", ctypes.c_void_p),
        ("places", ctypes.c_int64),
        ("words", ctypes.c_void_p),
        ("shift", ctypes.c_int64),
        ("changed", ctypes.c_void_p),
    ]


class NativeRows:
    """The batches of an operator with running aggregates: what does not change while it runs."""

    def __init__(self, given: pa.Schema, made: pa.Schema, aggregates: Mapping[str, str | None]) -> None:
        """Describe the input and the output. `aggregates` has the column of each aggregate, by name."""
        self.given = given
        self.made = made
        self.names = list(aggregates)
        self.columns = columns_of(given)
        self.values = {
            name: NativeValues(-1, 0, 1) if column is None else values_of(given, column)
            for name, column in aggregates.items()
        }
        places = [self._place(field) for field in made]
        self.outputs = (ctypes.c_int32 * len(places))(*(place or 0 for place in places))
        self.is_known = self.columns is not None and None not in places
        """Whether the kernel knows these batches."""

    def knows(self, name: str, cell: NativeCell) -> bool:
        """Return whether a kernel can update the cell of an aggregate with its column."""
        kind = self.values[name].kind
        match cell.operation:
            case NativeOperation.COUNT:
                return True
            case NativeOperation.INT_SUM | NativeOperation.INT_MEAN:
                return kind in _WHOLE
            case NativeOperation.FLOAT_SUM | NativeOperation.FLOAT_MEAN:
                return kind in _REAL
            case NativeOperation.LEAST | NativeOperation.GREATEST:
                return kind in _WHOLE and cell.total is not None and cell.total.itemsize == _WHOLE[kind]
            case _:
                assert_never(cell.operation)

    def _place(self, field: pa.Field) -> int | None:
        """Return the source of an output column; None if the kernel cannot make it."""
        if field.name in self.names:
            return -1 - self.names.index(field.name)
        place = int(self.given.get_field_index(field.name))
        return place if place >= 0 and self.given.field(place).type.equals(field.type) else None


class NativeRunning:
    """The state of running aggregates, as a kernel reads it. Valid as long as the arrays are."""

    def __init__(
        self,
        rows: NativeRows,
        key: str,
        table: NativeTable | None,
        cells: Sequence[NativeCell],
        changed: _Array,
        known: int,
    ) -> None:
        """Describe the state. Without a `table`, the caller passes the slots of the rows. The arrays
        have room for `known` slots."""
        self._rows = rows
        columns = rows.columns
        assert columns is not None, "checked by `is_known`"
        self._given, self._made = ArrowArray(), ArrowArray()
        self._given_at, self._made_at = ctypes.addressof(self._given), ctypes.addressof(self._made)
        self._arrays = _arrays_of(table, cells, changed)
        """Arrays whose memory the kernel uses."""
        values = [rows.values[name] for name in rows.names]
        self._cells = (_Cell * len(cells))(
            *(
                _Cell(
                    of,
                    cell.operation,
                    _width(cell),
                    _address_of(cell.total),
                    _address_of(cell.counts),
                    _address_of(cell.seen),
                )
                for of, cell in zip(values, cells, strict=True)
            )
        )
        found = key_of(rows.given, key)
        self.looks_up = table is not None and found is not None and found.kind < NativeKind.STRING32
        """Whether the kernel finds the slots of the keys."""
        self._running = _Running(
            ctypes.addressof(columns),
            len(columns),
            len(cells),
            ctypes.addressof(self._cells),
            ctypes.addressof(rows.outputs),
            len(rows.outputs),
            int(table is not None and table.words is not None),
            found or NativeValues(0, 0, 1),
            known,
            _address_of(None if table is None else table.table),
            0 if table is None else table.places,
            _address_of(None if table is None else table.words),
            0 if table is None else table.shift,
            _address_of(changed),
        )
        self._running_at = ctypes.addressof(self._running)

    def has_grown(
        self, table: NativeTable | None, cells: Sequence[NativeCell], changed: _Array, known: int
    ) -> bool:
        """Use the first `known` slots from now on. Return False if this needs another description,
        because arrays were replaced."""
        arrays = _arrays_of(table, cells, changed)
        if len(arrays) != len(self._arrays) or not all(map(is_, arrays, self._arrays)):
            return False
        self._running.known = known
        return True

    def run(
        self, kernels: Kernels, batch: pa.RecordBatch, slots: npt.NDArray[np.int32] | None
    ) -> pa.RecordBatch | None:
        """Return the rows with their aggregates; None if the Python form must do the work, and nothing
        has changed. If `slots` is None, the kernel looks the keys up."""
        batch._export_to_c(self._given_at)
        at = None if slots is None else slots.ctypes.data
        if kernels.running(self._given_at, self._running_at, at, self._made_at) == PYTHON:
            return None
        return pa.RecordBatch._import_from_c(self._made_at, self._rows.made)


def _arrays_of(
    table: NativeTable | None, cells: Sequence[NativeCell], changed: _Array
) -> list[_Array | None]:
    found: list[_Array | None] = [changed]
    for cell in cells:
        found += [cell.total, cell.counts, cell.seen]
    if table is not None:
        found += [table.table, table.words]
    return found


def _width(cell: NativeCell) -> int:
    is_best = cell.operation in (NativeOperation.LEAST, NativeOperation.GREATEST)
    return cell.total.itemsize if is_best and cell.total is not None else 8


def _address_of(values: _Array | None) -> int | None:
    if values is None:
        return None
    assert values.flags.c_contiguous
    return int(values.ctypes.data)
