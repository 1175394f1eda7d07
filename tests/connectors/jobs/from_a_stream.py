"""Job that reads the Parquet files in FOLDER/in as a Spark stream, one per micro-batch, and is stopped
when it has written ROWS rows.

python from_a_stream.py FOLDER ROWS
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq

import rheos as rh


def written(folder: str) -> list[int]:
    found = Path(folder, "out").glob("*.parquet")
    return sorted(id for path in found for id in pq.read_table(path).column("id").to_pylist())


def main(folder: str, count: str) -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[3]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    env = rh.Environment(
        2, checkpoint_dir=f"{folder}/checkpoints", checkpoint_interval="100ms", spark=spark
    )
    reader = spark.readStream.schema("id long, at timestamp").option("maxFilesPerTrigger", 1)
    rows = env.from_stream(
        reader.parquet(f"{folder}/in"), rh.Watermark.monotonic(on="at"), trigger="10ms"
    )
    rows.select("id").sink_to(rh.files.sink(f"{folder}/out"))
    job = env.execute_async("from a stream")
    while len(written(folder)) < int(count):
        time.sleep(0.1)
    job.stop(drain=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
