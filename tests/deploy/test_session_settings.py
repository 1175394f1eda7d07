"""Jobs in sessions that were started with settings of their own: rows are the same.

`test_existing_session.py` has the settings that a running session can change, such as ANSI mode.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.processes import Started

pytestmark = [pytest.mark.spark, pytest.mark.deploy]

PROGRAM = """
import json
import sys

import rheos as rh
from pyspark.sql import SparkSession

master, settings = sys.argv[1], json.loads(sys.argv[2])
builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
for name, value in settings.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
session.sparkContext.setLocalProperty("spark.scheduler.pool", "reports")
found = {}
for runtime in ("batch", "continuous"):
    env = rh.Environment(2, runtime=runtime)
    rows = env.from_source(rh.collection([{"k": i % 3, "n": i} for i in range(60)]))
    rows.key_by("k").running(total=rh.agg.sum("n"), rows=rh.agg.count()).collect("totals")
    totals = env.execute(f"settings-{runtime}").collected["totals"].to_pylist()
    found[runtime] = sorted((row["k"], row["rows"], row["total"]) for row in totals)
print("found", json.dumps(found))
"""
SETTINGS = {
    "speculation": {
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.quantile": "0.1",
    },
    "Kryo": {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrationRequired": "false",
    },
    # Each task then starts a process: eight partitions after a shuffle, not 200.
    "workers that serve one task": {
        "spark.python.worker.reuse": "false",
        "spark.sql.shuffle.partitions": "8",
    },
    "workers without a daemon": {"spark.python.use.daemon": "false"},
    "fair pools": {"spark.scheduler.mode": "FAIR"},
    "encryption": {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "settings",
        "spark.network.crypto.enabled": "true",
        "spark.io.encryption.enabled": "true",
    },
}
EXPECTED = [[k, n + 1, sum(range(k, k + 3 * n + 1, 3))] for k in range(3) for n in range(20)]


def check(master: str, settings: dict[str, str], tmp_path: Path, started: Started) -> None:
    """Check the rows of both runtimes. Only this user may read the folder of Spark's own files."""
    own = tmp_path / "local"
    own.mkdir(mode=0o700)
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    given = json.dumps({**settings, "spark.local.dir": str(own)})
    driver = started.command(
        [sys.executable, str(program), master, given], PYSPARK_PYTHON=sys.executable
    )
    assert driver.wait(500) == 0, started.output(driver)
    found = json.loads(started.output(driver).partition("found ")[2].partition("\n")[0])
    assert found == {"batch": EXPECTED, "continuous": EXPECTED}


def test_rows_are_the_same_under_settings_that_do_not_interact(
    tmp_path: Path, started: Started
) -> None:
    together = {
        name: value
        for which in ("speculation", "Kryo", "workers that serve one task", "fair pools")
        for name, value in SETTINGS[which].items()
    }
    check("local[2]", together, tmp_path, started)


@pytest.mark.slow
@pytest.mark.parametrize("which", SETTINGS)
def test_rows_are_the_same_under_each_setting(which: str, tmp_path: Path, started: Started) -> None:
    check("local-cluster[2,1,1024]", SETTINGS[which], tmp_path, started)
