"""Rows that matches have taken, as columns. They are found by number, and kept while matches need
them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rheos.core.protocol.elements import Batch
from rheos.core.state.numbered_rows import Numbers, taken


class MatchedRows:
    """Numbered rows of one operator. Numbers ascend over all calls of `add`, possibly with gaps."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._numbers: Numbers = np.zeros(0, np.int64)
        self._parts: list[tuple[int, Batch]] = []
        """Batches, each with the position of its first row."""

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, numbers: Numbers, rows: Batch) -> None:
        if not len(numbers):
            return
        self._parts.append((len(self._numbers), rows))
        self._numbers = np.concatenate([self._numbers, numbers])
        # Each batch is more than twice as long as the next, so there are few.
        while len(self._parts) > 1 and self._parts[-2][1].num_rows <= 2 * self._parts[-1][1].num_rows:
            (first, before), (_, last) = self._parts[-2:]
            self._parts[-2:] = [(first, pa.concat_batches([before, last]))]

    def take(self, numbers: Numbers, columns: Sequence[str]) -> Batch:
        """Return these columns of the rows with these numbers, in the given order."""
        if not len(numbers):
            return pa.RecordBatch.from_pylist([], self.schema).select(columns)
        return taken(self._parts, np.searchsorted(self._numbers, numbers), columns)

    def keep(self, numbers: Numbers) -> None:
        """Drop all rows except these, whose numbers are ascending."""
        rows = self.take(numbers, self.schema.names)
        self._numbers = numbers
        self._parts = [(0, rows)] if len(numbers) else []

    def frozen(self) -> MatchedRows:
        """Return a copy that does not change. The stored data never changes, so nothing is copied."""
        copy = MatchedRows(self.schema)
        copy._numbers, copy._parts = self._numbers, list(self._parts)
        return copy
