"""`collect`: the values as a list, in the order of event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa

from rheos.core.aggregates.contract import Agg, RowsState
from rheos.core.protocol.elements import TS


@dataclass(frozen=True)
class Collect(Agg):
    """Keeps every value of its column. The rows are state of the window: they count as memory, and
    spill to disk if there are too many."""

    kind: ClassVar[str] = "collect"
    of_no_rows: ClassVar[Any] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return (str(self.column), TS)

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        return pa.list_(self._type(schema))

    def windowed(self, schema: pa.Schema) -> RowsState:
        return RowsState(self.columns, pl.col(str(self.column)).drop_nulls().implode())


def collect(column: str) -> Agg:
    """Return the non-null values as a list: in windows in order of event time and then of value, in
    tables in the order of their arrival.

    ```python
    windows.aggregate(pages=rh.agg.collect("page"))
    ```

    Args:
        column: The column.

    Returns:
        The aggregate.
    """
    return Collect(column)
