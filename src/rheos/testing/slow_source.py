"""A slow source, so that faults can occur while its input is read."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pyarrow as pa

from rheos.connectors.source_wrapper import WrappedReader, WrappedSource
from rheos.core.connectors.contract import Pending, Polled, ReaderContext, Split, SplitReader
from rheos.core.protocol.ports import Clock

_FIRST_US = 1_000_000
_SOONER_BY = 10


@dataclass(frozen=True, eq=False)
class SlowSource(WrappedSource):
    """A source that emits few rows at a time, with pauses.

    A hundred rows take about half a second of virtual time, a hundred thousand about two seconds. Each
    attempt reads rows at other times.
    """

    seed: int = 0

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        # A file's folder may be another in each run.
        name = split.id.rpartition("/")[-1]
        rng = Random(f"{self.seed}/{name}/{position!r}")
        return _SlowReader(self.source.open(split, position, ctx), rng, ctx.clock)


class _SlowReader(WrappedReader):
    def __init__(self, reader: SplitReader, rng: Random, clock: Clock) -> None:
        super().__init__(reader)
        self._rng = rng
        self._clock = clock
        self._polls = 0
        self._next_us: int | None = None
        """Time before which no row is available."""

    def poll(self, max_rows: int) -> Polled:
        now_us = self._clock.monotonic_us()
        if self._next_us is not None and now_us < self._next_us:
            return Pending(self._next_us - now_us)
        polled = self._reader.poll(min(max_rows, self._rng.randrange(1, 2 + self._polls)))
        if isinstance(polled, pa.RecordBatch):
            self._polls += 1
            wait_us = self._rng.randrange(_FIRST_US // (_SOONER_BY + self._polls))
            self._next_us = now_us + wait_us
        return polled
