"""A driver of a handover is killed at one of its steps. The other one continues soon, and the next
command reports the situation and a remedy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rheos.core.checkpoint.handover_situation import Situation
from rheos.core.errors import ConfigurationError, TransportError
from rheos.core.protocol.ids import JobId, JobKey
from rheos.ops.control import handover
from rheos.ops.control.driver_note import HeldNote
from rheos.ops.control.processes import ProcessId, this_process
from rheos.ops.control.registry import JobRecord, Registry
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job import JobConfig
from rheos.runtimes.job_operations import GetSuccession, TakeJob

JOB = JobId("orders")
CONFIG = JobConfig(JOB, checkpoint_dir="kept", succeeds=JOB)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def killed() -> ProcessId:
    """Return a process of this machine that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return msgspec.structs.replace(this_process(), pid=process.pid)


def listed(process: ProcessId, driver: str, *, waits: bool) -> JobRecord:
    """List a driver of the job, as it lists itself."""
    record = JobRecord(
        key=JobKey(CONFIG.key),
        job=JOB,
        name=JOB,
        process=process,
        runtime="continuous",
        checkpoint_dir="kept",
        started_ms=1,
        endpoint="ipc://nowhere",
        token="",
        driver=driver,
        stands_by=waits,
    )
    Registry().add(record)
    return record


def answers(monkeypatch: pytest.MonkeyPatch, situation: Situation | None) -> None:
    """Let the driver that waits answer with its situation; it does not answer if that is None."""

    def ask(operation: Any) -> Any:
        assert operation == GetSuccession(checked=False)
        if situation is None:
            raise TransportError("no answer")
        return SimpleNamespace(situation=situation)

    monkeypatch.setattr(handover, "JobClient", lambda record, timeout_s: SimpleNamespace(ask=ask))


def refusals() -> list[ConfigurationError]:
    """Return the errors of the next `rheos upgrade` and of the next `rheos rollback`."""
    with pytest.raises(ConfigurationError) as upgrade:
        handover.find_predecessor(CONFIG)
    with pytest.raises(ConfigurationError) as rollback:
        handover.roll_back(JOB, 0)
    return [upgrade.value, rollback.value]


def test_the_job_continues_if_the_command_is_killed_before_the_handover(killed: ProcessId) -> None:
    """It is killed while it compares, starts, restores state, or before the log names it."""
    incumbent = listed(this_process(), "v1", waits=False)
    listed(killed, "v2", waits=True)
    assert handover.find_predecessor(CONFIG) == incumbent
    with pytest.raises(ConfigurationError, match="no earlier version of the job") as refused:
        handover.roll_back(JOB, 0)
    assert "rheos upgrade orders FILE" in str(refused.value.hint)


@pytest.mark.parametrize("situation", [Situation.OFFERED, Situation.TAKEN])
def test_a_command_waits_until_the_earlier_program_has_taken_the_job_back(
    killed: ProcessId, situation: Situation, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(this_process(), "v1", waits=True)
    listed(killed, "v2", waits=True)
    answers(monkeypatch, situation)
    for refused in refusals():
        assert f"is being handed over, and no driver runs it at the moment: {this_process()}" in str(
            refused
        )
        assert "repeat the command" in str(refused.hint)


@pytest.mark.parametrize("situation", [Situation.OTHER_RUNS, Situation.NAMED])
def test_a_command_waits_until_the_new_program_has_taken_the_job(
    killed: ProcessId, situation: Situation, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(killed, "v1", waits=False)
    listed(this_process(), "v2", waits=True)
    answers(monkeypatch, situation)
    for refused in refusals():
        assert f"{this_process()} continues it" in str(refused)


def test_an_earlier_program_that_is_kept_ready_does_not_continue_alone(
    killed: ProcessId, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new driver is killed after its first checkpoint."""
    listed(this_process(), "v1", waits=True)
    listed(killed, "v2", waits=False)
    answers(monkeypatch, Situation.CONFIRMED)
    for refused in refusals():
        assert "the driver that continued it after the upgrade has ended" in str(refused)
        assert "rheos run FILE" in str(refused.hint)


@pytest.mark.parametrize("situation", [Situation.FINISHED, None])
def test_other_jobs_are_reported_as_usual(
    killed: ProcessId, situation: Situation | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(this_process(), "v1", waits=True)
    answers(monkeypatch, situation)
    for refused in refusals():
        assert "is only a standby for it" in str(refused)


def test_a_job_whose_drivers_are_both_killed_does_not_run(killed: ProcessId) -> None:
    listed(killed, "v1", waits=True)
    listed(killed, "v2", waits=False)
    for refused in refusals():
        assert f"does not run here: its driver, {killed}, was lost" in str(refused)
        assert "rheos run FILE" in str(refused.hint)


class Offering:
    """The handle of a driver that has offered its job, until it takes the job back."""

    def __init__(self, situation: Situation) -> None:
        self.situation: Situation | None = situation
        self.looks = 0

    def ask(self, operation: Any) -> Any:
        match operation:
            case GetSuccession():
                self.looks += 1
                return SimpleNamespace(situation=self.situation)
            case TakeJob():
                self.situation = None
        return None

    def takes_back(self, folder: Path, successors: list[JobRecord]) -> bool:
        """Return whether it takes the job back within three looks."""
        note = HeldNote(open_store(str(folder), durable=False), JOB, this_process(), "v1", 0)
        note.take()
        handle: Any = self
        return handover.watch_successor(handle, note, lambda within_s: self.looks >= 3, successors)


@pytest.mark.parametrize("situation", [Situation.OFFERED, Situation.TAKEN])
def test_the_job_is_taken_back_at_once_from_a_killed_process(
    tmp_path: Path, killed: ProcessId, situation: Situation
) -> None:
    own = listed(this_process(), "v1", waits=False)
    successor = listed(this_process(), "v2", waits=True)
    assert handover.waiting_drivers(own) == [successor]
    assert not Offering(situation).takes_back(tmp_path, [successor])
    dead = msgspec.structs.replace(successor, process=killed)
    assert Offering(situation).takes_back(tmp_path, [dead])
    # The successor may run on another machine: the limits of the log apply.
    assert not Offering(situation).takes_back(tmp_path, [])
    assert not Offering(Situation.CONFIRMED).takes_back(tmp_path, [dead])
