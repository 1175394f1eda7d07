"""Commands through the checkpoint directory, as from another host. The job is a stand-in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pytest

from rheos.cli.jobs import operate, show_jobs
from rheos.core.checkpoint.events import Outcome
from rheos.core.errors import CheckpointError, ConfigurationError, JobFailedError, TransportError
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.ports import Store
from rheos.ops.control import mailbox
from rheos.ops.control.command_messages import MAX_REQUEST_BYTES, encode, encoded_request
from rheos.ops.control.commands import JobClient
from rheos.ops.control.controlled_jobs import ControlledJob
from rheos.ops.control.driver_note import HeldNote, NoteKeeper
from rheos.ops.control.mailbox import Mailbox, Request
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import JobRecord, Registry
from rheos.ops.control.running_jobs import find_running, running_in
from rheos.runtimes.host.io import SystemClock
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job import JobConfig, JobState
from rheos.runtimes.job_operations import CancelJob, GetStatus, StopJob
from tests.cli.stand_ins import INFO, STATUS, StandIn, outline
from tests.waiting import wait_for

JOB = JobId("job")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_EVERY_S", "_POLL_S", "_NOTE_EVERY_S"):
        monkeypatch.setattr(mailbox, name, 0.01)


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoints")


@pytest.fixture
def job() -> StandIn:
    return StandIn()


@pytest.fixture
def controlled(
    job: StandIn, directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ControlledJob]:
    """The job of a driver. Afterwards this process has another home, as a command on another host."""
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "driver"))
    keeper = NoteKeeper(held_note(directory))
    config = JobConfig(job=JOB, checkpoint_dir=directory)
    made = ControlledJob(job, outline(), config, "continuous", keeper)
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "client"))
    yield made
    job.allowed.set()
    job.over.set()
    job.failure = None
    made.wait()


def held_note(directory: str, owner: str = "owner") -> HeldNote:
    note = HeldNote(open_store(directory), JOB, this_process(), owner, 1)
    note.acquire(SystemClock(), sleep, directory)
    return note


def slot_of(directory: str) -> Path:
    return Path(directory, "job", "control", "owner", "request")


def request(operation: object, id: str = "0" * 32) -> bytes:
    asked = encoded_request(JOB, operation)  # type: ignore[arg-type]
    return encode(Request(id=id, timeout_s=60, request=asked))


@pytest.mark.usefixtures("controlled")
def test_a_job_answers_by_its_name_and_directory(directory: str) -> None:
    assert Registry().records() == []
    client = JobClient(find_running(f"job@{directory}"))
    assert client.status() == STATUS
    assert client.checkpoints() == [INFO]
    assert list(Path(directory, "job", "control").rglob("*/*/*")) == []


@pytest.mark.usefixtures("controlled")
def test_the_jobs_of_a_directory_are_listed(directory: str, capsys: pytest.CaptureFixture[str]) -> None:
    open_store(directory).put("job/log/1", b"")
    assert show_jobs(directory, as_json=True) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["id"], found["name"], found["state"]) == ("job", "a job", "running")


@pytest.mark.usefixtures("controlled")
def test_a_command_that_ends_the_job_is_answered(
    job: StandIn, directory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job.allowed.set()
    assert operate(f"job@{directory}", StopJob(directory="/s"), "20s") == 0
    assert capsys.readouterr().out.strip().startswith("/s")
    assert job.over.is_set()
    with pytest.raises(ConfigurationError, match="no driver runs the job 'job'"):
        find_running(f"job@{directory}")
    assert running_in(directory) == []


@pytest.mark.usefixtures("controlled")
def test_the_directory_has_no_secret(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "driver"))
    (record,) = Registry().records()
    stored = [file.read_bytes() for file in Path(directory).rglob("*") if file.is_file()]
    assert stored
    for secret in (record.token, record.endpoint):
        assert not any(secret.encode() in data for data in stored)


@pytest.mark.usefixtures("controlled")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91" * 100_000,
        b"x" * (2 * MAX_REQUEST_BYTES + 1),
        request(GetStatus())[:-1],
        request(CancelJob()).replace(b"0" * 32, b"../../../../../../../../../../x0"),
        encode({"id": "0" * 32, "timeout_s": 1.0, "request": b"\xc1"}),
        encode({"id": "0" * 32, "timeout_s": 1e300, "request": encoded_request(JOB, CancelJob())}),
    ],
)
def test_a_request_that_no_client_sends_is_deleted(data: bytes, job: StandIn, directory: str) -> None:
    open_store(directory).put("job/control/owner/request", data)
    wait_for(lambda: not slot_of(directory).exists())
    assert JobClient(find_running(f"job@{directory}")).status() == STATUS
    assert not job.over.is_set()


def test_a_request_to_an_earlier_driver_is_not_carried_out(job: StandIn, directory: str) -> None:
    store = open_store(directory)
    store.put("job/control/earlier/request", request(CancelJob()))
    store.put(f"job/control/earlier/answers/{32 * 'a'}", b"")
    store.put("job/control/earlier/of-the-user", b"")
    box = Mailbox(store, a_record(), "owner")
    box.start()
    wait_for(lambda: store.list("job/control") == ["job/control/earlier/of-the-user"])
    box.close()
    assert not job.over.is_set()


class Undeletable:
    """A store whose first deletions fail."""

    def __init__(self, store: Store, failures: int) -> None:
        self._store = store
        self.failures = failures

    def delete(self, path: str) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("the store does not respond")
        self._store.delete(path)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def a_record() -> JobRecord:
    return JobRecord(
        key=JOB, driver="owner", job=JOB, name="a job", process=this_process(), runtime="continuous",
        checkpoint_dir=None, started_ms=1, endpoint="tcp://nowhere", token="",
    )  # fmt: skip


def test_a_request_whose_deletion_fails_is_carried_out_once(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    monkeypatch.setattr(
        mailbox, "ask_by_socket", lambda record, request, _: asked.append(request) or b"a"
    )
    store = open_store(directory)
    flaky = Undeletable(store, failures=3)
    box = Mailbox(flaky, a_record(), "owner")  # type: ignore[arg-type]
    store.put("job/control/owner/request", request(CancelJob()))
    box.start()
    wait_for(lambda: not slot_of(directory).exists())
    box.close()
    assert flaky.failures == 0
    assert len(asked) == 1


def test_a_request_that_is_posted_again_is_carried_out_once(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client did not receive the store's answer to the first post. Another request came between."""
    asked: list[bytes] = []
    monkeypatch.setattr(
        mailbox, "ask_by_socket", lambda record, request, _: asked.append(request) or b"a"
    )
    store = open_store(directory)
    box = Mailbox(store, a_record(), "owner")
    box.start()
    for number in (1, 2, 1):
        store.put("job/control/owner/request", request(GetStatus(), f"{number:032}"))
        wait_for(lambda: not slot_of(directory).exists())
    box.close()
    assert len(asked) == 2


