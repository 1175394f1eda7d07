"""The Spark context and session of jobs that bring none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pyspark
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
@pytest.mark.slow
def test_a_job_with_more_slots_gets_a_larger_context() -> None:
    subprocess.run([sys.executable, "-c", dedent(WIDER)], check=True, timeout=400)


SUBMITTED = """
from pyspark import SparkContext
import rheos as rh

env = rh.Environment(1, runtime="continuous")
env.from_source(rh.collection([{"n": 1}])).collect("rows")
env.execute("job")
context = SparkContext._active_spark_context
settings = ("master", "app.name", "sql.session.timeZone", "stage.maxConsecutiveAttempts")
for name in settings:
    print(name, context.getConf().get(f"spark.{name}"))
"""


@pytest.mark.spark
def test_a_submitted_job_runs_on_the_master_and_with_the_settings_of_the_command(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(SUBMITTED)
    submit = str(Path(pyspark.__path__[0], "bin", "spark-submit"))
    options = [
        "--master",
        "local[3]",
        "--name",
        "mine",
        "--conf",
        "spark.sql.session.timeZone=Asia/Tokyo",
    ]
    ran = subprocess.run(
        [submit, *options, str(program)],
        check=True,
        timeout=400,
        capture_output=True,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert ran.stdout.splitlines()[-4:] == [
        "master local[3]",
        "app.name mine",
        "sql.session.timeZone Asia/Tokyo",
        "stage.maxConsecutiveAttempts 1",
    ]
