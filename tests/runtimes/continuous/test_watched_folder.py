"""A growing folder on real Spark: files arrive, a worker is killed, and the job is rescaled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from tests.connectors.test_watched_files import SCHEMA, put
from tests.runtimes.continuous.test_recovery import COUNTED, Count, kill_one, rows_in
from tests.waiting import wait_for

KEYS = 5
FILE_ROWS = 20


def fill(folder: Path, files: range) -> None:
    for file in files:
        put(folder, f"{file:03d}.jsonl", *range(file * FILE_ROWS, (file + 1) * FILE_ROWS))


def start(spark: Any, at: Path, parallelism: int, state: str, **more: Any) -> rh.JobHandle:
    env = rh.Environment(
        parallelism,
        runtime="continuous",
        spark=spark,
        checkpoint_interval="100ms",
        checkpoint_dir=at / state,
        **more,
    )
    folder = rh.files.source(at / "in", schema=SCHEMA, discover="50ms")
    rows = env.from_source(folder, name="folder").with_columns(k=rh.col("n") % KEYS)
    counted = rows.key_by("k").process(Count(at / "pids"), returns=COUNTED)
    counted.sink_to(rh.files.sink(at / "out", mode="append"))
    return env.execute_async("folder")


def read(job: rh.JobHandle) -> int:
    return sum(one.records_out for one in job.status().operators if one.name == "folder")


@pytest.mark.spark
def test_new_files_are_read_once_despite_kill_and_rescale(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "pids").mkdir()
    fill(tmp_path / "in", range(2))
    job = start(spark, tmp_path, 2, "before")
    fill(tmp_path / "in", range(2, 5))
    wait_for(lambda: read(job) == 5 * FILE_ROWS)
    wait_for(lambda: job.status().checkpoints_completed)
    kill_one(tmp_path / "pids")
    fill(tmp_path / "in", range(5, 7))
    wait_for(lambda: job.status().restarts == 1 and read(job) == 7 * FILE_ROWS)
    savepoint = job.stop()
    fill(tmp_path / "in", range(7, 9))
    moved = start(spark, tmp_path, 1, "after", from_savepoint=savepoint)
    fill(tmp_path / "in", range(9, 10))
    wait_for(lambda: read(moved) == 10 * FILE_ROWS)
    moved.stop(drain=True)
    keyed = Counter(n % KEYS for n in range(10 * FILE_ROWS))
    assert rows_in(tmp_path / "out") == sorted(
        (key, n + 1) for key, count in keyed.items() for n in range(count)
    )
    assert moved.status().operators[0].counters["splits_found"] >= 3
