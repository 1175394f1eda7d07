"""Workers are forked from a process that has imported what they need, and has used nothing of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

USED_IN_A_FORK = """
import os
from rheos.spark.daemon import import_beforehand
import_beforehand()
pid = os.fork()
if pid == 0:
    import polars as pl, pyarrow.compute as pc, pyarrow.parquet as pq, zmq
    rows = pl.DataFrame({"a": range(100_000)}).with_columns(b=pl.col("a") % 7)
    sums = rows.lazy().group_by("b").agg(pl.col("a").sum()).collect()
    assert sums["a"].sum() == pc.sum(rows.to_arrow()["a"]).as_py()
    assert rows.to_arrow().group_by("b").aggregate([("a", "sum")]).num_rows == 7
    zmq.Context(1).socket(zmq.PUSH).bind("inproc://a")
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_fork_can_use_what_was_imported() -> None:
    """A pool that had been used before the fork would stand still in the child."""
    done = subprocess.run(
        [sys.executable, "-c", USED_IN_A_FORK], timeout=400, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.spark
def test_workers_of_our_session_start_warm(spark: Any) -> None:
    def modules(batches: Any) -> Iterator[pa.RecordBatch]:
        import sys

        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"name": [name for name in sys.modules if "rheos" in name]})

    (daemon,) = [
        value
        for name, value in spark.sparkContext.getConf().getAll()
        if name == "spark.python.daemon.module"
    ]
    assert daemon == "rheos.spark.daemon"
    rows = spark.range(0, 1, 1, 1).mapInArrow(modules, "name string").collect()
    assert "rheos.runtimes.continuous.worker" in {row.name for row in rows}
