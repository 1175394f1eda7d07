"""One side of `batch.py`: a process with a Spark session of its own, which runs what it is given.

A line of JSON asks for a run, a line of JSON answers with what it took. Both sides have the same
settings, and Rheos runs in this session, as in any that a user has.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, TextIO

import psutil
from batch_programs import WORK, Run
from processor import processor_s
from pyspark.sql import SparkSession

RHEOS = "rheos"


def settings(cores: int, partitions: int, local: str) -> dict[str, str]:
    return {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": local,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }


def measured(spark: SparkSession, order: dict[str, Any]) -> dict[str, float]:
    work = WORK[order["work"]]
    side = order["side"]
    program = work.rheos if side == RHEOS else work.by_hand[side]
    run = Run(spark, order["data"], order["out"], order["partitions"], order["disorder_ms"])
    worked, began = processor_s(psutil.Process()), time.perf_counter()
    program(run)
    return {"seconds": time.perf_counter() - began, "cpu_s": processor_s(psutil.Process()) - worked}


def serve(orders: TextIO, answers: TextIO, spark: SparkSession) -> None:
    for line in orders:
        print(json.dumps(measured(spark, json.loads(line))), file=answers, flush=True)


def main() -> None:
    # What anybody else prints goes to the eye, and does not end up between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    cores, partitions, local = sys.argv[1:]
    builder = SparkSession.builder.appName("batch benchmark")
    for name, value in settings(int(cores), int(partitions), local).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    serve(sys.stdin, answers, spark)
    spark.stop()


if __name__ == "__main__":
    main()
