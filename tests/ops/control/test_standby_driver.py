"""A standby driver of a job: its output while it waits, and how its wait ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.checkpoint.driver_note import DriverNote
from rheos.core.checkpoint.events import Outcome
from rheos.core.checkpoint.handover_situation import Situation
from rheos.core.errors import (
    CheckpointError,
    ConfigurationError,
    FencedError,
    JobFailedError,
    RheosError,
)
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import JobId
from rheos.ops.control import standby_driver
from rheos.ops.control.controlled_jobs import ControlledRuntime
from rheos.ops.control.job_list import job_object, listed_jobs
from rheos.ops.control.registry import Registry, find_job
from rheos.ops.dashboard.readiness import Readiness
from rheos.runtimes.job import JobConfig, JobResult, JobState
from rheos.runtimes.job_handle import JobHandle
from rheos.runtimes.job_operations import DoneAnswer, GetSuccession, SuccessionAnswer, TakeJob
from rheos.runtimes.operation_contract import DriverOperation
from tests.cli.stand_ins import STATUS, StandIn

Meanwhile = Callable[[Callable[[], None]], None]


class EndingJob(StandIn):
    """Job that ends in the state that a test sets."""

    def end(self, state: JobState, error: RheosError | None = None) -> None:
        self.shown = replace(STATUS, state=state)
        self.failure = error
        self.over.set()


class WaitingJob(EndingJob):
    """Job that waits until it is requested to take the job over."""

    def __init__(self) -> None:
        super().__init__()
        self.situation: Situation | None = Situation.OTHER_RUNS

    def prepare(self) -> None:
        self.asked.append(("prepare",))

    def ask(self, operation: DriverOperation[Any]) -> Any:
        match operation:
            case GetSuccession():
                return SuccessionAnswer("waits", self.situation, True)
            case TakeJob():
                self.asked.append(("take",))
                self.situation = None
                return DoneAnswer()
            case _:
                return super().ask(operation)


class StandInRuntime:
    def __init__(self, job: StandIn) -> None:
        self.job = job
        self.submitted = False
        self.succeeds: list[str | None] = []

    def submit(self, plan: Any, config: JobConfig, listener: Any = None) -> Any:
        self.submitted = True
        self.succeeds.append(config.succeeds)
        return self.job

    def settle(self, job: Any, config: JobConfig) -> None:
        pass


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Return a function that sets what happens between two polls, once."""
    left: list[Callable[[], None]] = []

    def pause(seconds: float) -> None:
        if left:
            left.pop()()

    monkeypatch.setattr(standby_driver, "sleep", pause)
    return left.append


def submit(
    runtime: StandInRuntime, directory: Path, standby: bool = True, *, ahead: bool = False
) -> JobHandle:
    return ControlledRuntime("continuous", runtime).submit(
        PhysicalPlan("a job", (), (), parallelism=1, max_parallelism=128),
        JobConfig(
            job=JobId("job"),
            checkpoint=CheckpointConfig(restore_ahead=ahead),
            checkpoint_dir=str(directory),
            standby=standby,
        ),
    )


def ended(handle: JobHandle) -> JobResult | RheosError:
    try:
        return handle.wait()
    except RheosError as error:
        return error


def note(directory: Path) -> DriverNote:
    return msgspec.json.decode((directory / "job" / "driver.json").read_bytes(), type=DriverNote)


def test_a_standby_runs_a_job_that_has_no_driver(tmp_path: Path, meanwhile: Meanwhile) -> None:
    job = EndingJob()
    handle = submit(StandInRuntime(job), tmp_path)
    assert [record.stands_by for record in Registry().records()] == [False]
    job.end(JobState.FINISHED)
    assert isinstance(ended(handle), JobResult)


def test_a_waiting_standby_is_listed_and_commands_reach_the_driver(
    tmp_path: Path, meanwhile: Meanwhile, capsys: pytest.CaptureFixture[str]
) -> None:
    first = EndingJob()
    handle = submit(StandInRuntime(first), tmp_path, standby=False)
    seen: list[Any] = []

    def look() -> None:
        jobs = listed_jobs(Registry())
        seen.extend(job_object(job)["state"] for job in jobs)
        assert not find_job("job", Registry().records()).stands_by
        with pytest.raises(ConfigurationError, match="is only a standby for it"):
            find_job("job", [job.record for job in jobs if job.record.stands_by])
        assert Readiness(Registry()).ready()
        first.end(JobState.STOPPED)
        ended(handle)

    meanwhile(look)
    submit(StandInRuntime(EndingJob()), tmp_path)
    assert sorted(seen) == ["running", "standing by"]
    assert Registry().records() == []
    said = capsys.readouterr().err
    assert "runs the job 'job'" in said
    assert "the job 'job' was stopped under process" in said


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.STOPPED, JobState.CANCELLED])
def test_a_standby_does_not_restart_a_job_ended_on_purpose(
    tmp_path: Path, meanwhile: Meanwhile, state: JobState
) -> None:
    first, runtime = EndingJob(), StandInRuntime(EndingJob())
    handle = submit(StandInRuntime(first), tmp_path, standby=False)
    meanwhile(lambda: (first.end(state), ended(handle))[0])
    over = submit(runtime, tmp_path)
    result = ended(over)
    assert isinstance(result, JobResult)
    assert (result.status.state, runtime.submitted) == (state, False)
    with pytest.raises(CheckpointError, match="under process"):
        over.savepoint()
    assert over.checkpoints() == ()


