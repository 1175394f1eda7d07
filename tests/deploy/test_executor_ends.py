"""An executor that is ended or decommissioned costs no row, and at most one restart."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.processes import Started

pytestmark = [pytest.mark.spark, pytest.mark.deploy, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, signal, sys
from pathlib import Path
from pyspark.sql import SparkSession
from rheos.ops.chaos.processes import JobProcesses
from tests.runtimes.continuous.test_recovery import expected, rows_in, submit
from tests.waiting import wait_for

folder, sent, *settings = sys.argv[1:]
pids, out = Path(folder, "pids"), Path(folder, "out")
pids.mkdir()
builder = SparkSession.builder.master("local-cluster[2,1,512]")
for setting in ["spark.executor.memory=512m", "spark.deploy.maxExecutorRetries=-1", *settings]:
    name, _, value = setting.partition("=")
    builder = builder.config(name, value)
job = submit(builder.getOrCreate(), pids, out)
wait_for(lambda: job.status().checkpoints_completed > 1)
processes = JobProcesses()
processes.add(os.getpid())
processes.look()
processes.executors()[0].send_signal(signal.Signals[sent])
result = job.wait(300)
assert rows_in(out) == expected()
print("restarts", result.status.restarts)
"""


@pytest.mark.parametrize(
    ("sent", "settings", "restarts"),
    [
        pytest.param(
            "SIGTERM",
            (),
            {1},
            id="ended",
            marks=pytest.mark.proves(
                "local",
                faults=["an executor receives SIGTERM"],
                slow_because="every run loses an executor of standalone",
            ),
        ),
        pytest.param(
            "SIGPWR",
            ("spark.decommission.enabled=true",),
            # Spark ends a decommissioned executor when its tasks have ended: those of a job run on.
            {0, 1},
            id="decommissioned",
            marks=pytest.mark.proves(
                "local",
                faults=["an executor is decommissioned"],
                slow_because="every run loses an executor of standalone",
            ),
        ),
    ],
)
def test_an_executor_that_ends_costs_no_row(
    sent: str, settings: tuple[str, ...], restarts: set[int], tmp_path: Path, started: Started
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, str(program), str(tmp_path), sent, *settings]
    driver = started.command(command, PYTHONPATH=path)
    assert driver.wait(400) == 0, started.output(driver)
    assert any(f"restarts {number}\n" in started.output(driver) for number in restarts)
