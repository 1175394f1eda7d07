"""`rheos logs`, for running jobs and those that have ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rheos.core.protocol.control import Logged
from rheos.core.protocol.ids import Attempt, JobId, OperatorId
from rheos.core.protocol.log_lines import LogLine
from rheos.ops.control.controlled_jobs import ControlledJob
from rheos.ops.control.job_logs import LogFile
from rheos.runtimes.driver.driver_logs import JOBS, pass_on
from rheos.runtimes.job import JobConfig
from tests.cli.stand_ins import StandIn, outline
from tests.cli.test_jobs import rheos

LINE = LogLine(1_700_000_000_123, 20, "shop", "a bad price", "map-1", error="Traceback\nValueError: x")


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Return a running job that has logged three lines."""
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path))
    job, config = StandIn(), JobConfig(JobId("shop"), checkpoint_dir="/data")
    log = LogFile(config.key, config.job)
    controlled = ControlledJob(job, outline("The shop"), config, "continuous", log=log)
    of_job = {"job": "shop", "attempt": 2}
    JOBS.info("the job is running", extra=of_job)
    names = {OperatorId("map-1"): "parse"}
    pass_on(Logged(attempt=Attempt(2), subtask=1, lines=[LINE]), JobId("shop"), names)
    JOBS.warning("a checkpoint has failed", extra=of_job)
    yield job
    job.over.set()
    controlled.wait()


@pytest.mark.usefixtures("logged")
def test_the_lines_of_a_running_job() -> None:
    code, said, _ = rheos("logs", "The shop")
    first, *rest = said.splitlines()
    assert (
        code,
        first.endswith("INFO    rheos.job [driver, attempt 2] the job is running"),
    ) == (
        0,
        True,
    )
    assert rest[:3] == [
        "2023-11-14T22:13:20.123Z INFO    shop [parse, subtask 1, attempt 2] a bad price",
        "  | Traceback",
        "  | ValueError: x",
    ]
    assert rheos("logs", "shop", "--lines", "1")[1].endswith("a checkpoint has failed\n")
    assert rheos("logs", "shop", "--level", "warning")[1].count("\n") == 1
    objects = [json.loads(line) for line in rheos("logs", "shop", "--json")[1].splitlines()]
    assert [line.get("subtask") for line in objects] == [None, 1, None]


def test_the_lines_of_a_job_that_has_ended(logged: StandIn) -> None:
    logged.over.set()
    assert rheos("logs", "sho", "--level", "warning")[1].endswith("a checkpoint has failed\n")


def test_a_job_without_a_log_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path))
    code, said, wrong = rheos("logs", "shop")
    assert (code, said) == (2, "")
    assert "no job 'shop' is running, and there is no log of one in" in wrong


def test_a_job_that_does_not_keep_a_log_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path))
    job = StandIn()
    controlled = ControlledJob(
        job, outline("job"), JobConfig(JobId("job"), log_level=None), "continuous"
    )
    code, _, wrong = rheos("logs", "job")
    assert (code, "keeps no log" in wrong) == (2, True)
    job.over.set()
    controlled.wait()