def test_answers_that_nobody_reads_are_bounded(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "MAX_ANSWERS", 2)
    monkeypatch.setattr(mailbox, "ask_by_socket", lambda *_: b"a")
    store = open_store(directory)
    box = Mailbox(store, a_record(), "owner")
    box.start()
    for number in range(5):
        store.put("job/control/owner/request", request(GetStatus(), f"{number:032}"))
        wait_for(lambda: not slot_of(directory).exists())
    box.close()
    assert 0 < len(store.list("job/control/owner/answers")) <= 2


def test_a_driver_that_ends_without_an_answer_is_reported(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "_ENDS_WITHIN_S", 0.01)
    note = held_note(directory)
    client = JobClient(find_running(f"job@{directory}"))
    note.release(Outcome.FAILED)
    with pytest.raises(CheckpointError, match="the job 'job' ended before it answered"):
        client.status()
    assert not slot_of(directory).exists()


def test_a_driver_that_does_not_answer_is_reported(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "_LEAST_TIMEOUT_S", 0.05)
    held_note(directory)
    with pytest.raises(TransportError, match="has not answered for"):
        JobClient(find_running(f"job@{directory}"), 0.05).status()
    assert not slot_of(directory).exists()


def test_a_job_that_the_directory_lacks_is_named(directory: str) -> None:
    held_note(directory)
    open_store(directory).put("job/log/1", b"")
    with pytest.raises(ConfigurationError, match=r"no job 'other' in .*checkpoints") as caught:
        find_running(f"other@{directory}")
    assert caught.value.hint == "its jobs are: job"
    with pytest.raises(ConfigurationError, match="no job 'job@nowhere' is running"):
        find_running("job@nowhere")


@pytest.mark.usefixtures("controlled")
def test_a_refusal_is_raised_as_the_job_raised_it(job: StandIn, directory: str) -> None:
    job.savepoint_failure = JobFailedError("no", hint="ask again")
    job.allowed.set()
    with pytest.raises(JobFailedError, match="no") as caught:
        JobClient(find_running(f"job@{directory}")).savepoint()
    assert caught.value.hint == "ask again"
    assert job.status().state is JobState.RUNNING
