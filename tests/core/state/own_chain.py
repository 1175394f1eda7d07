"""A restored chain of parts that its subtask may continue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from rheos.core.protocol.snapshots import RestoredState, WrittenChain


class OwnChain(RestoredState):
    """A chain that the restored subtask has written, and may continue."""

    def __init__(self, tables: Sequence[pa.Table], *, as_declared: bool = True) -> None:
        self.as_declared = as_declared
        self._tables = list(tables)
        full, *deltas = [table.num_rows for table in tables]
        self.chain = WrittenChain(full, sum(deltas), sum(map(bool, deltas)))

    def __iter__(self) -> Iterator[pa.Table]:
        return iter(self._tables)
