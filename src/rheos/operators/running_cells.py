"""The state of one running aggregate, by slot, and how a batch's rows run through it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.graph.aggregates import Agg, AggKind
from rheos.operators.segments import Ints, Numbers, Segments
from rheos.state.key_index import plain_type

At: TypeAlias = slice | Ints
"""Which slots: a range of them, or one by one."""

Column: TypeAlias = Callable[[], pa.Array]
"""Gives a frozen column, from any thread."""


class Cell(ABC):
    """A running aggregate over one column. Nulls are left out; no values at all give null."""

    @abstractmethod
    def grow(self, slots: int) -> None:
        """Makes room for at least so many slots."""

    @abstractmethod
    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        """Takes a batch's column in; the value after each row, in the order of the rows."""

    @abstractmethod
    def freeze(self, at: At) -> dict[str, Column]:
        """The state of these slots, by the name of its part, which nobody changes any more."""

    @abstractmethod
    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        """Puts frozen parts back, at these slots."""


def make_cell(agg: Agg, kind: pa.DataType | None) -> Cell:
    """The cell of an aggregate over a column of this type; None for a count of rows."""
    if agg.kind is AggKind.COUNT:
        return CountCell()
    assert kind is not None
    if agg.kind is AggKind.SUM:
        return SumCell(np.float64 if pa.types.is_floating(kind) else np.int64)
    if agg.kind is AggKind.MEAN:
        return MeanCell(np.float64 if pa.types.is_floating(kind) else np.int64)
    numeric = numeric_storage(kind)
    if numeric is None:
        return AnyExtremeCell(kind, agg.kind is AggKind.MAX)
    return ExtremeCell(kind, numeric, agg.kind is AggKind.MAX)


def numeric_storage(kind: pa.DataType) -> pa.DataType | None:
    """The number type that holds values of a type in their order; None for what is no number."""
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return pa.int64()
    return kind if pa.types.is_integer(kind) or pa.types.is_floating(kind) else None


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

    def freeze(self, at: At) -> Column:
        """A copy of these slots."""
        values = self.values[at].copy() if isinstance(at, slice) else self.values.take(at)
        return lambda: pa.array(values)


class CountCell(Cell):
    """How many rows, or how many values that are not null."""

    def __init__(self) -> None:
        self._count = SlotArray(np.int64, 0)

    def grow(self, slots: int) -> None:
        self._count.grow(slots)

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        return pa.array(rows.scatter(self.sorted_counts(rows, column)))

    def sorted_counts(self, rows: Segments, column: pa.Array | None) -> Ints:
        carry = self._count.values[rows.slots]
        if column is None or column.null_count == 0:
            counts = rows.counts(carry)
        else:
            counts = rows.int_sums(rows.gather(_valid(column)).astype(np.int64), carry)
        self._count.values[rows.slots] = counts[rows.ends]
        return counts

    def freeze(self, at: At) -> dict[str, Column]:
        return {"count": self._count.freeze(at)}

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        self._count.values[slots] = parts["count"].to_numpy()


class _Seen:
    """Which keys have had a value that is not null."""

    def __init__(self) -> None:
        self._seen = SlotArray(np.bool_, False)
        self._valid = CountCell()

    def grow(self, slots: int) -> None:
        self._seen.grow(slots)

    def run(self, rows: Segments, column: pa.Array) -> npt.NDArray[np.bool_] | None:
        """Which sorted rows have had no value yet; None where all have."""
        if column.null_count == 0:
            self._seen.values[rows.slots] = True
            return None
        before = self._seen.values[rows.slots]
        valid = rows.gather(_valid(column)).astype(np.int64)
        unseen = rows.int_sums(valid, before.astype(np.int64)) == 0
        self._seen.values[rows.slots] = ~unseen[rows.ends]
        return unseen if unseen.any() else None

    def freeze(self, at: At) -> Column:
        return self._seen.freeze(at)

    def thaw(self, slots: Ints, seen: pa.Array) -> None:
        self._seen.values[slots] = seen.to_numpy(zero_copy_only=False)


class SumCell(Cell):
    """The sum: floats one after the other, integers modulo 2**64."""

    def __init__(self, kind: type[np.number]) -> None:
        self._kind = kind
        self._sum = SlotArray(kind, 0)
        self._seen = _Seen()

    def grow(self, slots: int) -> None:
        self._sum.grow(slots)
        self._seen.grow(slots)

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        assert column is not None
        unseen = self._seen.run(rows, column)
        return _array(rows, self.sorted_sums(rows, column), unseen)

    def sorted_sums(self, rows: Segments, column: pa.Array) -> Numbers:
        values: Numbers = rows.gather(_numbers(column, 0)).astype(self._kind, copy=False)
        carry = self._sum.values[rows.slots]
        run: Callable[[Numbers, Numbers], Numbers]
        run = rows.float_sums if self._kind is np.float64 else rows.int_sums
        sums = run(values, carry)
        self._sum.values[rows.slots] = sums[rows.ends]
        return sums

    def freeze(self, at: At) -> dict[str, Column]:
        return {"sum": self._sum.freeze(at), "seen": self._seen.freeze(at)}

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        self._sum.values[slots] = parts["sum"].to_numpy()
        self._seen.thaw(slots, parts["seen"])


