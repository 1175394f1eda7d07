"""A real driver is killed, and its job's metrics are read from the files it has left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_jobs import rheos
from tests.waiting import wait_for

PROGRAM = """
import rheos as rh

env = rh.Environment(1, runtime="continuous", checkpoint_interval="200ms", history_interval="300ms")
numbers = env.from_source(rh.generator(lambda b: {"k": b.index() % 7}, count=10**8, rate_per_s=2000))
numbers.key_by("k").running(n=rh.agg.count()).sink_to(rh.files.sink("out"))
env.execute("counted")
"""


@pytest.mark.slow
@pytest.mark.spark
def test_the_metrics_of_a_killed_driver_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "rheos", "run", "job.py", "--checkpoint-dir", "kept"]
    home = {**os.environ, "RHEOS_HOME": str(tmp_path / "home")}
    with (tmp_path / "said").open("wb") as said:
        driver = subprocess.Popen(
            command, cwd=tmp_path, env=home, stdout=said, stderr=said, start_new_session=True
        )
    try:
        folder = tmp_path / "kept" / "counted" / "figures"
        wait_for(lambda: sum(b"sent_rows" in path.read_bytes() for path in folder.glob("*.json")) > 0)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    code, out, _ = rheos(
        "metrics", "counted", "--history", "--checkpoint-dir", str(tmp_path / "kept"), "--json"
    )
    assert code == 0
    fine = json.loads(out)["fine"]
    rows = fine["series"].index("rows_in\trunning-1")
    assert any(moment[rows] for moment in fine["values"])
