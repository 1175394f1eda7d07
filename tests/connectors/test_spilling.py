"""Sinks that deliver immediately, while their target is up or down: no row is lost, and no row of a key
is overwritten by an older one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors import spilling
from rheos.connectors.spilling import Count, SpillingSink, TargetDelivery, decode_spilled
from rheos.core.connectors.contract import Committer, SinkContext, SinkWriter
from rheos.core.errors import InputError, UnavailableError, UnrestorableError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.testing import Faults, simulate
from tests.connectors.ports import sink_context

SCHEMA = pa.schema({"key": pa.int64(), "n": pa.int64()})
JOB = JobId("job")


@dataclass
class Store:
    """Content of the target of a world."""

    rng: Random = field(default_factory=Random)
    up: bool = True
    fails: float = 0.0
    values: dict[int, int] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)

    def take(self, rows: Batch) -> None:
        """Accept all rows, or accept the first ones and fail."""
        for row in rows.to_pylist():
            self.check()
            self.values[row["key"]] = row["n"]
            self.taken.add(row["n"])

    def check(self) -> None:
        if not self.up or self.rng.random() < self.fails:
            raise UnavailableError("the store is away")


STORES: dict[str, Store] = {}
"""By name: sinks are sent, and stores are not."""


@dataclass(frozen=True)
class StoreSink(SpillingSink):
    in_process: ClassVar[bool] = True
    store: str

    def delivery(self, schema: pa.Schema, count: Count, patience_ms: int) -> TargetDelivery:
        return StoreDelivery(STORES[self.store])


class StoreDelivery(TargetDelivery):
    """Delivery with one batch in flight, like that of Redis."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sent: Batch | None = None

    def write(self, batch: Batch) -> None:
        self.settle()
        self._sent = batch

    def settle(self) -> None:
        if self._sent is not None:
            self._store.take(self._sent)
            self.settled_rows += self._sent.num_rows
            self._sent = None

    def close(self) -> None:
        pass


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    STORES["store"] = Store()
    yield STORES["store"]
    del STORES["store"]


def opened(sink: SpillingSink, attempt: int = 1) -> SinkWriter:
    given: Any = sink_context(SCHEMA)
    assert isinstance(given, SinkContext)
    given.attempt = Attempt(attempt)
    return sink.open(given)


def own_committer(writer: SinkWriter) -> Committer:
    committer = writer.committer()
    assert committer is not None
    return committer


def rows(numbers: range) -> Batch:
    return pa.RecordBatch.from_pylist([{"key": n % 3, "n": n} for n in numbers], SCHEMA)


def test_rows_are_staged_during_an_outage_and_then_delivered_directly(
    store: Store, tmp_path: Path
) -> None:
    sink = StoreSink(0, "store").staged(str(tmp_path))
    writer = opened(sink)
    committer = own_committer(writer)
    writer.write(rows(range(3)))
    assert writer.prepare(CheckpointId(1)) == []
    store.up = False
    writer.write(rows(range(3, 6)))  # On its way.
    writer.write(rows(range(6, 9)))
    writer.write(rows(range(9, 10)))
    [second] = writer.prepare(CheckpointId(2))
    assert decode_spilled(second).file.rows == 7
    with pytest.raises(UnavailableError):
        committer.commit([second])
    store.up = True
    writer.write(rows(range(10, 12)))
    assert store.taken == set(range(3))  # Nothing overtakes what is staged.
    [third] = writer.prepare(CheckpointId(3))
    committer.commit([second, third])
    assert store.taken == set(range(12))
    writer.write(rows(range(12, 14)))
    assert store.taken == set(range(12))
    assert writer.prepare(CheckpointId(4)) == []  # Delivered: nothing older waits.
    assert store.taken == set(range(14))
    writer.write(rows(range(14, 16)))
    writer.write(rows(range(16, 17)))
    assert store.taken == set(range(16))
    committer.commit([second, third])  # Again: they change nothing.
    assert store.values == {0: 15, 1: 13, 2: 14}
    writer.close()


def test_a_sink_without_a_folder_fails_and_a_bad_row_is_no_outage(store: Store, tmp_path: Path) -> None:
    store.up = False
    writer = opened(StoreSink(0, "store"))
    writer.write(rows(range(1)))
    with pytest.raises(UnavailableError):
        writer.prepare(CheckpointId(1))

    def refuse(batch: Batch) -> None:
        raise InputError("a row is bad")

    store.take = refuse  # type: ignore[method-assign]
    writer = opened(StoreSink(0, "store").staged(str(tmp_path)))
    writer.write(rows(range(1)))
    with pytest.raises(InputError):
        writer.prepare(CheckpointId(1))


