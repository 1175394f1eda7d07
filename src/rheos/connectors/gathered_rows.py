"""Delivery that gathers rows of small batches before it writes them."""

from __future__ import annotations

from abc import abstractmethod

import pyarrow as pa

from rheos.connectors.spilling import TargetDelivery
from rheos.core.protocol.elements import Batch

_TOGETHER_ROWS = 1024
_TOGETHER_BYTES = 4 << 20


class GatheringDelivery(TargetDelivery):
    """Delivers about a thousand rows at a time."""

    def __init__(self) -> None:
        self._gathered: list[Batch] = []
        self._rows = 0
        self._size_bytes = 0

    @abstractmethod
    def deliver(self, rows: Batch) -> None:
        """Write rows, and wait until the target has confirmed them. Raises UnavailableError once the
        retry budget is spent."""

    def write(self, batch: Batch) -> None:
        for begin in range(0, batch.num_rows, _TOGETHER_ROWS):
            rows = batch.slice(begin, _TOGETHER_ROWS)
            self._gathered.append(rows)
            self._rows += rows.num_rows
            self._size_bytes += rows.nbytes
            if self._rows >= _TOGETHER_ROWS or self._size_bytes >= _TOGETHER_BYTES:
                self.settle()

    def settle(self) -> None:
        if not self._gathered:
            return
        rows = pa.concat_batches(self._gathered)
        self._gathered, self._rows, self._size_bytes = [], 0, 0
        self.deliver(rows)
        self.settled_rows += rows.num_rows