def test_a_standby_raises_the_error_of_a_failed_job(tmp_path: Path, meanwhile: Meanwhile) -> None:
    first, runtime = EndingJob(), StandInRuntime(EndingJob())
    handle = submit(StandInRuntime(first), tmp_path, standby=False)
    meanwhile(lambda: (first.end(JobState.FAILED, RheosError("division by zero")), ended(handle))[0])
    error = ended(submit(runtime, tmp_path))
    assert isinstance(error, JobFailedError)
    assert "failed under process" in error.what
    assert not runtime.submitted


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (JobState.RUNNING, JobFailedError("the JVM was lost")),
        (JobState.FAILED, FencedError("another driver now runs the job")),
    ],
    ids=["crashed", "replaced"],
)
def test_a_standby_takes_over_when_only_the_driver_failed(
    tmp_path: Path,
    meanwhile: Meanwhile,
    state: JobState,
    error: RheosError,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = EndingJob(), EndingJob()
    handle = submit(StandInRuntime(first), tmp_path, standby=False)
    meanwhile(lambda: (first.end(state, error), ended(handle))[0])
    taken = submit(StandInRuntime(second), tmp_path)
    assert "was lost: taking over the job 'job'" in capsys.readouterr().err
    assert note(tmp_path).outcome is None
    second.end(JobState.FINISHED)
    ended(taken)
    assert note(tmp_path).outcome is Outcome.FINISHED


def test_slots_that_restore_ahead_claim_the_job_of_a_lost_driver(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    first, second = EndingJob(), WaitingJob()
    handle, runtime = submit(StandInRuntime(first), tmp_path, standby=False), StandInRuntime(second)
    lost = JobFailedError("the JVM was lost")
    meanwhile(lambda: (first.end(JobState.RUNNING, lost), ended(handle))[0])
    meanwhile(lambda: None)  # The slots start after the first look.
    taken = submit(runtime, tmp_path, ahead=True)
    assert runtime.succeeds == ["job"]
    assert second.asked == [("prepare",), ("take",)]
    assert [record.stands_by for record in Registry().records()] == [False]
    second.end(JobState.FINISHED)
    ended(taken)
    assert note(tmp_path).outcome is Outcome.FINISHED


def test_slots_ahead_end_with_the_job(tmp_path: Path, meanwhile: Meanwhile) -> None:
    first, second = EndingJob(), WaitingJob()
    handle = submit(StandInRuntime(first), tmp_path, standby=False)
    meanwhile(lambda: (first.end(JobState.STOPPED), ended(handle))[0])
    meanwhile(lambda: None)
    assert isinstance(ended(submit(StandInRuntime(second), tmp_path, ahead=True)), JobResult)
    assert second.asked == [("prepare",), ("cancel",)]


def test_the_error_of_slots_ahead_ends_the_standby(tmp_path: Path, meanwhile: Meanwhile) -> None:
    first, second = EndingJob(), WaitingJob()
    handle = submit(StandInRuntime(first), tmp_path, standby=False)
    misfit = CheckpointError("the program does not fit the state")
    meanwhile(lambda: second.end(JobState.FAILED, misfit))
    meanwhile(lambda: None)
    with pytest.raises(CheckpointError, match="does not fit"):
        submit(StandInRuntime(second), tmp_path, ahead=True)
    assert not note(tmp_path).released
    first.end(JobState.STOPPED)
    ended(handle)


def test_slots_ahead_do_not_start_if_no_driver_runs_the_job(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    job = WaitingJob()
    runtime = StandInRuntime(job)
    handle = submit(runtime, tmp_path, ahead=True)
    assert (runtime.succeeds, job.asked) == ([None], [])
    job.end(JobState.FINISHED)
    ended(handle)


def test_an_unwritable_directory_is_refused_before_waiting(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(ConfigurationError):
        submit(StandInRuntime(EndingJob()), tmp_path / "kept")
