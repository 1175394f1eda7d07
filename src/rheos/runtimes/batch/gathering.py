"""Batches that wait until they are enough to work on: few large ones are less work than many small."""

from __future__ import annotations

from rheos.core.protocol.elements import Batch
from rheos.core.protocol.state_config import MIB

ROWS_AT_ONCE = 1 << 19
_BYTES_AT_ONCE = 32 * MIB


class BatchBuffer:
    """Concatenates batches up to a number of rows or bytes."""

    def __init__(self, rows_at_once: int = ROWS_AT_ONCE, bytes_at_once: int = _BYTES_AT_ONCE) -> None:
        self._rows_at_once = rows_at_once
        self._bytes_at_once = bytes_at_once
        self._batches: list[Batch] = []
        self._rows = self._size_bytes = 0

    def add(self, batch: Batch) -> bool:
        """Whether they are enough."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._size_bytes += batch.nbytes
        return self._rows >= self._rows_at_once or self._size_bytes >= self._bytes_at_once

    def __bool__(self) -> bool:
        return bool(self._batches)

    def take(self) -> list[Batch]:
        taken, self._batches = self._batches, []
        self._rows = self._size_bytes = 0
        return taken
