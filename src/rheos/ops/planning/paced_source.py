"""A source that emits the rows of another one at a limited rate."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import pyarrow as pa

from rheos.connectors.source_wrapper import WrappedReader, WrappedSource
from rheos.core.connectors.contract import Pending, Polled, ReaderContext, Split, SplitReader
from rheos.core.protocol.ports import Clock


@dataclass(frozen=True, eq=False)
class PacedSource(WrappedSource):
    """Emits at most `rate_per_s` rows per second of each split, from the split's first poll on."""

    rate_per_s: float

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return _PacedReader(self.source.open(split, position, ctx), self.rate_per_s, ctx.clock)


class _PacedReader(WrappedReader):
    def __init__(self, reader: SplitReader, rate_per_s: float, clock: Clock) -> None:
        super().__init__(reader)
        self._row_us = 1e6 / rate_per_s
        self._clock = clock
        self._next_us: float | None = None
        """Time, on the monotonic clock, at which the next row is due."""

    def poll(self, max_rows: int) -> Polled:
        now_us = self._clock.monotonic_us()
        if self._next_us is None:
            self._next_us = float(now_us)
        if now_us < self._next_us:
            return Pending(ceil(self._next_us - now_us))
        due = int((now_us - self._next_us) / self._row_us) + 1
        polled = self._reader.poll(min(max_rows, due))
        if isinstance(polled, pa.RecordBatch):
            self._next_us += polled.num_rows * self._row_us
        elif isinstance(polled, Pending):
            # Later rows do not make up for this wait.
            self._next_us = float(now_us)
        return polled
