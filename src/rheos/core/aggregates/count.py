"""`count`: the number of rows, or of values that are not null."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.aggregates.cells import Cell, SlotArray, valid, whole_numbers
from rheos.core.aggregates.contract import Agg, ArrayLayout, Column, OneRowState, RunningForm, given
from rheos.core.aggregates.frames import Columns, FrameState
from rheos.core.aggregates.segments import Ints, Segments
from rheos.core.native.running import NativeCell, NativeOperation


@dataclass(frozen=True)
class Count(Agg):
    kind: ClassVar[str] = "count"
    of_no_rows: ClassVar[Any] = 0

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        if self.column is not None:
            self._type(schema)
        return pa.int64()

    def windowed(self, schema: pa.Schema) -> OneRowState:
        if self.column is None:
            return OneRowState([ROWS], pl.col(ROWS.name))
        counts = count_column("count", self.column)
        return OneRowState([counts], pl.col(counts.name))

    def running(self, schema: pa.Schema) -> RunningForm:
        return RunningForm(CountCell, pa.int64())

    def frame(self, schema: pa.Schema) -> Callable[[], FrameState]:
        return partial(CountFrame, of_rows=self.column is None)

    @staticmethod
    def running_value(parts: Mapping[str, pa.Array], kind: pa.DataType) -> pa.Array:
        return parts["count"]


def count(column: str | None = None) -> Agg:
    """Return the number of rows, or of the non-null values of a column, as int64.

    ```python
    windows.aggregate(rows=rh.agg.count(), known=rh.agg.count("user"))
    ```

    Args:
        column: The column; None counts rows.

    Returns:
        The aggregate.
    """
    return Count(column)


ROWS = Column(
    "rows",
    pl.len().cast(pl.Int64),
    pl.col("rows").sum(),
    ArrayLayout(pl.lit(1, pl.Int64), np.add),
)
"""Number of rows, including those with nulls."""


def count_column(kind: str, column: str, kept_as: str | None = None) -> Column:
    """Return the column that counts non-null values, named after `kept_as` or the counted column."""
    name = f"{kind}.{kept_as or column}"
    value = given(column)
    return Column(
        name,
        value.count().cast(pl.Int64),
        pl.col(name).sum(),
        ArrayLayout(value.is_not_null().cast(pl.Int64), np.add),
    )


class CountCell(Cell):
    """The number of rows, or of non-null values."""

    def __init__(self) -> None:
        self._count = SlotArray(np.int64, 0)
        self.parts = {"count": self._count}

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        return pa.array(rows.scatter(self.sorted_counts(rows, column)))

    def run_few(self, slots: Sequence[int], column: pa.Array | None) -> pa.Array | None:
        if column is not None and column.null_count:
            return None
        return whole_numbers(self.counts_of_few(slots))

    def native(self) -> NativeCell:
        return NativeCell(NativeOperation.COUNT, counts=self._count.values)

    def counts_of_few(self, slots: Sequence[int]) -> list[int]:
        """Return the counts after each of a few rows, every one of which counts."""
        values, counts = self._count.values, []
        for slot in slots:
            count = values.item(slot) + 1
            values[slot] = count
            counts.append(count)
        return counts

    def sorted_counts(self, rows: Segments, column: pa.Array | None) -> Ints:
        carry = self._count.values[rows.slots]
        if column is None or column.null_count == 0:
            counts = rows.counts(carry)
        else:
            counts = rows.int_sums(rows.gather(valid(column)).astype(np.int64), carry)
        self._count.values[rows.slots] = counts[rows.ends]
        return counts


class CountFrame(FrameState):
    """The number of rows in a frame, or of non-null values."""

    def __init__(self, *, of_rows: bool = False) -> None:
        self._of_rows = of_rows
        self._count = 0

    def add(self, value: Any) -> None:
        self._count += self._of_rows or value is not None

    def remove(self, value: Any) -> None:
        self._count -= self._of_rows or value is not None

    def result(self) -> int:
        return self._count

    def stored(self) -> Columns:
        return [[self._count]]

    def restore(self, columns: Columns) -> None:
        [[self._count]] = columns
