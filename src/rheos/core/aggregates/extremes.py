"""`min` and `max` of numbers, times, and all other types that Arrow can rank."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.aggregates.cells import At, Cell, Frozen, SeenKeys, SlotArray, numbers, placed
from rheos.core.aggregates.contract import (
    Agg,
    ArrayLayout,
    Column,
    NanColumn,
    OneRowState,
    RunningForm,
    given,
    one_zero,
)
from rheos.core.aggregates.frames import FrameState, MergedFrame
from rheos.core.aggregates.segments import Ints, Segments
from rheos.core.native.running import NativeCell, NativeOperation
from rheos.core.protocol.columns import plain_type


@dataclass(frozen=True)
class _Extreme(Agg, ABC):
    greatest: ClassVar[bool]

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        return self._comparable(schema)

    def windowed(self, schema: pa.Schema) -> OneRowState:
        assert self.column is not None
        name = f"{self.kind}.{self.column}"
        values, partials = given(self.column), pl.col(name)
        floating = pa.types.is_floating(self._type(schema))
        if self.greatest:
            # Polars' `max` ignores NaN.
            of_nan = NanColumn(self.column, values.nan_max(), partials.nan_max()) if floating else None
            part = Column(name, values.max(), partials.max(), ArrayLayout(values, np.maximum), of_nan)
        else:
            part = Column(name, values.min(), partials.min(), ArrayLayout(values, np.minimum))
        return OneRowState([part], one_zero(partials) if floating else partials)

    def running(self, schema: pa.Schema) -> RunningForm:
        kind = self._type(schema)
        storage = _number_storage(kind)
        if storage is None:
            return RunningForm(partial(AnyExtremeCell, kind, self.greatest), kind)
        return RunningForm(partial(ExtremeCell, kind, storage, self.greatest), kind)

    def frame(self, schema: pa.Schema) -> Callable[[], FrameState]:
        return GreatestFrame if self.greatest else LeastFrame

    @staticmethod
    def running_value(parts: Mapping[str, pa.Array], kind: pa.DataType) -> pa.Array:
        value = parts["best"]
        if value.type != kind and pa.types.is_temporal(kind):
            value = value.view(kind)
        seen = parts.get("seen")
        return value if seen is None else pc.if_else(seen, value, pa.scalar(None, value.type))


@dataclass(frozen=True)
class Min(_Extreme):
    kind: ClassVar[str] = "min"
    greatest: ClassVar[bool] = False


@dataclass(frozen=True)
class Max(_Extreme):
    kind: ClassVar[str] = "max"
    greatest: ClassVar[bool] = True


def min(column: str) -> Agg:
    """Return the smallest value, of the column's type. NaN is greater than all numbers.

    ```python
    windows.aggregate(lowest=rh.agg.min("price"))
    ```

    Args:
        column: The column.

    Returns:
        The aggregate.
    """
    return Min(column)


def max(column: str) -> Agg:
    """Return the largest value, of the column's type. NaN is greater than all numbers.

    ```python
    windows.aggregate(highest=rh.agg.max("price"))
    ```

    Args:
        column: The column.

    Returns:
        The aggregate.
    """
    return Max(column)


def _number_storage(kind: pa.DataType) -> pa.DataType | None:
    """Return the number type that stores values of a type in their order; None if there is no such
    type."""
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return pa.int64()
    return kind if pa.types.is_integer(kind) or pa.types.is_floating(kind) else None


class ExtremeCell(Cell):
    """The smallest or largest number or time. NaN is the largest number."""

    def __init__(self, kind: pa.DataType, storage: pa.DataType, greatest: bool) -> None:
        self._kind = kind
        self.storage = storage
        self._greatest = greatest
        dtype = np.dtype(storage.to_pandas_dtype())
        self._fill: Any
        self._ufunc: np.ufunc
        if dtype.kind == "f":
            self._fill = -np.inf if greatest else np.nan
            self._ufunc = np.maximum if greatest else np.fmin
        else:
            limits = np.iinfo(dtype)
            self._fill = limits.min if greatest else limits.max
            self._ufunc = np.maximum if greatest else np.minimum
        self._best = SlotArray(dtype, self._fill)
        self._seen = SeenKeys()
        self.parts = {"best": self._best, "seen": self._seen}

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        assert column is not None
        unseen = self._seen.run(rows, column)
        values = rows.gather(numbers(column.view(self.storage), self._fill))
        best = rows.accumulate(self._ufunc, values, self._best.values[rows.slots])
        self._best.values[rows.slots] = best[rows.ends]
        return placed(rows, best, unseen).view(self._kind)

    def native(self) -> NativeCell | None:
        best = self._best.values
        if not pa.types.is_integer(self._kind) or best.itemsize < 4:
            return None
        of = NativeOperation.GREATEST if self._greatest else NativeOperation.LEAST
        return NativeCell(of, total=best, seen=self._seen.values)

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        self._seen.thaw(slots, parts["seen"])
        # In a wider type, the placeholder for a missing value is another number.
        seen = parts["seen"].to_numpy(zero_copy_only=False)
        best = parts["best"].to_numpy().astype(self._best.values.dtype)
        self._best.values[slots] = np.where(seen, best, self._fill)


class AnyExtremeCell(Cell):
    """The smallest or largest value of any type that Arrow can rank: strings, decimals, booleans.

    A batch's values are ranked with the keys' earlier values. The ranks are aggregated like numbers.
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
        # Nulls rank last, so the lowest rank is the best value. It is null only if all values are null.
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

    def freeze(self, at: At) -> dict[str, Frozen]:
        if isinstance(at, slice):
            values = self._best[at]
        else:
            values = [self._best[slot] for slot in at.tolist()]
        return {"best": lambda: pa.array(values, self._plain)}

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        for slot, value in zip(slots.tolist(), parts["best"].to_pylist(), strict=True):
            self._best[slot] = value


class LeastFrame(MergedFrame):
    """The smallest value in a frame. NaN is greater than all numbers."""

    def merge(self, older: Any, newer: Any) -> Any:
        return newer if newer < older or older != older else older


class GreatestFrame(MergedFrame):
    """The largest value in a frame. NaN is greater than all numbers."""

    def merge(self, older: Any, newer: Any) -> Any:
        return newer if newer > older or newer != newer else older
