"""A driver requests a job only from the driver that runs it."""

from __future__ import annotations

from dataclasses import replace as copied
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rheos.core.checkpoint.handover_situation import Situation
from rheos.core.errors import CheckpointError, ConfigurationError, TransportError
from rheos.core.protocol.ids import JobId
from rheos.ops.control import handover
from rheos.ops.control.driver_note import HeldNote
from rheos.ops.control.processes import ProcessId, this_process
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job import JobConfig
from rheos.runtimes.job_operations import GetSuccession, SuccessionAnswer, WithdrawWait

JOB = JobId("orders")


def process(pid: int) -> ProcessId:
    """Return a process on another host, whose state is unknown here."""
    return msgspec.structs.replace(this_process(), host="elsewhere", machine="other", boot="b", pid=pid)


class Waiting:
    """The handle of a driver that waits for the job until it is withdrawn."""

    def __init__(self) -> None:
        self.is_withdrawn = False

    def ask(self, operation: Any) -> Any:
        match operation:
            case GetSuccession():
                return SuccessionAnswer("v2", Situation.OTHER_RUNS, True, True)
            case WithdrawWait():
                self.is_withdrawn = True
            case other:
                raise AssertionError(other)
        return None

    def status(self) -> Any:
        return SimpleNamespace(state=SimpleNamespace(is_over=self.is_withdrawn))


class Job:
    """A job whose note has changed hands, and the driver that wants to succeed it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = open_store(str(folder), durable=False)
        self.waiting = Waiting()
        self.requests = 0
        self.running: Any = SimpleNamespace(job=JOB, process=process(1), driver="d1")
        monkeypatch.setattr(handover, "JobClient", self._client)
        monkeypatch.setattr(handover, "_LOOK_S", 0)
        monkeypatch.setattr(handover, "LOOK_EVERY_MS", 0)

    def runs_in(self, pid: int) -> None:
        HeldNote(self.store, JOB, process(pid), f"owner {pid}", 0).take()

    def _client(self, record: Any, timeout_s: float) -> Any:
        return SimpleNamespace(ask=self._lost)

    def _lost(self, operation: Any) -> Any:
        self.requests += 1
        self.runs_in(3)
        raise TransportError("the driver does not answer")

    def take_over(self) -> None:
        note = HeldNote(self.store, JOB, this_process(), "successor", 0)
        waiting: Any = self.waiting
        handover.take_over(waiting, note, self.running, 0, lambda: None)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(tmp_path, monkeypatch)


def test_a_job_that_another_driver_continued_is_not_requested(job: Job) -> None:
    job.runs_in(2)
    with pytest.raises(CheckpointError, match="another driver has continued it meanwhile, process 2"):
        job.take_over()
    assert job.waiting.is_withdrawn
    assert not job.requests


def test_a_driver_does_not_wait_for_a_third_one(job: Job) -> None:
    """The driver of the job is lost during the request, and another one continues."""
    job.runs_in(1)
    with pytest.raises(CheckpointError, match="another driver has continued it meanwhile, process 3"):
        job.take_over()
    assert job.waiting.is_withdrawn
    assert job.requests == 1


def test_a_comparison_holds_only_for_the_driver_that_was_compared(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = JobConfig(JOB, succeeds=JOB, succeeds_driver="d1")
    job.running.key = config.key
    monkeypatch.setattr(handover, "find_running", lambda wanted: job.running)
    assert handover.find_predecessor(config) == job.running
    assert handover.find_predecessor(copied(config, succeeds_driver=None)) == job.running
    job.running.driver = "d2"
    with pytest.raises(ConfigurationError, match="than when this command compared the programs"):
        handover.find_predecessor(config)
