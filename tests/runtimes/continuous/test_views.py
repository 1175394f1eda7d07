"""Views of a real job, read all the time while a worker is killed, and after the job has ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from tests.runtimes.continuous.test_recovery import kill_one
from tests.waiting import wait_for

ROWS, KEYS = 6_000, 7
CLICKS = pa.schema([("k", pa.int64()), ("v", pa.int64())])


class Mark(rh.KeyedProcessFunction):
    """Function that passes rows on, and writes its process id for the test."""

    def __init__(self, pids: Path) -> None:
        self.pids = pids

    def open(self) -> None:
        (self.pids / str(os.getpid())).touch()

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[dict[str, int]]:
        yield {"k": row.k, "v": row.v}


def check_prefix(views: Any) -> int:
    """Check that the views are results of the same first rows of the input. Return their number."""
    found = views.scans("totals", "latest")
    totals, latest = (found[name].table.to_pylist() for name in ("totals", "latest"))
    assert found["totals"].checkpoint == found["latest"].checkpoint
    counted: int = sum(row["n"] for row in totals)
    assert sum(row["v"] for row in totals) == sum(range(counted))
    last = {v % KEYS: v for v in range(max(0, counted - KEYS), counted)}
    assert {row["k"]: row["v"] for row in latest} == last
    assert {row["k"]: row["n"] for row in totals} == {k: v // KEYS + 1 for k, v in last.items()}
    return counted


@pytest.mark.proves("Spark", faults=["a worker is killed while its views are read"])
@pytest.mark.spark
def test_views_are_a_prefix_of_the_input_while_a_worker_is_killed(spark: Any, tmp_path: Path) -> None:
    pids, folder = tmp_path / "pids", tmp_path / "checkpoints"
    pids.mkdir()
    env = rh.Environment(
        2, runtime="continuous", spark=spark, checkpoint_interval="100ms", checkpoint_dir=str(folder)
    )
    numbers = rh.generator(
        lambda block: {"k": block.index() % KEYS, "v": block.index()},
        count=ROWS,
        rate_per_s=500,
        splits=1,
        schema=CLICKS,
    )
    env.register("clicks", env.from_source(numbers).key_by("k").process(Mark(pids), returns=CLICKS))
    env.sql_script("""
        CREATE MATERIALIZED VIEW totals AS SELECT k, COUNT(*) AS n, SUM(v) AS v FROM clicks GROUP BY k;
        CREATE MATERIALIZED VIEW latest (PRIMARY KEY (k) NOT ENFORCED) AS SELECT k, v FROM clicks;
    """)
    job = env.execute_async("views")
    wait_for(lambda: job.status().checkpoints_completed > 2)
    of_job, by_name = rh.query(job), rh.query("views")
    counts = [check_prefix(of_job), check_prefix(by_name)]
    killed = False
    while not job.status().state.is_over:
        counts.append(check_prefix(of_job))
        if not killed and counts[-1] > ROWS // 4:
            kill_one(pids)
            killed = True
    assert counts == sorted(counts)
    assert len(set(counts)) > 5
    assert job.wait(400).status.restarts == 1
    assert check_prefix(of_job) == ROWS
    stored = rh.query(f"views@{folder}")
    assert check_prefix(stored) == ROWS
    assert stored.view("totals").get(3).table.to_pylist() == [
        {"k": 3, "n": len(range(3, ROWS, KEYS)), "v": sum(range(3, ROWS, KEYS))}
    ]
