"""Event-time progress of a subtask's key groups before its restart.

Every snapshot stores, for each group, the watermark up to which its rows were processed. So snapshot
parts with arrived rows need not be rewritten when rows leave. The key groups of one restored subtask
may have different progress (EX15).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, TS, Batch
from rheos.core.state.key_groups import key_groups
from rheos.core.state.parts import GROUP

WATERMARK = "watermark"
"""Column of a stored watermark."""

Times = npt.NDArray[np.int64]


class GroupProgress:
    """Watermark that each key group had reached in the previous attempt."""

    def __init__(self, groups: range, max_parallelism: int) -> None:
        self._groups = np.array(groups, np.uint16)
        self._max_parallelism = max_parallelism
        self._reached = np.full(max_parallelism, MIN_TIMESTAMP_MS, np.int64)

    def reached(self, rows: Batch, keys: Sequence[str], watermark_ms: int) -> int | Times:
        """Return the progress of each row's group, if the operator is at `watermark_ms`."""
        if watermark_ms >= int(self._reached.max()):
            return watermark_ms
        groups = key_groups(rows, keys, self._max_parallelism)
        return np.maximum(self._reached[groups], watermark_ms)

    def passed(self, rows: Batch, keys: Sequence[str], watermark_ms: int) -> npt.NDArray[np.bool_]:
        """Return which rows are late, if the operator is at `watermark_ms`."""
        passed: npt.NDArray[np.bool_] = rows.column(TS).to_numpy() <= self.reached(
            rows, keys, watermark_ms
        )
        return passed

    def of_stored(self, table: pa.Table) -> Times:
        """Return the progress of the groups of stored rows."""
        reached: Times = self._reached[table.column(GROUP).to_numpy()]
        return reached

    def table(self, watermark_ms: int) -> pa.Table:
        """Return the table to store in a snapshot at which the operator is at `watermark_ms`."""
        reached = np.maximum(self._reached[self._groups], watermark_ms)
        return pa.table({GROUP: self._groups, WATERMARK: reached})

    def restore(self, tables: Iterable[pa.Table]) -> None:
        for table in tables:
            groups = table.column(GROUP).to_numpy()
            self._reached[groups] = table.column(WATERMARK).to_numpy()
