"""Workers are forked from a process that has imported what they need, and has not used it yet."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

USED_IN_A_FORK = """
import os
from rheos.runtimes.spark.daemon import import_beforehand
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
    """A thread pool that was used before the fork would hang in the child."""
    done = subprocess.run(
        [sys.executable, "-c", USED_IN_A_FORK], timeout=400, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


PREFERS = """
import sys
from rheos.runtimes.spark.daemon import prefer_installed_pyspark
prefer_installed_pyspark()
import pyspark
print(pyspark.__file__)
"""


@pytest.mark.parametrize("same", [True, False])
def test_an_installed_pyspark_is_preferred_to_the_zip(same: bool, tmp_path: Path) -> None:
    """The installed one is already compiled. With another Spark, the zip is used."""
    (installed,) = pyspark.__path__
    home = Path(installed) if same else tmp_path
    zipped = home / "python" / "lib" / "pyspark.zip"
    if not same:
        zipped.parent.mkdir(parents=True)
        with zipfile.ZipFile(zipped, "w") as file:
            file.writestr("pyspark/__init__.py", "")
    environment = {**os.environ, "SPARK_HOME": str(home), "PYTHONPATH": str(zipped)}
    done = subprocess.run(
        [sys.executable, "-c", PREFERS], env=environment, check=True, capture_output=True
    )
    assert done.stdout.decode().startswith(installed if same else str(zipped))


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
    assert daemon == "rheos.runtimes.spark.daemon"
    rows = spark.range(0, 1, 1, 1).mapInArrow(modules, "name string").collect()
    assert "rheos.runtimes.continuous.worker" in {row.name for row in rows}
