"""A folder that is tidied while a job reads it: splits are discovered, read, deleted once a
checkpoint covers them, and forgotten. None is lost or read twice, even if processes die."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.contract import (
    EndOfSplit,
    Polled,
    ReaderContext,
    Source,
    SourceClient,
    Split,
    SplitReader,
)
from rheos.core.protocol.ids import OperatorId
from rheos.testing import Faults, simulate

SPLITS, ROWS = 24, 5
SCHEMA = pa.schema([("row", pa.int64())])


@dataclass(frozen=True)
class Tidied(Source):
    """Source with two more splits in each listing, each made 10 ms after the one before it. Splits
    that a completed checkpoint has read to their end are deleted."""

    taken_away: set[str] = field(default_factory=set, compare=False)
    listings: list[None] = field(default_factory=list, compare=False)
    schema: pa.Schema = SCHEMA
    bounded: bool = False
    discovery_ms: int | None = 20
    forget_ms: int | None = 35

    def endless(self, split: Split) -> bool:
        return False

    def made_ms(self, split: Split) -> int:
        return int(split.id) * 10

    def splits(self) -> Sequence[Split]:
        there = range(min(2 + 2 * len(self.listings), SPLITS))
        return [Split(f"{number:02}") for number in there if f"{number:02}" not in self.taken_away]

    def discover(self) -> Sequence[Split]:
        self.listings.append(None)
        return self.splits()

    def client(self, ctx: ReaderContext) -> SourceClient:
        return _Tidier(self.taken_away)

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return _Reader(int(split.id), int(position or 0))

    def is_read(self, _splits: int, _now_ms: int) -> bool:
        return len(self.taken_away) == SPLITS


class _Tidier(SourceClient):
    def __init__(self, taken_away: set[str]) -> None:
        self._taken_away = taken_away

    def completed(self, positions: Mapping[str, bytes]) -> None:
        self._taken_away.update(name for name, row in positions.items() if int(row) == ROWS)

    def close(self) -> None:
        pass


class _Reader(SplitReader):
    def __init__(self, number: int, row: int) -> None:
        self._number, self._row = number, row

    def poll(self, max_rows: int) -> Polled:
        if self._row == ROWS:
            return EndOfSplit()
        self._row += 1
        return pa.RecordBatch.from_pydict({"row": [self._number * ROWS + self._row - 1]}, schema=SCHEMA)

    def position(self) -> bytes:
        return b"%d" % self._row


@pytest.mark.parametrize("seed", range(6))
def test_deleted_splits_are_forgotten_and_read_once(seed: int) -> None:
    source = Tidied()

    def build(env: rh.Environment) -> rh.DataStream:
        return env.from_source(source, uid="folder")

    done = simulate(
        build,
        seed=seed,
        parallelism=3,
        parallelisms=(3, 2),
        faults=Faults(crash_slot=4.0, crash_driver=2.0, zombie=0.5, store_slow=1.0, until_us=600_000),
        until_read=source.is_read,
    )
    assert sorted(done.out["row"].to_pylist()) == list(range(SPLITS * ROWS))
    known = done.positions[OperatorId("folder")]
    assert len(known) < SPLITS
