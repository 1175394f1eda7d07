"""The Spark context and session of jobs that bring none."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

WIDER = """
from pyspark import SparkContext
from pyspark.sql import SparkSession
import rheos as rh

for parallelism in (1, 2):
    env = rh.Environment(parallelism, runtime="continuous")
    env.from_source(rh.collection([{"n": 1}, {"n": 2}])).collect("rows")
    assert env.execute("job").collected["rows"].num_rows == 2
    context = SparkContext._active_spark_context
    assert context.master == f"local[{parallelism + 1}]"
    spark = SparkSession.active()
    assert spark.sparkContext is context and spark.range(3).count() == 3
"""


@pytest.mark.spark
def test_a_wider_job_gets_a_larger_context_and_after_each_there_is_a_session() -> None:
    subprocess.run([sys.executable, "-c", dedent(WIDER)], check=True, timeout=400)
