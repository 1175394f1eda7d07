"""History in files, then a live stream, on real Spark: a worker is killed between the two."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rheos as rh
from rheos.core.connectors.contract import Source
from rheos.runtimes.job import OperatorStatus
from tests.runtimes.continuous.test_recovery import Count, kill_one, rows_in
from tests.waiting import wait_for

KEYS = 7
SEAM = 1_500
"""Rows before it count in the history, which has 300 more; the live stream begins 300 before it."""
ROWS = 2_500


def live_rows(block: rh.Block) -> dict[str, Any]:
    n = SEAM - 300 + block.index()
    return {"k": n % KEYS, "at": n}


def write_history(folder: Path) -> None:
    folder.mkdir()
    at = pl.int_range(SEAM + 300, eager=True).alias("at")
    history = pl.DataFrame({"k": at % KEYS, "at": at})
    for part in range(4):
        history[part::4].write_parquet(folder / f"{part}.parquet")


def trips(folder: Path, count: int, rate_per_s: float | None) -> Source:
    live = rh.generator(live_rows, count=count, rate_per_s=rate_per_s, splits=1)
    replay = None if rate_per_s is None else rh.Replay("at", speed=1.0)
    history = rh.files.source(f"{folder}/*.parquet", schema=live.schema, replay=replay)
    return rh.hybrid(history, live, on="at", switch=SEAM)


def expected() -> list[tuple[int, int]]:
    counts = Counter(n % KEYS for n in range(ROWS))
    return sorted((key, n + 1) for key, count in counts.items() for n in range(count))


@pytest.mark.spark
def test_a_kill_between_history_and_live_changes_no_row(spark: Any, tmp_path: Path) -> None:
    pids, out = tmp_path / "pids", tmp_path / "out"
    pids.mkdir()
    write_history(tmp_path / "history")
    env = rh.Environment(2, runtime="continuous", spark=spark, checkpoint_interval="100ms")
    rows = env.from_source(trips(tmp_path / "history", ROWS - SEAM + 300, rate_per_s=700), name="trips")
    counted = rows.key_by("k").process(Count(pids), returns={"k": int, "n": int})
    counted.sink_to(rh.files.sink(out))
    job = env.execute_async("trips")

    def source() -> OperatorStatus:
        return next(one for one in job.status().operators if one.name == "trips")

    wait_for(lambda: source().records_out > SEAM - 300)
    kill_one(pids)
    result = job.wait(400)
    assert result.status.restarts == 1
    assert rows_in(out) == expected()
    assert result.counter("trips", "after_switch") == 300
    assert result.counter("trips", "before_switch") == 300


@pytest.mark.spark
def test_a_batch_job_reads_history_and_live(spark: Any, tmp_path: Path) -> None:
    write_history(tmp_path / "history")
    env = rh.Environment(2, runtime="batch", spark=spark)
    rows = env.from_source(trips(tmp_path / "history", ROWS - SEAM + 300, rate_per_s=None))
    rows.collect("rows")
    result = env.execute("trips")
    assert sorted(result.collected["rows"]["at"].to_pylist()) == list(range(ROWS))


@pytest.mark.spark
def test_the_history_may_be_a_dataframe(spark: Any, tmp_path: Path) -> None:
    history = spark.range(SEAM + 300).selectExpr(f"id % {KEYS} AS k", "id AS at")
    live = rh.generator(live_rows, count=ROWS - SEAM + 300, splits=1)
    env = rh.Environment(2, runtime="continuous", spark=spark, checkpoint_dir=tmp_path / "state")
    rows = env.from_source(
        rh.hybrid(rh.dataframe(history), live, on="at", switch=SEAM),
        watermark=rh.Watermark.monotonic(on="at"),
        name="trips",
    )
    counts = rows.key_by("k").window(rh.Tumbling("500ms")).aggregate(n=rh.agg.count())
    counts.collect("counts")
    result = env.execute("trips of a frame")
    found = result.collected["counts"].to_pylist()
    wanted = Counter((n % KEYS, n // 500) for n in range(ROWS))
    assert {
        (row["k"], round(row["window_start"].timestamp() * 1000) // 500): row["n"] for row in found
    } == wanted
    assert len(found) == len(wanted)
