"""`mean`: the sum by the count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.aggregates.cells import At, Cell, Frozen, floats, placed
from rheos.aggregates.contract import Agg, ExactSum, IntegerSum, Reduced, Running
from rheos.aggregates.count import CountCell
from rheos.aggregates.segments import Ints, Segments
from rheos.aggregates.sum import SumCell, summed_type


@dataclass(frozen=True)
class Mean(Agg):
    kind: ClassVar[str] = "mean"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        self._number(schema)
        return pa.float64()

    def windowed(self, schema: pa.Schema) -> Reduced:
        assert self.column is not None
        kind = self._type(schema)
        # The mean of 64-bit integers may be of values whose sum is beyond int64.
        wide = pa.types.is_integer(kind) and kind.bit_width == 64
        exact = wide or pa.types.is_floating(kind)
        part = ExactSum(self.column) if exact else IntegerSum(self.column)
        return Reduced([part], pl.when(part.count > 0).then(part.total.cast(pl.Float64) / part.count))

    def running(self, schema: pa.Schema) -> Running:
        stored = summed_type(self._type(schema))
        return Running(partial(MeanCell, stored), stored)

    @staticmethod
    def running_type(stored: pa.DataType) -> pa.DataType:
        return pa.float64()

    @staticmethod
    def running_value(parts: Mapping[str, pa.Array], kind: pa.DataType) -> pa.Array:
        count = parts["count"]
        some = pc.if_else(pc.greater(count, 0), count, pa.scalar(None, count.type))
        return pc.divide(parts["sum"].cast(pa.float64(), safe=False), some.cast(pa.float64()))


def mean(column: str) -> Agg:
    """The arithmetic mean: float64. Running over integers, their sum must fit 64 bits."""
    return Mean(column)


class MeanCell(Cell):
    """The sum by the count."""

    def __init__(self, kind: pa.DataType) -> None:
        """`kind` is the type of the sum: float64 or int64."""
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
        return placed(rows, means, unseen if unseen.any() else None)

    def run_few(self, slots: Sequence[int], column: pa.Array | None) -> pa.Array | None:
        assert column is not None
        if column.null_count:
            return None
        sums = self._sum.sums_of_few(slots, column)
        counts = self._count.counts_of_few(slots)
        return floats([float(sum) / count for sum, count in zip(sums, counts, strict=True)])

    def freeze(self, at: At) -> dict[str, Frozen]:
        return self._sum.freeze(at) | self._count.freeze(at)

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        self._sum.thaw(slots, parts)
        self._count.thaw(slots, parts)
