"""`sum`: exact in windows, one row after the other where it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.aggregates.cells import (
    At,
    Cell,
    Frozen,
    SeenKeys,
    SlotArray,
    floats,
    numbers,
    placed,
    whole_numbers,
)
from rheos.aggregates.contract import Agg, ExactSum, IntegerSum, Reduced, Running
from rheos.aggregates.integer_sum import check_one, check_running
from rheos.aggregates.segments import Ints, Numbers, Segments


@dataclass(frozen=True)
class Sum(Agg):
    kind: ClassVar[str] = "sum"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        return summed_type(self._number(schema))

    def windowed(self, schema: pa.Schema) -> Reduced:
        assert self.column is not None
        floating = pa.types.is_floating(self._type(schema))
        part = ExactSum(self.column) if floating else IntegerSum(self.column)
        return Reduced([part], pl.when(part.count > 0).then(part.total))

    def running(self, schema: pa.Schema) -> Running:
        stored = summed_type(self._type(schema))
        return Running(partial(SumCell, stored), stored)

    @staticmethod
    def running_value(parts: Mapping[str, pa.Array], kind: pa.DataType) -> pa.Array:
        return pc.if_else(parts["seen"], parts["sum"], pa.scalar(None, parts["sum"].type))


def sum(column: str) -> Agg:
    """The sum: float64 for floats, in windows whatever the order of the rows, and int64 otherwise. An
    integer sum beyond 64 bits ends the job with an InputError."""
    return Sum(column)


def summed_type(kind: pa.DataType) -> pa.DataType:
    """The type of running sums of values of a type."""
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()


class SumCell(Cell):
    """The sum: floats one after the other."""

    def __init__(self, kind: pa.DataType) -> None:
        """`kind` is float64 or int64."""
        self._dtype: Any = kind.to_pandas_dtype()
        self._sum = SlotArray(self._dtype, 0)
        self._seen = SeenKeys()

    def grow(self, slots: int) -> None:
        self._sum.grow(slots)
        self._seen.grow(slots)

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        assert column is not None
        unseen = self._seen.run(rows, column)
        return placed(rows, self.sorted_sums(rows, column), unseen)

    def run_few(self, slots: Sequence[int], column: pa.Array | None) -> pa.Array | None:
        assert column is not None
        if column.null_count:
            return None
        self._seen.add_few(slots)
        sums = self.sums_of_few(slots, column)
        return floats(sums) if self._dtype is np.float64 else whole_numbers(sums)

    def sums_of_few(self, slots: Sequence[int], column: pa.Array) -> list[Any]:
        """The sums after each of a few rows without nulls. Raises SumTooLarge."""
        totals, sums = self._sum.values, []
        whole = self._dtype is not np.float64
        for row, (slot, value) in enumerate(zip(slots, numbers(column, 0).tolist(), strict=True)):
            total = totals.item(slot) + value
            if whole:
                check_one(row, value, total)
            totals[slot] = total
            sums.append(total)
        return sums

    def sorted_sums(self, rows: Segments, column: pa.Array) -> Numbers:
        """Raises SumTooLarge."""
        given = rows.gather(numbers(column, 0))
        values: Numbers = given.astype(self._dtype, copy=False)
        carry = self._sum.values[rows.slots]
        sums: Numbers
        if self._dtype is np.float64:
            sums = rows.float_sums(values, carry)
        else:
            sums = rows.int_sums(values, carry)
            check_running(rows, given, carry, sums)
        self._sum.values[rows.slots] = sums[rows.ends]
        return sums

    def freeze(self, at: At) -> dict[str, Frozen]:
        return {"sum": self._sum.freeze(at), "seen": self._seen.freeze(at)}

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        self._sum.values[slots] = parts["sum"].to_numpy()
        self._seen.thaw(slots, parts["seen"])
