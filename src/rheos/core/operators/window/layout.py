"""Layouts for writing the rows of a store to a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from rheos.core.operators.window.frames import keyed_table
from rheos.core.operators.window.panes import PanePart, PaneStore


@dataclass(frozen=True)
class PaneLayout:
    """Layout for writing the rows of a store."""

    state: str
    store: PaneStore
    merge: Callable[[Sequence[pl.DataFrame]], pl.DataFrame]
    """Function that merges several frames into one, in the form to be written."""
    order: Sequence[str] = ()
    """Columns by which rows of the same key and pane are sorted."""
    measures: bool = True
    """Whether the number of these rows determines the size of the store."""

    def write(
        self, part: PanePart, keys: Sequence[str], max_parallelism: int, *, in_order: bool = True
    ) -> pa.Table | Iterator[pa.Table]:
        """Return the rows sorted by key group and, if `in_order`, within a group by key and pane."""
        by = [*self.store.pane, *self.order] if in_order else None
        tables = (
            keyed_table(self.merge(frames), keys, by, max_parallelism) for frames in part.pieces()
        )
        return self._measured(part, tables) if part.is_large else next(self._measured(part, tables))

    def _measured(self, part: PanePart, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        rows = 0
        for table in tables:
            rows += table.num_rows
            if self.measures:
                part.size.rows = rows
            yield table
