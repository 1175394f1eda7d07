"""A job remains the same job after a killed worker, a killed driver and a new start: its key, counts
and event log."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_command_on_spark import WITHIN_S, rheos, run
from tests.processes import Started
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.deploy, pytest.mark.slow]

SHOP = """
import sys
import rheos as rh
env = rh.Environment(parallelism=2, checkpoint_interval="500ms")
orders = rh.generator(lambda block: {"k": block.index() % 10}, rate_per_s=500, splits=2)
env.from_source(orders, name="orders").sink_to(rh.files.sink(sys.argv[1]), name="late")
env.execute("shop")
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    processes = Started(tmp_path)
    yield processes
    processes.end()


def shown() -> dict[str, Any]:
    (job,) = json.loads(rheos("jobs", "--json").stdout)
    found: dict[str, Any] = job
    return found


def events(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(rheos("events", "shop", "--json", *arguments).stdout)
    return found


def test_a_job_keeps_its_identity_over_killed_workers_and_drivers(
    tmp_path: Path, started: Started
) -> None:
    file, directory = tmp_path / "job.py", tmp_path / "checkpoints"
    file.write_text(SHOP)
    arguments = ["--checkpoint-dir", str(directory), str(tmp_path / "out")]

    def runs() -> dict[str, Any] | None:
        jobs = json.loads(rheos("jobs", "--json").stdout)
        well = [each for each in jobs if each["state"] == "running" and each["checkpoints_completed"]]
        return well[0] if well else None

    first = run(started, file, *arguments)
    before = wait_for(runs, WITHIN_S)
    started.processes.look()
    worker = started.processes.slots()[0]
    worker.send_signal(signal.SIGKILL)
    wait_for(lambda: any(each["kind"] == "restart" and each["until"] for each in events()), WITHIN_S)
    (restart,) = [each for each in events() if each["kind"] == "restart"]
    assert restart["text"].startswith(
        f"worker {restart['subtask']} lost (process {worker.pid} on host "
    )
    assert "killed by signal 9 (SIGKILL)" in restart["text"]
    assert ", restarted in " in restart["text"]
    counted = shown()
    assert (counted["key"], counted["restarts"]) == (before["key"], 1)

    first.kill()
    first.wait(WITHIN_S)
    assert [each["kind"] for each in events()] == ["restart", "started"], "known without a driver"
    second = run(started, file, *arguments)
    after = wait_for(runs, WITHIN_S)
    assert (after["key"], after["restarts"], after["drivers"]) == (before["key"], 1, 2)
    assert after["checkpoints_completed"] >= counted["checkpoints_completed"]
    wait_for(lambda: events()[0]["until"] is not None, WITHIN_S)
    newest = events()[0]
    assert newest["kind"] == "takeover"
    assert newest["text"].startswith(f"the driver was lost (process {first.pid} on host ")
    assert f"taken over by process {second.pid} on host " in newest["text"]
    assert [each["kind"] for each in events()] == ["takeover", "restart", "started"]

    assert rheos("cancel", after["key"]).returncode == 0
    assert second.wait(WITHIN_S) == 130 or second.returncode == 0
    kinds = ["ended", "takeover", "restart", "started"]
    assert [each["kind"] for each in events()] == kinds
    assert [each["kind"] for each in events("--checkpoint-dir", str(directory))] == kinds
