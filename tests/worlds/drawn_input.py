"""The input of a random world: generated rows out of order, with many keys or few, some splits of
which pause; and the same rows for the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rheos.connectors.generator import Block, GeneratorSource, generator
from rheos.connectors.source_wrapper import WrappedReader
from rheos.core.connectors.contract import Pending, Polled, ReaderContext, Source, Split, SplitReader
from rheos.core.graph.watermark import Watermark
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.protocol.ports import Clock
from tests.worlds.programs import Arrived

_START_MS = 1_700_000_000_000


def _row(position: bytes | None) -> int:
    return 0 if position is None else msgspec.msgpack.decode(position, type=int)


@dataclass(frozen=True)
class PausingSource(Source):
    """Generator some of whose splits pause for a while, and then emit all due rows."""

    source: GeneratorSource
    pause_ms: int

    @property
    def schema(self) -> pa.Schema:
        return self.source.schema

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        return True

    def splits(self) -> Sequence[Split]:
        return self.source.splits()

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        reader = self.source.open(split, position, ctx)
        if int(split.id) % 2 == 0:
            return reader
        return _PausingReader(reader, self.pause_ms * 1000, ctx.clock)


class _PausingReader(WrappedReader):
    """Reader that pauses after its first rows, once per attempt."""

    def __init__(self, reader: SplitReader, pause_us: int, clock: Clock) -> None:
        super().__init__(reader)
        self._pause_us = pause_us
        self._clock = clock
        self._given = False
        self._until_us: int | None = None

    def poll(self, max_rows: int) -> Polled:
        if self._given:
            now_us = self._clock.monotonic_us()
            if self._until_us is None:
                self._until_us = now_us + self._pause_us
            if now_us < self._until_us:
                return Pending(self._until_us - now_us)
        polled = self._reader.poll(max_rows)
        self._given |= isinstance(polled, pa.RecordBatch)
        return polled


@dataclass(frozen=True)
class PhasedSource(Source):
    """Source whose later splits are opened when the earlier ones are read."""

    source: Source
    phases: int

    @property
    def schema(self) -> pa.Schema:
        return self.source.schema

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        return True

    def splits(self) -> Sequence[Split]:
        splits = self.source.splits()
        return [
            msgspec.structs.replace(split, phase=number * self.phases // len(splits))
            for number, split in enumerate(splits)
        ]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return self.source.open(split, position, ctx)


@dataclass(frozen=True)
class AppearingSource(Source):
    """Source whose splits appear over time: each listing has some more, in any order, and lacks some
    earlier ones. Some listings fail."""

    source: Source
    seed: int
    listings: list[int] = field(default_factory=list, compare=False)
    """Those that were made, also for drivers that are no more."""
    discovery_ms: int | None = 40

    @property
    def schema(self) -> pa.Schema:
        return self.source.schema

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        return False

    def endless(self, split: Split) -> bool:
        return False

    def splits(self) -> Sequence[Split]:
        return self._there(0)

    def discover(self) -> Sequence[Split]:
        number = len(self.listings) + 1
        self.listings.append(number)
        if number % 3 == self.seed % 3:
            raise OSError("the input is away")
        there = self._there(number)
        rng = Random(f"{self.seed}/{number}")
        return rng.sample(there, rng.randrange(len(there) // 2, len(there) + 1))

    def _there(self, listings: int) -> list[Split]:
        splits = list(self.source.splits())
        Random(self.seed).shuffle(splits)
        return splits[: self.seed % 3 + listings // 2]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return self.source.open(split, position, ctx)


@dataclass(frozen=True)
class DrawnInput:
    """One source. `jitter_ms` is how far its rows are out of order. `bound_ms` is the bound of the
    watermark: rows are late if the first is larger."""

    splits: int
    rows: int
    rate_per_s: float
    block_rows: int
    keys: int
    hot_keys: int
    jitter_ms: int
    bound_ms: int
    first: int
    """The number of its first row."""
    seed: int

    pause_ms: int
    """How long some of its splits fall quiet, some rows after their beginning; 0 never."""
    idle_after_ms: int | None
    phases: int = 1
    """In how many steps its splits are read."""
    appears: bool = False
    """Whether its splits are found while the job runs."""
    max_drift_ms: int | None = None

    @property
    def assigned_after_source(self) -> bool:
        """Whether event time is assigned after the source, and not by it."""
        return self.seed % 4 == 0

    def watermark(self) -> Watermark:
        return Watermark.bounded_out_of_orderness(
            f"{self.bound_ms}ms",
            on="at",
            idle_after=None if self.idle_after_ms is None else f"{self.idle_after_ms}ms",
            max_drift=None if self.max_drift_ms is None else f"{self.max_drift_ms}ms",
        )

    def source(self) -> Source:
        made: Source = self._generator()
        if self.pause_ms:
            made = PausingSource(self._generator(), self.pause_ms)
        if self.appears:
            return AppearingSource(made, self.seed)
        return PhasedSource(made, self.phases) if self.phases > 1 else made

    def _generator(self) -> GeneratorSource:
        return generator(
            self.make,
            count=self.rows,
            rate_per_s=self.rate_per_s,
            splits=self.splits,
            block_rows=self.block_rows,
            seed=self.seed,
        )

    def make(self, block: Block) -> dict[str, Any]:
        order = block.index() * self.splits + block.split
        rng = block.rng()
        behind = rng.integers(0, self.jitter_ms + 1, block.rows)
        return {
            "k": self._keys(rng, order),
            "i": self.first + order,
            "v": rng.integers(1, 10, block.rows).astype(np.float64),
            "at": (_START_MS + order * 2 - behind).astype("datetime64[ms]"),
        }

    def _keys(self, rng: np.random.Generator, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return each key once at first, then few of them. So the first checkpoint is large, later
        ones are small, and a restore reads a chain of them."""
        hot = rng.integers(0, self.hot_keys, len(order))
        any_key = rng.integers(0, self.keys, len(order))
        later = np.where(rng.random(len(order)) < 0.7, hot, any_key)
        return np.where(order < self.keys, order, later)

    def arrived(self, positions: Mapping[str, bytes | None] | None = None) -> list[Arrived]:
        """Return the rows, each with the watermark of its split before it; with `positions`, only
        the rows before them."""
        source, rows = self._generator(), []
        for split in range(self.splits):
            start, watermark = 0, MIN_TIMESTAMP_MS
            end = self.rows if positions is None else _row(positions[source.splits()[split].id])
            while (block := source.block(split, start)).rows:
                made = self.make(block)
                columns = [made[name].tolist()[: max(end - start, 0)] for name in ("k", "i", "v")]
                times = made["at"].astype(np.int64).tolist()[: max(end - start, 0)]
                for k, i, v, at in zip(*columns, times, strict=True):
                    rows.append(Arrived(k, i, v, at, watermark))
                    watermark = max(watermark, at - self.bound_ms - 1)
                start += block.rows
        return rows
