"""A job that restarts logs the restart and its cause, in simulation, too."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

import rheos as rh
from rheos.core.protocol.ids import JobId
from rheos.runtimes.driver.driver_logs import JOBS, RestartReport
from rheos.runtimes.job import JobState, JobStatus


def reported(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return only warnings that reach a terminal: pytest also records lines that go to the job's log
    alone."""
    return [record.getMessage() for record in caplog.records if record.name == "rheos"]


def test_each_restart_is_logged_with_its_full_cause_once(caplog: pytest.LogCaptureFixture) -> None:
    report = RestartReport()
    status = JobStatus(JobId("j"), "shop", JobState.RUNNING, 1, 1.0, 0.0, None, 0, 0, None, 0, 0.0, 0.0)
    lost = "a worker is lost\n  what to do: look"
    for restarts, failure in [(0, None), (1, lost), (1, lost), (2, lost), (3, "another"), (3, None)]:
        report.heard(replace(status, restarts=restarts, failure=failure))
    report.heard(replace(status, state=JobState.FAILED, restarts=4, failure="it was the last"))
    assert reported(caplog) == [
        f"the job 'shop' restarts (for the 1st time): {lost}",
        "the job 'shop' restarts (again, for the 2nd time): a worker is lost",
        "the job 'shop' restarts (for the 3rd time): another",
    ]


def test_an_unanswered_call_is_logged_in_simulation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ask(row: Any) -> Any:
        return await asyncio.Future()

    restart = rh.restart.fixed_delay(3, delay="5s")
    env = rh.Environment(1, runtime="simulated", restart=restart)
    rows = env.from_source(rh.collection([{"n": 1}]))
    rows.map_async(ask, timeout="300ms", returns={"n": int}).name("ask").collect("answers")
    with pytest.raises(rh.UnavailableError, match="was not answered"):
        env.execute("asks")
    said = reported(caplog)
    assert said
    assert all(line.startswith("the job 'asks' restarts (") for line in said)
    assert all(f"{__file__}:" in line for line in said)
    assert "what to do" in said[0]


def test_the_job_log_has_states_and_failed_checkpoints() -> None:
    said: list[tuple[str, str]] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append((record.levelname, record.getMessage()))  # type: ignore[method-assign]
    JOBS.addHandler(handler)
    report = RestartReport()
    status = JobStatus(JobId("j"), "shop", JobState.RUNNING, 1, 1.0, 0.0, None, 0, 0, None, 0, 0.0, 0.0)
    for heard in (
        status,
        status,
        replace(status, checkpoints_failed=2, checkpoint_failure="the disk is full"),
        replace(status, checkpoints_failed=2, state=JobState.FAILED, failure="it was the last"),
    ):
        report.heard(heard)
    JOBS.removeHandler(handler)
    assert said == [
        ("INFO", "the job 'shop' is running"),
        ("WARNING", "a checkpoint has failed (2 so far): the disk is full"),
        ("ERROR", "the job 'shop' has failed: it was the last"),
    ]
