"""Cells of running aggregates: state of one aggregate by slot, updated with the rows of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.aggregates.copy_memory import CopyMemory
from rheos.core.aggregates.segments import Ints, Numbers, Segments
from rheos.core.native.running import NativeCell

At: TypeAlias = slice | Ints
"""Slots of rows, as a range or as an array of slot numbers."""

Frozen: TypeAlias = Callable[[], pa.Array]
"""Function that returns a frozen column, from any thread."""


class Cell(ABC):
    """A running aggregate over one column. Nulls are ignored; without any value the result is null."""

    parts: Mapping[str, SlotArray]
    """State by the names under which it is stored. A cell with other state implements `grow`, `freeze`
    and `thaw` itself."""

    def grow(self, slots: int) -> None:
        """Make room for at least `slots` slots."""
        for part in self.parts.values():
            part.grow(slots)

    @abstractmethod
    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        """Add a batch's column, and return the aggregate after each row, in the order of the rows."""

    def run_few(self, slots: Sequence[int], column: pa.Array | None) -> pa.Array | None:
        """Do the same as `run` for a few rows, one by one. `slots` has the slot of each row.

        The result is identical to the bit. If the cell does not support this for these rows, return
        None and change nothing.
        """
        return None

    def native(self) -> NativeCell | None:
        """Return how a kernel updates the cell, until it grows; None if no kernel knows it.

        The results are identical to those of `run`, to the bit. Batches with nulls in the column go to
        `run`, and sums beyond 64 bits, too.
        """
        return None

    def freeze(self, at: At) -> dict[str, Frozen]:
        """Return the state of these slots, by its parts' names. Later updates do not affect it."""
        return {name: part.freeze(at) for name, part in self.parts.items()}

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        """Restore frozen parts to these slots."""
        for name, part in self.parts.items():
            part.thaw(slots, parts[name])


class SlotArray:
    """A numpy array by slot that grows by doubling."""

    def __init__(self, kind: npt.DTypeLike, fill: Any) -> None:
        self._fill = fill
        self.values: Numbers = np.full(64, fill, dtype=kind)
        self._copies = CopyMemory()

    def grow(self, slots: int) -> None:
        have = len(self.values)
        if slots > have:
            more = np.full(max(slots - have, have), self._fill, dtype=self.values.dtype)
            self.values = np.concatenate([self.values, more])

    def freeze(self, at: At) -> Frozen:
        """Return a copy of these slots."""
        if isinstance(at, slice):
            now = self.values[at]
            values = self._copies.array(len(now), now.dtype)
            values[:] = now
        else:
            values = self._copies.array(len(at), self.values.dtype)
            # In other modes NumPy makes another copy. Each slot exists.
            np.take(self.values, at, out=values, mode="clip")
        return lambda: pa.array(values)

    def thaw(self, slots: Ints, values: pa.Array) -> None:
        """Restore a frozen copy to these slots."""
        self.values[slots] = values.to_numpy(zero_copy_only=False)


class SeenKeys(SlotArray):
    """Keys that have had a value that is not null."""

    def __init__(self) -> None:
        super().__init__(np.bool_, False)

    def run(self, rows: Segments, column: pa.Array) -> npt.NDArray[np.bool_] | None:
        """Return, per sorted row, whether its key has had no value yet; None if all have had one."""
        if column.null_count == 0:
            self.values[rows.slots] = True
            return None
        before = self.values[rows.slots]
        values = rows.gather(valid(column)).astype(np.int64)
        unseen = rows.int_sums(values, before.astype(np.int64)) == 0
        self.values[rows.slots] = ~unseen[rows.ends]
        return unseen if unseen.any() else None

    def add_few(self, slots: Sequence[int]) -> None:
        """Record that each of these slots has had a value."""
        seen = self.values
        for slot in slots:
            seen[slot] = True


def whole_numbers(values: Sequence[int]) -> pa.Array:
    """Return a few integers as int64. Faster than `pa.array`, which infers their type."""
    return _array_of(pa.int64(), "q", values)


def floats(values: Sequence[float]) -> pa.Array:
    """Return a few numbers as float64."""
    return _array_of(pa.float64(), "d", values)


def _array_of(kind: pa.DataType, code: str, values: Sequence[Any]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(array(code, values))], 0)


def numbers(column: pa.Array, null: Any) -> Numbers:
    """Return the values of a column, with nulls replaced by `null`."""
    if column.null_count:
        null = bool(null) if pa.types.is_boolean(column.type) else null
        column = column.fill_null(pa.scalar(null, column.type))
    numbers: Numbers = column.to_numpy(zero_copy_only=False)
    return numbers


def valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return, per value, whether it is not null."""
    valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def placed(rows: Segments, values: Numbers, unseen: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Return sorted values in the order of the rows, with nulls for keys without a value so far."""
    mask = None if unseen is None else rows.scatter(unseen)
    return pa.array(rows.scatter(values), mask=mask)
