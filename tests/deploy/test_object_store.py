"""A job with checkpoints and output on S3 loses no row when a worker and the driver are killed."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from rheos.ops.servers.server import free_port
from tests.deploy.twice import run_twice
from tests.processes import Started
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.spark,
    pytest.mark.deploy,
    pytest.mark.slow,
    pytest.mark.proves(
        "moto",
        faults=["a worker is killed", "the driver is killed"],
        slow_because="it starts Spark twice",
    ),
]

PROGRAM = """
import os, signal, sys
from pathlib import Path
import fsspec, polars as pl
from pyspark.sql import SparkSession
from tests.runtimes.continuous.test_recovery import expected, kill_one, submit
from tests.waiting import wait_for

pids, bucket, dies = Path(sys.argv[1]) / "pids", sys.argv[2], sys.argv[3] == "dies"
pids.mkdir(exist_ok=True)
store, _ = fsspec.core.url_to_fs(bucket)
store.makedirs(bucket, exist_ok=True)
spark = SparkSession.builder.master("local[2]").getOrCreate()
job = submit(spark, pids, f"{bucket}/out", checkpoint_dir=f"{bucket}/checkpoints")
if dies:
    wait_for(lambda: job.status().checkpoints_completed > 1)
    kill_one(pids)
    wait_for(lambda: job.status().attempt > 1)
    wait_for(lambda: job.status().checkpoints_completed > 4)
    os.kill(os.getpid(), signal.SIGKILL)
job.wait(300)
files = [file for file in store.find(f"{bucket}/out") if file.endswith(".parquet")]
rows = [row for file in files for row in pl.read_parquet(store.cat_file(file)).rows()]
assert sorted(rows) == expected(), len(rows)
uploads = store.call_s3("list_multipart_uploads", Bucket=bucket.removeprefix("s3://"))
assert not uploads.get("Uploads"), uploads
print("all rows")
"""


def test_kills_of_a_worker_and_of_the_driver_lose_no_row(tmp_path: Path, started: Started) -> None:
    port = free_port()
    started.command([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)])

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_for(answers)
    run_twice(
        started,
        PROGRAM,
        tmp_path,
        "s3://bucket",
        AWS_ACCESS_KEY_ID="access",
        AWS_SECRET_ACCESS_KEY="secret",
        AWS_DEFAULT_REGION="us-east-1",
        AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
    )