def test_a_writer_has_no_room_once_enough_is_staged(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilling, "AHEAD_BYTES", 1000)
    store.up = False
    writer = opened(StoreSink(0, "store").staged(str(tmp_path)))
    writer.write(rows(range(1)))
    staged = writer.prepare(CheckpointId(1))
    writer.write(rows(range(100)))
    assert writer.has_room()  # The barrier for the commit is to come.
    with pytest.raises(UnavailableError):
        own_committer(writer).commit(staged)
    assert not writer.has_room()
    store.up = True
    own_committer(writer).commit(staged)
    assert writer.has_room()


def test_a_missing_file_is_an_error(store: Store, tmp_path: Path) -> None:
    sink = StoreSink(0, "store").staged(str(tmp_path))
    store.up = False
    writer = opened(sink)
    writer.write(rows(range(2)))
    staged = writer.prepare(CheckpointId(1))
    (tmp_path / decode_spilled(staged[0]).file.path).unlink()
    store.up = True
    committer = sink.committer()
    assert committer is not None
    with pytest.raises(UnrestorableError, match=r"2 rows that were staged for checkpoint 1"):
        committer.commit(staged)
    with pytest.raises(UnrestorableError, match="the checkpoint's list of staged rows is damaged"):
        committer.commit([b"\x80"])


def test_no_row_is_lost_or_overwritten_by_an_older_one(store: Store, tmp_path: Path) -> None:
    seen = {"staged": 0, "delivered again": 0}
    for seed in range(50):
        _live(Random(seed), tmp_path / str(seed), seen)
    assert min(seen.values()) > 10, seen


def _live(rng: Random, folder: Path, seen: dict[str, int]) -> None:
    store = STORES["store"] = Store(rng, fails=0.02)
    sink = StoreSink(0, "store").staged(str(folder))
    attempt, checkpoint, written, position, ever = 1, 0, 0, 0, 0
    writer = opened(sink)
    staged: list[bytes] = []
    in_log: list[bytes] = []

    def recovered() -> None:
        committer = sink.committer()
        assert committer is not None
        for _ in range(1000):
            store.up = True
            with suppress(UnavailableError):
                committer.commit(in_log)
                committer.abort_stale(JOB, Attempt(attempt), in_log)
                return
        raise AssertionError("no recovery")

    for _ in range(60):
        store.up = rng.random() < (0.9 if store.up else 0.3)
        match rng.choice(["write", "write", "checkpoint", "checkpoint", "commit", "crash"]):
            case "write":
                count = rng.randrange(1, 6)
                writer.write(rows(range(written, written + count)))
                written += count
                ever = max(ever, written)
            case "checkpoint":
                checkpoint += 1
                was_staging = bool(staged)
                found = writer.prepare(CheckpointId(checkpoint))
                seen["staged"] += len(found)
                seen["delivered again"] += was_staging and not found
                staged += found
                if rng.random() < 0.8:
                    position, in_log = written, list(staged)
            case "commit":
                with suppress(UnavailableError):
                    own_committer(writer).commit(in_log)
                    staged, in_log = staged[len(in_log) :], []
            case "crash" if rng.random() < 0.3:
                attempt += 1
                writer.close()
                recovered()
                staged, in_log, written = [], [], position
                writer = opened(sink, attempt)
    store.up, store.fails = True, 0.0
    writer.write(rows(range(written, ever + 1)))
    in_log = [*staged, *writer.prepare(CheckpointId(checkpoint + 1))]
    attempt += 1
    recovered()
    assert store.taken == set(range(ever + 1))
    assert store.values == {n % 3: n for n in range(ever + 1)}
    writer.close()


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed > 0)) for seed in range(3)]
)
def test_a_job_with_outages_of_its_target_writes_all_rows(store: Store, seed: int) -> None:
    rng = Random(seed)
    take = store.take

    def take_now_and_then(batch: Batch) -> None:
        store.up = rng.random() < (0.95 if store.up else 0.2)
        take(batch)

    store.take = take_now_and_then  # type: ignore[method-assign]

    def numbers(block: Any) -> Any:
        return {"key": block.number() % 3, "n": block.number()}

    def build(env: rh.Environment) -> Any:
        made = env.from_source(rh.generator(numbers, count=100, rate_per_s=100))
        made.sink_to(StoreSink(0, "store"))
        return made

    done = simulate(build, seed=seed, faults=Faults(crash_slot=1.0, crash_after_checkpoint=0.1))
    assert sorted(done.out["n"].to_pylist()) == list(range(100))
    assert store.taken == set(range(100))
