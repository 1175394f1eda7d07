"""Commands sent over a real socket to a stand-in for a running job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from rheos.core.checkpoint.driver_note import DriverNote
from rheos.core.errors import CheckpointError, ConfigurationError, JobFailedError, Site, TransportError
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import JobId
from rheos.ops.control.command_messages import MAX_REQUEST_BYTES, encoded_request
from rheos.ops.control.commands import JobClient
from rheos.ops.control.controlled_jobs import ControlledJob, ControlledRuntime
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import JobRecord, Registry
from rheos.runtimes.job import JobConfig
from rheos.runtimes.job_operations import GetStatus
from tests.cli.stand_ins import INFO, STATUS, STORY, StandIn, outline


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def job() -> Iterator[StandIn]:
    made = StandIn()
    yield made
    made.allowed.set()
    made.over.set()


@pytest.fixture
def controlled(home: Path, job: StandIn) -> Iterator[ControlledJob]:
    made = ControlledJob(job, outline(), config(checkpoint_dir="/data"), "continuous")
    yield made
    job.over.set()
    job.failure = None
    made.wait()


def config(**settings: Any) -> JobConfig:
    shown = (("checkpoint_interval", "10s"), ("state.backend", "memory"))
    return JobConfig(job=JobId("job"), settings=shown, **settings)


def record() -> JobRecord:
    (found,) = Registry().records()
    return found


def threads() -> set[str]:
    """Return the names of threads of jobs. A client of another test may still have a thread for its
    calls."""
    names = {thread.name for thread in threading.enumerate() if thread.name.startswith("rheos-")}
    return names - {"rheos-client-call"}


@pytest.mark.usefixtures("controlled")
def test_a_client_receives_the_answers_of_the_job() -> None:
    client = JobClient(record(), 20)
    assert client.status() == STATUS
    assert client.checkpoints() == [INFO]
    assert client.decisions() == list(STORY)
    assert client.plan() == outline()
    settings = client.settings()
    assert settings == {"checkpoint_interval": "10s", "state.backend": "memory"}


@pytest.mark.usefixtures("controlled")
def test_commands_reach_the_job(job: StandIn) -> None:
    job.allowed.set()
    client = JobClient(record(), 20)
    assert client.savepoint("/s") == "/s/savepoint-1"
    assert client.savepoint(None) == "None/savepoint-1"
    assert client.stop("s3://b", drain=True) == "s3://b/savepoint-1"
    assert job.asked == [("savepoint", "/s"), ("savepoint", None), ("stop", "s3://b", True)]


def test_a_slow_savepoint_does_not_block_other_commands(
    controlled: ControlledJob, job: StandIn
) -> None:
    taken: list[str] = []
    waiting = threading.Thread(target=lambda: taken.append(JobClient(record(), 20).savepoint("/s")))
    waiting.start()
    assert JobClient(record(), 20).status() == STATUS
    assert taken == []
    job.allowed.set()
    waiting.join(20)
    assert taken == ["/s/savepoint-1"]


@pytest.mark.usefixtures("controlled")
def test_the_number_of_waiting_commands_is_bounded(job: StandIn) -> None:
    waiting = [
        threading.Thread(target=lambda: JobClient(record(), 20).savepoint("/s")) for _ in range(8)
    ]
    for thread in waiting:
        thread.start()
    for _ in range(2_000):
        if len(job.asked) == 8:
            break
        threading.Event().wait(0.01)
    with pytest.raises(ConfigurationError, match="the job is already answering 8 commands"):
        JobClient(record(), 20).savepoint("/s")
    assert JobClient(record(), 20).checkpoints() == [INFO]
    JobClient(record(), 20).cancel()
    job.allowed.set()
    for thread in waiting:
        thread.join(20)


@pytest.mark.usefixtures("controlled")
def test_cancel_returns_after_the_job_is_cancelled(job: StandIn) -> None:
    JobClient(record(), 20).cancel()
    assert job.over.is_set()


@pytest.mark.usefixtures("controlled")
def test_an_error_reaches_the_client_unchanged(job: StandIn) -> None:
    job.allowed.set()
    job.savepoint_failure = CheckpointError(
        "the disk is full",
        site=Site("job.py", 3),
        operator="map",
        hint="make room",
        detail="more",
    )
    with pytest.raises(CheckpointError) as caught:
        JobClient(record(), 20).savepoint("/s")
    assert str(caught.value) == str(job.savepoint_failure)
    job.savepoint_failure = ValueError("unforeseen")
    with pytest.raises(Exception, match="ValueError: unforeseen"):
        JobClient(record(), 20).savepoint("/s")


@pytest.mark.usefixtures("controlled")
@pytest.mark.parametrize(
    "request_of",
    [
        lambda found: b"guessed" + encoded_request(found.job, GetStatus()),
        lambda found: found.token.encode() + encoded_request(JobId("another"), GetStatus()),
        lambda found: found.token.encode() + b"\xc1 no msgpack",
        lambda found: b"x" * (MAX_REQUEST_BYTES + 1),
    ],
    ids=["token", "job", "garbage", "size"],
)
def test_requests_without_a_valid_token_get_no_answer(
    request_of: Callable[[JobRecord], bytes],
) -> None:
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(record().endpoint)
        socket.send(request_of(record()))
        assert replace(JobClient(record(), 20).status(), strangers=0) == STATUS
        assert not socket.poll(100)


@pytest.mark.usefixtures("controlled")
def test_the_client_times_out_if_the_job_is_slow(job: StandIn) -> None:
    with pytest.raises(TransportError, match=r"\) has not answered for 0\.1 s"):
        JobClient(record(), 0.1).savepoint("/s")
    job.allowed.set()


@pytest.mark.usefixtures("controlled")
def test_the_client_reports_a_driver_that_has_died() -> None:
    gone = msgspec.structs.replace(this_process(), started_s=0.5)
    unheard = msgspec.structs.replace(record(), process=gone, token="another")
    with pytest.raises(CheckpointError, match="ended before it answered"):
        JobClient(unheard, 20).status()


@pytest.mark.usefixtures("controlled")
def test_a_job_on_another_host_is_refused_with_that_host() -> None:
    away = msgspec.structs.replace(
        record(), process=msgspec.structs.replace(this_process(), host="away", boot="another")
    )
    with pytest.raises(TransportError, match="on host away, and its control socket is only there"):
        JobClient(away, 20).status()


# --- the life of a controlled job ---------------------------------------------------------------


def test_the_registry_has_a_record_while_the_job_runs(controlled: ControlledJob, job: StandIn) -> None:
    found = record()
    assert (found.job, found.name, found.runtime) == ("job", "a job", "continuous")
    assert (found.checkpoint_dir, found.process) == ("/data", this_process())
    with pytest.raises(TimeoutError):
        controlled.wait(0.0)
    assert record() == found
    job.over.set()
    controlled.wait()
    assert (Registry().records(), threads()) == ([], set())


def test_a_failed_job_leaves_no_record_or_thread(controlled: ControlledJob, job: StandIn) -> None:
    job.failure = JobFailedError("a slot was lost")
    job.over.set()
    with pytest.raises(JobFailedError):
        controlled.wait()
    assert (Registry().records(), threads()) == ([], set())


@pytest.mark.usefixtures("controlled")
def test_an_ended_job_that_nobody_awaits_leaves_no_record_or_thread(job: StandIn) -> None:
    job.over.set()
    for _ in range(2_000):
        if not threads():
            break
        threading.Event().wait(0.01)
    assert (Registry().records(), threads()) == ([], set())


def test_a_registry_that_cannot_be_written_does_not_fail_the_job(
    tmp_path: Path, job: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "file"))
    lonely = ControlledJob(job, outline(), config(), "batch")
    assert "runs, but commands cannot reach it" in capsys.readouterr().err
    assert lonely.status() == STATUS
    job.over.set()
    lonely.wait()
    assert threads() == set()


class StandInRuntime:
    """Runtime whose jobs are stand-ins."""

    def __init__(self, job: StandIn | Exception) -> None:
        self.job = job
        self.settled: tuple[Any, int] | None = None
        """The job, and how many jobs were to be found by then."""

    def submit(self, plan: Any, config: JobConfig, listener: Any = None) -> Any:
        if isinstance(self.job, Exception):
            raise self.job
        return self.job

    def settle(self, job: Any, config: JobConfig) -> None:
        self.settled = job, len(Registry().records())


def submit(runtime: StandInRuntime, directory: Path) -> ControlledJob:
    return ControlledRuntime("continuous", runtime).submit(
        PhysicalPlan("a job", (), (), parallelism=1, max_parallelism=128),
        config(checkpoint_dir=str(directory)),
    )


@pytest.mark.usefixtures("home")
def test_a_second_driver_is_refused_until_the_job_has_ended(tmp_path: Path, job: StandIn) -> None:
    first = submit(StandInRuntime(job), tmp_path)
    with pytest.raises(ConfigurationError, match=f"'job' in {tmp_path} is being run by process"):
        submit(StandInRuntime(StandIn()), tmp_path)
    other = StandIn()
    elsewhere = submit(StandInRuntime(other), tmp_path / "elsewhere")
    assert len(Registry().records()) == 2
    for ended, handle in ((other, elsewhere), (job, first)):
        ended.over.set()
        handle.wait()
    again = StandIn()
    again.over.set()
    submit(StandInRuntime(again), tmp_path).wait()
    assert (Registry().records(), threads()) == ([], set())


@pytest.mark.usefixtures("home")
def test_cleanup_runs_after_the_job_is_in_the_registry(tmp_path: Path, job: StandIn) -> None:
    runtime = StandInRuntime(job)
    handle = submit(runtime, tmp_path)
    assert runtime.settled == (job, 1)
    job.over.set()
    handle.wait()


@pytest.mark.usefixtures("home")
def test_a_job_that_cannot_start_releases_its_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no slots"):
        submit(StandInRuntime(ConfigurationError("no slots")), tmp_path)
    (note,) = tmp_path.rglob("driver.json")
    assert msgspec.json.decode(note.read_bytes(), type=DriverNote).released
    assert (Registry().records(), threads()) == ([], set())
