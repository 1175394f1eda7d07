"""`top_k`: the largest values, or the rows with the largest values, the largest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import pyarrow as pa

from rheos.core.aggregates.contract import Agg, RowLimit, RowsState
from rheos.core.errors import ProgramError
from rheos.core.protocol.elements import TS


@dataclass(frozen=True)
class TopK(Agg):
    """The top k rows. The state keeps at most k rows of each key and pane."""

    kind: ClassVar[str] = "top_k"

    k: int = 1
    of: tuple[str, ...] | None = None
    """Columns of the returned rows; None: return the values alone."""
    smallest: bool = False

    def __str__(self) -> str:
        of = "" if self.of is None else f", of {', '.join(self.of)}"
        return f"{self.kind}({self.column}, {self.k}{of}{', smallest' if self.smallest else ''})"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((str(self.column), *(self.of or ()), TS)))

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        kind = self._comparable(schema)
        if self.of is None:
            return pa.list_(kind)
        return pa.list_(pa.struct([schema.field(name) for name in self.of]))

    def windowed(self, schema: pa.Schema) -> RowsState:
        assert self.column is not None
        row = pl.col(self.column) if self.of is None else pl.struct(self.of)
        known = row.filter(pl.col(self.column).is_not_null())
        return RowsState(self.columns, known.implode(), RowLimit(self.column, self.k, self.smallest))


def top_k(column: str, k: int, *, of: str | Sequence[str] | None = None, smallest: bool = False) -> Agg:
    """Return the largest or smallest values of a column as a list. Only for windows.

    Of rows with equal values, the earliest are chosen; of rows at the same time, those with the
    smallest columns. Nulls are ignored.

    ```python
    windows.aggregate(top=rh.agg.top_k("price", 3, of=["item", "price"]))
    ```

    Args:
        column: The column to compare.
        k: Maximum number of values.
        of: The columns of each element, which is then a struct; by default `column` alone.
        smallest: Whether to choose the smallest values instead of the largest.

    Returns:
        The aggregate.

    Raises:
        ProgramError: `k` is not a whole number of at least 1.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ProgramError(f"k of top_k() must be an integer of at least 1, not {k!r}")
    named = (of,) if isinstance(of, str) else of
    return TopK(column, k, None if named is None else tuple(named), smallest)
