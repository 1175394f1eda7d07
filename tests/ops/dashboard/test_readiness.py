"""Readiness and liveness of a machine's jobs, as reported to an orchestrator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rheos.core.metrics.health import FindingKind, Severity, simple_health
from rheos.ops.control.registry import Registry
from rheos.ops.dashboard import readiness
from rheos.ops.dashboard.readiness import Readiness
from rheos.runtimes.job import JobState, JobWait, WaitKind
from tests.cli.stand_ins import StandIn
from tests.ops.dashboard.conftest import Asking


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(readiness, "monotonic", made)
    return made


def test_readiness_of_a_running_job_needs_no_token(asking: Asking, clock: Clock, job: StandIn) -> None:
    answer = asking.client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True})
    job.shown = replace(job.shown, state=JobState.RESTARTING)
    clock.now_s += 1
    answer = asking.client.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ready": False})


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RUNNING])
def test_a_job_in_any_other_state_is_not_ready(job: StandIn, state: JobState) -> None:
    job.shown = replace(job.shown, state=state)
    assert not Readiness(Registry()).ready()


@pytest.mark.parametrize("severity", [None, *Severity])
def test_a_job_that_is_stuck_or_failing_is_not_ready(job: StandIn, severity: Severity | None) -> None:
    job.shown = replace(job.shown, health=simple_health(severity, 1_000))
    stuck = severity in (Severity.STUCK, Severity.FAILING)
    assert Readiness(Registry()).ready() is not stuck


def test_without_jobs_nothing_is_ready(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path))
    assert not Readiness(Registry()).ready()


@pytest.mark.parametrize("kind", FindingKind)
def test_only_a_driver_that_hangs_is_not_live(asking: Asking, job: StandIn, kind: FindingKind) -> None:
    job.shown = replace(job.shown, health=simple_health(Severity.STUCK, 1_000, kind=kind))
    hangs = kind is FindingKind.DRIVER
    answer = asking.client.get("/livez")
    assert (answer.status_code, answer.json()) == (503 if hangs else 200, {"live": not hangs})


def test_a_driver_that_waits_for_a_server_is_live(job: StandIn) -> None:
    waits = (JobWait("s3://bucket is repeated", 1_000, WaitKind.CALL),)
    hangs = simple_health(Severity.STUCK, 1_000, kind=FindingKind.DRIVER)
    job.shown = replace(job.shown, health=hangs, waits=waits)
    assert Readiness(Registry()).live()


def test_a_job_that_restarts_is_live(job: StandIn) -> None:
    job.shown = replace(job.shown, state=JobState.RESTARTING)
    asked = Readiness(Registry())
    assert (asked.live(), asked.ready()) == (True, False)


def test_a_machine_without_jobs_is_live(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path))
    assert Readiness(Registry()).live()


def test_jobs_are_asked_at_most_once_a_second(job: StandIn, clock: Clock) -> None:
    asked = Readiness(Registry())
    assert asked.ready()
    job.shown = replace(job.shown, state=JobState.RESTARTING)
    assert asked.ready()
    clock.now_s += 1
    assert not asked.ready()
