"""`rheos status`, and health in other outputs that show a job's state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rheos.cli.main import app
from rheos.cli.status import status_line
from rheos.core.metrics.health import FindingKind, JobHealth, Severity, simple_health
from rheos.core.protocol.ids import JobId
from rheos.ops.control.controlled_jobs import ControlledJob
from rheos.runtimes.job import JobConfig
from tests.cli.stand_ins import STATUS, StandIn, outline

STUCK: JobHealth = simple_health(
    Severity.STUCK,
    100_000,
    kind=FindingKind.PUBLISHING,
    what="the sink 'out' has published nothing for 90 s",
    what_to_do="start the target",
    since_ms=10_000,
)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    stand_in = StandIn()
    controlled = ControlledJob(stand_in, outline(), JobConfig(JobId("job")), "continuous")
    yield stand_in
    stand_in.over.set()
    controlled.wait()


def rheos(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_status_shows_problem_start_and_advice(job: StandIn) -> None:
    job.shown = replace(job.shown, health=STUCK)
    assert rheos("status").splitlines() == rheos("status", "job").splitlines()
    assert rheos("status").splitlines() == [
        "job (a job): running, stuck since 1970-01-01T00:00:10.000Z (1 min 30 s)",
        "  stuck: the sink 'out' has published nothing for 90 s (since 1970-01-01T00:00:10.000Z, "
        "1 min 30 s)",
        "    what to do: start the target",
    ]
    (shown,) = json.loads(rheos("status", "--json"))
    assert shown["health"]["findings"][0]["what_to_do"] == "start the target"


def test_status_of_a_healthy_job_is_one_line(job: StandIn) -> None:
    job.shown = replace(job.shown, health=simple_health(None, 5))
    assert rheos("status").splitlines() == ["job (a job): running, healthy"]
    job.shown = replace(job.shown, health=None)
    assert rheos("status").splitlines() == ["job (a job): running"]


def test_jobs_and_the_status_line_have_the_headline(job: StandIn) -> None:
    job.shown = replace(job.shown, health=STUCK)
    headline = f"stuck since {STUCK.since}: the sink 'out' has published nothing for 90 s"
    assert headline in rheos("jobs")
    assert status_line(job.shown, 0).endswith(headline)
    assert "healthy" not in status_line(replace(STATUS, health=simple_health(None, 5)), 0)
