"""Workers of a running job are killed and frozen: its alerts are the planted ones, each once."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import rheos as rh
from rheos.ops.chaos.processes import JobProcesses
from tests.ops.chaos.conftest import wait_for
from tests.ops.chaos.example import state_machine as job

VISITS = job.Visits(users=200, splits=2, seed=1)


def submit(spark: Any, out: Path, events: int, **settings: Any) -> rh.JobHandle:
    env = rh.Environment(2, runtime="continuous", spark=spark, checkpoint_interval="200ms", **settings)
    found = job.build(env, VISITS, events, rate=1_500)
    found.sink_to(rh.files.sink(out, format="jsonl"))
    return env.execute_async("state machine")


def slots() -> list[psutil.Process]:
    processes = JobProcesses()
    processes.add(os.getpid())
    processes.look()
    return processes.slots()


def wait_while_it_runs(running: rh.JobHandle, condition: Callable[[rh.JobStatus], bool]) -> None:
    def met() -> bool:
        status = running.status()
        if status.state is rh.JobState.FAILED:
            running.wait()
        assert status.state is not rh.JobState.FINISHED, "it ended before it was struck"
        return condition(status)

    wait_for(met)


def checkpoints_later(running: rh.JobHandle, more: int) -> None:
    before = running.status().checkpoints_completed
    wait_while_it_runs(running, lambda status: status.checkpoints_completed >= before + more)


def faults_of(out: Path, events: int) -> list[str]:
    return job.faults(job.alerts_in(out), VISITS.planted(events))


@pytest.mark.proves("local", faults=["workers are killed"])
@pytest.mark.spark
def test_a_job_survives_repeated_kills_of_workers(spark: Any, tmp_path: Path) -> None:
    events, rng = 12_000, random.Random(7)
    running = submit(spark, tmp_path, events, restart=rh.restart.fixed_delay(10, delay="100ms"))
    for kills in (1, 2):
        checkpoints_later(running, 2)
        rng.choice(slots()).kill()
        wait_while_it_runs(running, lambda status, kills=kills: status.attempt > kills)  # type: ignore[misc]
    assert running.wait(400).status.restarts == 2
    assert faults_of(tmp_path, events) == []


@pytest.mark.proves("local", faults=["a worker is frozen"])
@pytest.mark.spark
def test_a_frozen_worker_is_replaced(spark: Any, tmp_path: Path) -> None:
    """The worker's process is alive, and Spark sees nothing wrong with it."""
    events = 12_000
    running = submit(spark, tmp_path, events, heartbeat_timeout="2s")
    checkpoints_later(running, 2)
    frozen = random.Random(3).choice(slots())
    frozen.suspend()
    try:
        wait_while_it_runs(running, lambda status: status.restarts == 1)
        failure = str(running.status().failure)
        wait_while_it_runs(running, lambda status: status.state is rh.JobState.RUNNING)
    finally:
        if frozen.is_running():
            frozen.resume()
    assert "has not reported for 2 s" in failure
    running.wait(400)
    assert faults_of(tmp_path, events) == []


@pytest.mark.spark
def test_a_short_pause_causes_no_restart(spark: Any, tmp_path: Path) -> None:
    events = 6_000
    running = submit(spark, tmp_path, events, heartbeat_timeout="60s")
    checkpoints_later(running, 2)
    paused = slots()[0]
    paused.suspend()
    # No checkpoint completes without this worker, so later checkpoints show that it continued.
    paused.resume()
    checkpoints_later(running, 1)
    assert running.wait(400).status.restarts == 0
    assert faults_of(tmp_path, events) == []
