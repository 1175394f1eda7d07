"""`first` and `last`: the value of the earliest or the latest row, by event time.

The order of arrival in a batch, a channel or a file is not part of the input. So of several values with
the same time, `first` is the smallest and `last` the largest.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import pyarrow as pa

from rheos.core.aggregates.contract import Agg, Column, OneRowState, given, one_zero
from rheos.core.protocol.elements import TS


@dataclass(frozen=True)
class _FirstOrLast(Agg, ABC):
    latest: ClassVar[bool]

    @property
    def columns(self) -> tuple[str, ...]:
        return (str(self.column), TS)

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        return self._comparable(schema)

    def windowed(self, schema: pa.Schema) -> OneRowState:
        assert self.column is not None
        at, name = f"{self.kind}_at.{self.column}", f"{self.kind}.{self.column}"
        value, stored = given(self.column), pl.col(name)
        known = pl.when(value.is_not_null()).then(given(TS))
        parts = [
            Column(at, self._extreme(known), self._extreme(pl.col(at))),
            Column(name, self._pick_value(value, given(TS)), self._pick_value(stored, pl.col(at))),
        ]
        floating = pa.types.is_floating(self._type(schema))
        return OneRowState(parts, one_zero(pl.col(name)) if floating else pl.col(name))

    def _pick_value(self, values: pl.Expr, times: pl.Expr) -> pl.Expr:
        # Sorting is many times faster than a filter per group.
        if self.latest:
            return values.sort_by(values.is_not_null(), times, values).last()
        return values.sort_by(values.is_null(), times, values).first()

    def _extreme(self, values: pl.Expr) -> pl.Expr:
        return values.max() if self.latest else values.min()


@dataclass(frozen=True)
class First(_FirstOrLast):
    kind: ClassVar[str] = "first"
    latest: ClassVar[bool] = False


@dataclass(frozen=True)
class Last(_FirstOrLast):
    kind: ClassVar[str] = "last"
    latest: ClassVar[bool] = True


def first(column: str) -> Agg:
    """Return the value with the earliest event time; of several, the smallest. Only for windows.

    ```python
    windows.aggregate(opened=rh.agg.first("price"))
    ```

    Args:
        column: The column.

    Returns:
        The aggregate.
    """
    return First(column)


def last(column: str) -> Agg:
    """Return the value with the latest event time; of several, the largest. Only for windows.

    ```python
    windows.aggregate(closed=rh.agg.last("price"))
    ```

    Args:
        column: The column.

    Returns:
        The aggregate.
    """
    return Last(column)
