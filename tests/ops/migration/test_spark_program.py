"""Programs of queries are run up to the start of a query, which does not start."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from rheos.core.errors import ConfigurationError, ProgramError, Site
from rheos.ops.migration.spark_program import SparkQuery, captured_query

HEAD = """\
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate").load()
"""
TWO = """\
rows.writeStream.format("noop").option("checkpointLocation", "/kept/one").start().awaitTermination()
second = rows.select("value").writeStream.outputMode("Update").format("noop")
second.options(checkpointLocation="/kept/two").toTable("table")
spark.streams.awaitAnyTermination()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "query.py"


def captured(program: Path, text: str, checkpoint: str, *arguments: str) -> SparkQuery:
    program.write_text(HEAD + text)
    return captured_query(program, arguments, checkpoint)


@pytest.mark.spark
def test_the_query_with_the_checkpoint_is_captured(spark: Any, program: Path) -> None:
    one = captured(program, TWO, "/kept/one")
    assert (one.mode, one.site) == ("append", Site(str(program), 6))
    assert one.rows.columns == ["timestamp", "value"]
    two = captured(program, TWO, "file:///kept/two/")
    assert (two.mode, two.site) == ("update", Site(str(program), 8))
    assert two.rows.columns == ["value"]
    start = 'rows.writeStream.start(outputMode="complete", checkpointLocation=sys.argv[1])\n'
    assert captured(program, start, "/kept/three", "/kept/three").mode == "complete"
    assert not spark.streams.active
    with pytest.raises(
        ProgramError, match=r"starts no query with the checkpoint '/kept/none'"
    ) as caught:
        captured(program, TWO, "/kept/none")
    assert f"/kept/one ({program}:6), /kept/two ({program}:8)" in str(caught.value)
    with pytest.raises(ProgramError, match="ended without starting a streaming query"):
        captured(program, "", "/kept/one")
    assert rows_start_again(spark)


def rows_start_again(spark: Any) -> bool:
    """Return whether DataFrames have the writer of PySpark again."""
    return type(spark.readStream.format("rate").load().writeStream).__module__.startswith("pyspark")


def test_workers_of_the_program_run_this_python(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = (
        "import os, pathlib, sys\npathlib.Path(sys.argv[1]).write_text(os.environ['PYSPARK_PYTHON'])"
    )
    program.write_text(report)

    def python_of_workers() -> str:
        seen = program.with_name("seen")
        with pytest.raises(ProgramError, match="ended without starting a streaming query"):
            captured_query(program, [str(seen)], "/kept/one")
        return seen.read_text()

    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert python_of_workers() == sys.executable
    assert "PYSPARK_PYTHON" not in os.environ
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert python_of_workers() == "/opt/python"


def test_servers_of_spark_connect_are_refused(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.write_text(
        "from pyspark.sql import SparkSession\nSparkSession.builder.remote('sc://host:1').getOrCreate()\n"
    )
    with pytest.raises(ConfigurationError, match="a server of Spark Connect"):
        captured_query(program, [], "/kept/one")
    monkeypatch.setenv("SPARK_REMOTE", "sc://host:1")
    with pytest.raises(ConfigurationError, match="a server of Spark Connect"):
        captured_query(program, [], "/kept/one")
