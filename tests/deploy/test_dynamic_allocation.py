"""With dynamic allocation a job's slots are tasks of an ordinary stage, and a kill costs no row."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.processes import Started

pytestmark = [
    pytest.mark.spark,
    pytest.mark.deploy,
    pytest.mark.slow,
    pytest.mark.proves(
        "local",
        faults=["a worker is killed under dynamic allocation"],
        slow_because="every run loses a pod of Kubernetes, and a machine of a standalone master",
    ),
]

ROOT = Path(__file__).parents[2]
PROGRAM = """
import logging, sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.runtimes.continuous.test_recovery import expected, kill_one, rows_in, submit
from tests.waiting import wait_for

logging.getLogger("rheos.job").addHandler(logging.StreamHandler(sys.stdout))
folder, *settings = sys.argv[1:]
pids, out = Path(folder, "pids"), Path(folder, "out")
pids.mkdir()
builder = SparkSession.builder.master("local-cluster[2,1,512]")
for setting in settings:
    name, _, value = setting.partition("=")
    builder = builder.config(name, value)
job = submit(builder.getOrCreate(), pids, out)
wait_for(lambda: job.status().checkpoints_completed > 1)
kill_one(pids)
result = job.wait(300)
assert rows_in(out) == expected()
print("restarts", result.status.restarts)
"""
SETTINGS = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.ui.enabled": "false",
}


@pytest.mark.parametrize(
    "more",
    [{}, {"spark.speculation": "true"}],
    ids=["plain", "with speculation"],
)
def test_a_killed_worker_costs_one_restart_and_no_row(
    more: dict[str, str], tmp_path: Path, started: Started
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    settings = [f"{name}={value}" for name, value in (SETTINGS | more).items()]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    driver = started.command([sys.executable, str(program), str(tmp_path), *settings], PYTHONPATH=path)
    assert driver.wait(400) == 0, started.output(driver)
    output = started.output(driver)
    assert "tasks of one ordinary stage: spark.dynamicAllocation.enabled=true" in output
    assert "restarts 1" in output