class MeanCell(Cell):
    """The sum by the count."""

    def __init__(self, kind: type[np.number]) -> None:
        self._sum = SumCell(kind)
        self._count = CountCell()

    def grow(self, slots: int) -> None:
        self._sum.grow(slots)
        self._count.grow(slots)

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        assert column is not None
        counts = self._count.sorted_counts(rows, column)
        sums = self._sum.sorted_sums(rows, column)
        unseen = counts == 0
        means = sums / np.maximum(counts, 1)
        return _array(rows, means, unseen if unseen.any() else None)

    def freeze(self, at: At) -> dict[str, Column]:
        return self._sum.freeze(at) | self._count.freeze(at)

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        self._sum.thaw(slots, parts)
        self._count.thaw(slots, parts)


class ExtremeCell(Cell):
    """The least or the greatest number or point in time. A NaN counts only where all are."""

    def __init__(self, kind: pa.DataType, storage: pa.DataType, greatest: bool) -> None:
        self._kind = kind
        self._storage = storage
        dtype = np.dtype(storage.to_pandas_dtype())
        self._fill: Any
        self._ufunc: np.ufunc
        if dtype.kind == "f":
            self._fill = np.nan
            self._ufunc = np.fmax if greatest else np.fmin
        else:
            limits = np.iinfo(dtype)
            self._fill = limits.min if greatest else limits.max
            self._ufunc = np.maximum if greatest else np.minimum
        self._best = SlotArray(dtype, self._fill)
        self._seen = _Seen()

    def grow(self, slots: int) -> None:
        self._best.grow(slots)
        self._seen.grow(slots)

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        assert column is not None
        unseen = self._seen.run(rows, column)
        values = rows.gather(_numbers(column.view(self._storage), self._fill))
        best = rows.accumulate(self._ufunc, values, self._best.values[rows.slots])
        self._best.values[rows.slots] = best[rows.ends]
        return _array(rows, best, unseen).view(self._kind)

    def freeze(self, at: At) -> dict[str, Column]:
        return {"best": self._best.freeze(at), "seen": self._seen.freeze(at)}

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        self._seen.thaw(slots, parts["seen"])
        # What stands for no value is another number in a wider type.
        seen = parts["seen"].to_numpy(zero_copy_only=False)
        best = parts["best"].to_numpy().astype(self._best.values.dtype)
        self._best.values[slots] = np.where(seen, best, self._fill)


class AnyExtremeCell(Cell):
    """The least or the greatest value of any type that Arrow can rank: texts, decimals, booleans.

    The ranks of a batch's values, among themselves and what the keys had before, run like numbers.
    """

    def __init__(self, kind: pa.DataType, greatest: bool) -> None:
        self._kind = kind
        self._plain = plain_type(kind)
        self._greatest = greatest
        self._best: list[Any] = []

    def grow(self, slots: int) -> None:
        self._best.extend([None] * (slots - len(self._best)))

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        assert column is not None
        before = pa.array([self._best[slot] for slot in rows.slots.tolist()], self._plain)
        values = pa.concat_arrays([before, column.cast(self._plain).take(pa.array(rows.order))])
        order = "descending" if self._greatest else "ascending"
        ranks = pc.rank(values, sort_keys=order, tiebreaker="dense").to_numpy().astype(np.int64)
        # Nulls rank last, so the least rank is the best value, and null only where there is none.
        holder = np.empty(int(ranks.max()) + 1, dtype=np.int64)
        holder[ranks] = np.arange(len(ranks))
        best = rows.accumulate(np.minimum, ranks[len(before) :].copy(), ranks[: len(before)])
        last = values.take(pa.array(holder[best[rows.ends]])).to_pylist()
        for slot, value in zip(rows.slots.tolist(), last, strict=True):
            self._best[slot] = value
        result = values.take(pa.array(holder[rows.scatter(best)]))
        if pa.types.is_dictionary(self._kind):
            result = result.dictionary_encode()
        return result.cast(self._kind)

    def freeze(self, at: At) -> dict[str, Column]:
        if isinstance(at, slice):
            values = self._best[at]
        else:
            values = [self._best[slot] for slot in at.tolist()]
        return {"best": lambda: pa.array(values, self._plain)}

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        for slot, value in zip(slots.tolist(), parts["best"].to_pylist(), strict=True):
            self._best[slot] = value


def _numbers(column: pa.Array, null: Any) -> Numbers:
    if column.null_count:
        column = column.fill_null(pa.scalar(null).cast(column.type))
    numbers: Numbers = column.to_numpy(zero_copy_only=False)
    return numbers


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _array(rows: Segments, values: Numbers, unseen: npt.NDArray[np.bool_] | None) -> pa.Array:
    mask = None if unseen is None else rows.scatter(unseen)
    return pa.array(rows.scatter(values), mask=mask)
