"""Cells of running aggregates. A cell keeps the state of one aggregate by slot, and updates it with the
rows of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.aggregates.segments import Ints, Numbers, Segments

At: TypeAlias = slice | Ints
"""Slots, as a range or as an array of single slots."""

Frozen: TypeAlias = Callable[[], pa.Array]
"""Gives a frozen column, from any thread."""


class Cell(ABC):
    """A running aggregate over one column. Nulls are left out; no values at all give null."""

    parts: Mapping[str, SlotArray]
    """State by the names under which it is stored. A cell that keeps anything else implements `grow`,
    `freeze` and `thaw` itself."""

    def grow(self, slots: int) -> None:
        """Make room for at least `slots` slots."""
        for part in self.parts.values():
            part.grow(slots)

    @abstractmethod
    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        """Take a batch's column in; the value after each row, in the order of the rows."""

    def run_few(self, slots: Sequence[int], column: pa.Array | None) -> pa.Array | None:
        """Do the same as `run` for a few rows, one by one, given the slot of each row.

        The result is identical to the bit. Returns None, and changes nothing, if the cell cannot do so
        for these rows.
        """
        return None

    def freeze(self, at: At) -> dict[str, Frozen]:
        """Return the state of these slots, by the names of its parts. Nobody changes it any more."""
        return {name: part.freeze(at) for name, part in self.parts.items()}

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        """Put frozen parts back, at these slots."""
        for name, part in self.parts.items():
            part.thaw(slots, parts[name])


class SlotArray:
    """A numpy array by slot that grows by doubling."""

    def __init__(self, kind: npt.DTypeLike, fill: Any) -> None:
        self._fill = fill
        self.values: Numbers = np.full(64, fill, dtype=kind)

    def grow(self, slots: int) -> None:
        have = len(self.values)
        if slots > have:
            more = np.full(max(slots - have, have), self._fill, dtype=self.values.dtype)
            self.values = np.concatenate([self.values, more])

    def freeze(self, at: At) -> Frozen:
        """A copy of these slots."""
        values = self.values[at].copy() if isinstance(at, slice) else self.values.take(at)
        return lambda: pa.array(values)

    def thaw(self, slots: Ints, values: pa.Array) -> None:
        """Put a frozen copy back, at these slots."""
        self.values[slots] = values.to_numpy(zero_copy_only=False)


class SeenKeys(SlotArray):
    """The keys that have had a non-null value."""

    def __init__(self) -> None:
        super().__init__(np.bool_, False)

    def run(self, rows: Segments, column: pa.Array) -> npt.NDArray[np.bool_] | None:
        """Return, per sorted row, whether its key has had no value yet; None if every key has had
        one."""
        if column.null_count == 0:
            self.values[rows.slots] = True
            return None
        before = self.values[rows.slots]
        values = rows.gather(valid(column)).astype(np.int64)
        unseen = rows.int_sums(values, before.astype(np.int64)) == 0
        self.values[rows.slots] = ~unseen[rows.ends]
        return unseen if unseen.any() else None

    def add_few(self, slots: Sequence[int]) -> None:
        """Each of them has had a value."""
        seen = self.values
        for slot in slots:
            seen[slot] = True


def whole_numbers(values: Sequence[int]) -> pa.Array:
    """A few of them, as int64: quicker than by `pa.array`, which asks what they are."""
    return _given(pa.int64(), "q", values)


def floats(values: Sequence[float]) -> pa.Array:
    """A few of them, as float64."""
    return _given(pa.float64(), "d", values)


def _given(kind: pa.DataType, code: str, values: Sequence[Any]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(array(code, values))], 0)


def numbers(column: pa.Array, null: Any) -> Numbers:
    """The values of a column, with a number in the place of nulls."""
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
    """Sorted values in the order of the rows, with nulls where a key has had no value yet."""
    mask = None if unseen is None else rows.scatter(unseen)
    return pa.array(rows.scatter(values), mask=mask)
