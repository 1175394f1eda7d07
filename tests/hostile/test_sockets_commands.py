"""Unauthenticated peers at the command server of a running job."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from rheos.core.protocol.ids import JobId
from rheos.ops.control.command_messages import encoded_request
from rheos.ops.control.commands import JobClient
from rheos.ops.control.controlled_jobs import ControlledJob
from rheos.ops.control.registry import Registry
from rheos.runtimes.job import JobConfig
from rheos.runtimes.job_operations import GetStatus
from tests.cli.stand_ins import STATUS, StandIn, outline

NESTED = b"\x91" * 2_000 + b"\xc0"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlledJob]:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    stand_in = StandIn()
    made = ControlledJob(stand_in, outline(), JobConfig(job=JobId("job")), "continuous")
    yield made
    stand_in.over.set()
    made.wait()


def test_only_the_same_user_can_connect(job: ControlledJob) -> None:
    (record,) = Registry().records()
    path = record.endpoint.removeprefix("ipc://")
    assert stat.S_ISSOCK(os.stat(path).st_mode)
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


@pytest.mark.parametrize(
    "frames",
    [
        [NESTED],
        [b"", NESTED],
        [b"", encoded_request(JobId("job"), GetStatus())],
        [b""] * 1000,
        [b"", b"", b"", b""],
    ],
    ids=["nested", "delimited", "no token", "many parts", "empty parts"],
)
def test_unauthenticated_peers_are_counted_and_commands_still_work(
    job: ControlledJob, frames: Any
) -> None:
    """Two thousand nested arrays ended the command thread: nobody could stop the job any more."""
    (record,) = Registry().records()
    with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        stranger.setsockopt(zmq.LINGER, 0)
        stranger.connect(record.endpoint)
        stranger.send_multipart(frames)
        deadline = time.monotonic() + 60
        while job.status().strangers == 0:
            assert time.monotonic() < deadline
            assert JobClient(record, 60).status().name == STATUS.name
        assert JobClient(record, 60).status().strangers == 1
        assert not stranger.poll(0)


def test_nested_arrays_after_the_token_end_no_thread(job: ControlledJob) -> None:
    (record,) = Registry().records()
    with zmq.Context() as context, context.socket(zmq.REQ) as peer:
        peer.setsockopt(zmq.LINGER, 0)
        peer.connect(record.endpoint)
        peer.send(record.token.encode() + NESTED)
        assert JobClient(record, 60).status().name == STATUS.name


def test_a_defect_of_the_server_is_reported_and_the_next_command_answered(
    job: ControlledJob, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (record,) = Registry().records()
    assert job._server is not None
    real = job._server._request
    failures = iter([RecursionError("unforeseen")])
    broke = threading.Event()

    def breaks_once(frames: list[bytes]) -> Any:
        for failure in failures:
            broke.set()
            raise failure
        return real(frames)

    monkeypatch.setattr(job._server, "_request", breaks_once)
    with zmq.Context() as context, context.socket(zmq.REQ) as peer:
        peer.setsockopt(zmq.LINGER, 0)
        peer.connect(record.endpoint)
        peer.send(b"x")
        assert broke.wait(60)
    assert JobClient(record, 60).status() == STATUS
    # The server's one thread has said it before it answered.
    assert "unforeseen" in capsys.readouterr().err
