"""Splits discovered while a job runs: none is lost or read twice, even if processes die; and the
effect of a late discovery on event time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    Source,
    Split,
    SplitReader,
)
from rheos.core.errors import InputError
from rheos.runtimes.simulated.runtime import SimulatedRuntime
from rheos.testing import Faults, simulate
from tests.worlds.worlds import Climate, draw_world

SEEDS = range(4)


@pytest.mark.parametrize("seed", SEEDS)
def test_discovered_splits_survive_random_worlds(seed: int) -> None:
    draw_world(seed, Climate.APPEARS).run_and_check()


SCHEMA = pa.schema([("split", pa.string()), pa.field("at", pa.int64(), nullable=False)])
QUIET = Faults(until_us=0)


@dataclass(frozen=True)
class Parts(Source):
    """Source of splits of event times. Those of `late` appear in the listing of that number; `holds`
    names a split that emits its rows and does not end."""

    times: Mapping[str, Sequence[int]]
    late: Mapping[str, int] = field(default_factory=dict)
    holds: str = ""
    fails_from: int = 1_000_000
    listings: list[None] = field(default_factory=list, compare=False)
    schema: pa.Schema = SCHEMA
    bounded: bool = False
    discovery_ms: int | None = 100

    def endless(self, split: Split) -> bool:
        return split.id == self.holds

    def splits(self) -> Sequence[Split]:
        return [Split(name) for name in self.times if self.late.get(name, 0) == 0]

    def discover(self) -> Sequence[Split]:
        self.listings.append(None)
        if len(self.listings) >= self.fails_from:
            raise OSError("permission denied")
        return [Split(name) for name in self.times if self.late.get(name, 0) <= len(self.listings)]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return _Reader(split.id, list(self.times[split.id]), int(position or 0), self.endless(split))


class _Reader(SplitReader):
    def __init__(self, name: str, times: list[int], row: int, endless: bool) -> None:
        self.name, self.times, self.row, self.endless = name, times, row, endless

    def poll(self, max_rows: int) -> Polled:
        if self.row == len(self.times):
            return Pending() if self.endless else EndOfSplit()
        at = self.times[self.row]
        self.row += 1
        return pa.RecordBatch.from_pydict({"split": [self.name], "at": [at]}, schema=SCHEMA)

    def position(self) -> bytes:
        return b"%d" % self.row


def run(source: Parts, finished: int) -> tuple[list[dict[str, Any]], list[int], int]:
    """Return the counts of windows of 100 ms, the late rows, and how many of them were purged."""

    def build(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        rows = env.from_source(source, watermark=rh.Watermark.bounded_out_of_orderness("0ms", on="at"))
        counts = rows.key_by("split").window(rh.Tumbling("100ms")).aggregate(n=rh.agg.count())
        return {"counts": counts, "late": counts.side_output("late")}

    done = simulate(build, faults=QUIET, until_read=lambda splits, _: splits >= finished)
    purged = sum(each.counters.get("late_purged", 0) for each in done.status.operators)
    counts = done.rows["counts"].sort_by([("split", "ascending"), ("window_start", "ascending")])
    return counts.to_pylist(), sorted(done.rows["late"]["at"].to_pylist()), purged


TIMES = {"slow": [5], "a": [10, 120, 30, 250], "b": [20, 130, 260, 140], "c": [15, 350, 110]}


def test_a_late_discovery_before_any_window_fires_changes_nothing() -> None:
    """Each split alone decides which of its rows are late, and no window fires before all splits are
    discovered."""
    at_once = run(Parts(TIMES, holds="slow"), 3)
    for late in ({"a": 1}, {"b": 3, "c": 1}, {"a": 5, "b": 2, "c": 4}):
        assert run(Parts(TIMES, late, holds="slow"), 3) == at_once
    assert at_once[2] == 0
    assert at_once[1] == [30, 110, 140]


def test_rows_of_later_splits_for_fired_windows_are_late() -> None:
    """The rows go to the late output and count as purged: none is lost silently, and none is added
    to an emitted result."""
    counts, late, purged = run(Parts(TIMES, {"c": 5}), 4)
    assert [row["n"] for row in counts if row["split"] == "slow"] == [1]
    assert late == [15, 30, 110, 140]
    assert purged == 1


def test_a_failing_discovery_is_retried_then_an_error() -> None:
    env = rh.Environment(2, runtime=SimulatedRuntime(faults=QUIET))
    env.from_source(Parts({"a": [1], "b": [2]}, fails_from=3), name="parts").collect("rows")
    job = env.execute_async("job")
    world = job.world  # type: ignore[attr-defined]
    world.run_until(lambda: job.status().failure is not None)
    assert "permission denied" in str(job.status().failure)
    assert job.status().state is rh.JobState.RUNNING
    with pytest.raises(InputError, match="permission denied") as caught:
        job.wait()
    assert caught.value.operator == "parts"
    assert caught.value.site is not None
    assert caught.value.site.file.endswith("test_found_splits.py")


def test_a_discovery_that_recovers_does_not_fail_the_job() -> None:
    class Away(Parts):
        def discover(self) -> Sequence[Split]:
            found = super().discover()
            if len(self.listings) % 5:
                raise OSError("away")
            return found

    source = Away({"a": [1], "b": [2]}, {"b": 15})
    assert len(run(source, 2)[0]) == 2
    assert len(source.listings) >= 15


@pytest.mark.parametrize("seed", range(3))
def test_live_splits_wait_until_history_is_read(seed: int) -> None:
    """The live part has no split yet when the job starts. The world itself checks that none of its
    splits is opened early (CP25)."""
    history = rh.generator(
        lambda block: {"split": ["h"] * block.rows, "at": block.number()},
        count=60,
        rate_per_s=200,
        splits=4,
        schema=SCHEMA,
    )
    live = Parts({"a": range(100, 110), "b": range(200, 210)}, {"a": 1, "b": 2})

    def build(env: rh.Environment) -> rh.DataStream:
        return env.from_source(rh.hybrid(history, live))

    done = simulate(
        build,
        seed=seed,
        parallelism=3,
        faults=Faults(crash_slot=3.0, crash_driver=1.0, until_us=600_000),
        until_read=lambda splits, _: splits == 6,
    )
    assert sorted(done.out["at"].to_pylist()) == [*range(60), *range(100, 110), *range(200, 210)]
