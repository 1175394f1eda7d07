"""Splits that follow others: none is opened before those are read, in whichever subtask, even if
processes die. The simulated runtime checks CP48 at each split that is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.checkpoint.events import SendToAll
from rheos.core.checkpoint.read_splits import ReadSplits
from rheos.core.connectors.contract import EndOfSplit, Polled, ReaderContext, Source, Split, SplitReader
from rheos.core.protocol.control import SplitsEnded, SplitsRead
from rheos.core.protocol.ids import Attempt, OperatorId
from rheos.testing import Faults, simulate

SCHEMA = pa.schema([("split", pa.string()), pa.field("n", pa.int64(), nullable=False)])
ROWS = 6
AFTER = {
    "a": (),
    "b": (),
    "a1": ("a",),
    "a2": ("a",),
    "c": (),
    "a2b": ("a2", "b"),
    "d": ("unknown",),
    "a2bc": ("a2b", "c"),
    "later": ("a2bc",),
}
"""Splits, and those that each follows: a shard is divided, and two are merged."""


@dataclass(frozen=True)
class Lineage(Source):
    """Source of these splits. The last one is discovered at run time."""

    listings: list[None] = field(default_factory=list, compare=False)
    schema: pa.Schema = SCHEMA
    bounded: bool = False
    discovery_ms: int | None = 100
    orders_splits: bool = True

    def endless(self, split: Split) -> bool:
        return False

    def read_after(self, split: Split) -> Sequence[str]:
        return AFTER[split.id]

    def splits(self) -> Sequence[Split]:
        return [Split(name) for name in AFTER if name != "later"]

    def discover(self) -> Sequence[Split]:
        self.listings.append(None)
        return [Split(name) for name in AFTER] if len(self.listings) > 1 else self.splits()

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return _Reader(split.id, int(position or 0))


class _Reader(SplitReader):
    def __init__(self, name: str, row: int) -> None:
        self.name, self.row = name, row

    def poll(self, max_rows: int) -> Polled:
        if self.row == ROWS:
            return EndOfSplit()
        self.row += 1
        return pa.RecordBatch.from_pydict({"split": [self.name], "n": [self.row]}, schema=SCHEMA)

    def position(self) -> bytes:
        return b"%d" % self.row


@pytest.mark.parametrize(("seed", "parallelism"), [(1, 1), (2, 2), (3, 3)])
def test_a_split_waits_for_those_that_it_follows(seed: int, parallelism: int) -> None:
    def build(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        return {"rows": env.from_source(Lineage())}

    done = simulate(
        build,
        seed=seed,
        faults=Faults(crash_slot=4.0),
        parallelism=parallelism,
        until_read=lambda splits, _: splits >= len(AFTER),
    )
    found = [(row["split"], row["n"]) for row in done.rows["rows"].to_pylist()]
    assert sorted(found) == sorted((name, n) for name in AFTER for n in range(1, ROWS + 1))
    if parallelism == 1:
        for name, after in AFTER.items():
            known = [each for each in after if each in AFTER]
            assert all(found.index((name, 1)) > found.index((each, ROWS)) for each in known)


def test_read_splits_are_announced_once_all_subtasks_have_reported() -> None:
    source, other = OperatorId("source"), OperatorId("other")
    splits = ReadSplits()
    splits.begin(Attempt(3), 2)

    def reported(subtask: int, *read: str, operator: OperatorId = source) -> list[list[str]]:
        event = SplitsRead(attempt=Attempt(3), subtask=subtask, operator=operator, splits=[*read])
        sent: list[list[str]] = []
        for action in splits.reported(event):
            assert isinstance(action, SendToAll)
            assert isinstance(action.message, SplitsEnded)
            assert action.message.operator == operator
            sent.append(action.message.splits)
        return sent

    assert reported(0, "a") == reported(0, "b") == reported(1, operator=other) == []
    assert reported(1) == [["a", "b"]]
    assert reported(1, "c") == [["c"]]
    many = [f"s{n}" for n in range(1200)]
    assert [name for sent in reported(0, *many) for name in sent] == many
    assert max(map(len, reported(0, *many))) == 500
    splits.begin(Attempt(3), 1)
    assert reported(0) == []
