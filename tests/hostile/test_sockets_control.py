"""Unauthenticated peers at the control channel, and threads that fail: the job continues, or ends
with the reason."""

from __future__ import annotations

import re
import socket as sockets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlparse

import msgspec
import pytest
import zmq

from rheos.core.errors import InternalError, TransportError
from rheos.core.protocol import control
from rheos.core.protocol.ids import Attempt
from rheos.runtimes.continuous.admission import Admission
from rheos.runtimes.continuous.control import CONTROL_VERSION, Join, body_of, framed
from rheos.runtimes.continuous.control_client import ControlClient
from rheos.runtimes.continuous.control_server import AllJoined, ControlServer, Silent
from rheos.runtimes.continuous.security import Password
from tests.runtimes.continuous.test_control import FIRST, NEVER_MS, TOKEN, client, next_of, server
from tests.waiting import wait_for

NESTED = b"\x91" * 2_000 + b"\xc0"


@pytest.fixture
def context() -> Iterator[zmq.Context[Any]]:
    context: zmq.Context[Any] = zmq.Context(1)
    yield context
    context.destroy(linger=0)


@pytest.fixture
def driver() -> Iterator[ControlServer]:
    driver = server(NEVER_MS)
    driver.expect(FIRST, 1)
    yield driver
    driver.close()


@pytest.mark.parametrize(
    "frames",
    [
        [b"no message"],
        [b"\x81\xa4type\xa4Join"],
        [b"more", b"frames"],
        [b""],
        [NESTED],
        [b"x" * 16 + CONTROL_VERSION + b"\x00" + NESTED],
        [framed(b"x" * 16, Join(FIRST, 0, "tcp://evil", "1.0"))],
        [TOKEN, framed(TOKEN, Join(FIRST, 0, "tcp://evil", "1.0"))],
    ],
)
def test_unauthenticated_peers_are_dropped_and_counted(
    context: zmq.Context[Any], driver: ControlServer, frames: list[bytes]
) -> None:
    with context.socket(zmq.DEALER) as stranger:
        stranger.connect(driver.address)
        stranger.send_multipart(frames)
        wait_for(lambda: driver.strangers() == 1)
        worker = client(context, driver)
        worker._thread.start()
        assert next_of(driver, AllJoined) == AllJoined(FIRST)
        assert not stranger.poll(0), "it gets no answer"
        worker.close()


def test_a_worker_that_sends_unreadable_messages_is_dropped(
    context: zmq.Context[Any], driver: ControlServer
) -> None:
    """Two thousand nested arrays ended the driver's control thread, for ever and without a word."""
    with context.socket(zmq.DEALER) as worker:
        worker.connect(driver.address)
        worker.send(framed(TOKEN, Join(FIRST, 0, "tcp://a", "1.0")))
        next_of(driver, AllJoined)
        worker.send(TOKEN + CONTROL_VERSION + b"\x00" + NESTED)
        silent = next_of(driver, Silent)
        assert (silent.attempt, silent.subtask) == (FIRST, 0)
        assert "a worker sent an unreadable message: it is nested deeper" in str(silent.error)
    driver.expect(Attempt(2), 1)
    again = client(context, driver, attempt=Attempt(2))
    again._thread.start()
    assert next_of(driver, AllJoined) == AllJoined(Attempt(2))
    again.close()


def test_a_worker_of_another_version_fails_with_that_reason(
    context: zmq.Context[Any], driver: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with context.socket(zmq.DEALER) as older:
        older.connect(driver.address)
        older.send(TOKEN + b"\x01" + msgspec.msgpack.encode({"type": "Join", "token": TOKEN}))
        assert older.poll(60_000)
        answer = older.recv()
        assert b"uses version 01 of the control protocol, but this process uses version 03" in answer
    monkeypatch.setattr("rheos.runtimes.continuous.control.CONTROL_VERSION", b"\x04")
    with pytest.raises(TransportError, match="of the control protocol, but this process uses"):
        foreign(context)
    assert driver.strangers() == 0


def compressed(content: bytes) -> bytes:
    return TOKEN + CONTROL_VERSION + b"\x01" + content


DAMAGED = {
    "an unknown form": (TOKEN + CONTROL_VERSION + b"\x07", "the unknown form 07"),
    "no form": (TOKEN + CONTROL_VERSION, "the unknown form ?"),
    "not compressed": (compressed(b"noise"), "is damaged"),
    "truncated": (compressed(zlib.compress(bytes(1000))[:-1]), "truncated"),
    "more": (compressed(zlib.compress(bytes(1000)) + b"more"), "followed by other bytes"),
    "a bomb": (compressed(zlib.compress(bytes(100_000))), "too large"),
}


@pytest.mark.parametrize(("frame", "says"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_message_is_an_error_within_the_maximum_size(
    frame: bytes, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rheos.runtimes.continuous.control.MAX_MESSAGE_BYTES", 10_000)
    with pytest.raises(TransportError, match=re.escape(says)):
        body_of(TOKEN, frame, "a worker")


def foreign(context: zmq.Context[Any]) -> None:
    """A worker whose driver answers in another version."""
    with context.socket(zmq.ROUTER) as older:
        older.bind("inproc://older")
        join = Join(FIRST, 0, "tcp://a", "1.0")
        worker = ControlClient(context, "inproc://older", TOKEN, join, None, lambda: None, NEVER_MS)
        worker._thread.start()
        identity, _ = older.recv_multipart()
        older.send_multipart([identity, TOKEN + b"\x02" + b"\xc0"])
        worker._joined.wait(60)
        try:
            worker.receive()
        finally:
            worker.close()


# --- threads that fail --------------------------------------------------------------------------


def test_a_control_thread_that_fails_fails_the_job(
    driver: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(now: float) -> None:
        raise ValueError("unforeseen")

    monkeypatch.setattr(driver, "_give_up_silent", breaks)
    driver._thread.join(60)
    driver.wait(60_000)
    with pytest.raises(InternalError, match="ValueError: unforeseen"):
        driver.poll()


def test_an_admission_that_fails_fails_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody would be let in any more, and nobody would know why."""

    def breaks(self: Admission, request: list[bytes]) -> list[bytes]:
        raise ValueError("unforeseen")

    monkeypatch.setattr(Admission, "_reply", breaks)
    security = Password(TOKEN)
    driver = ControlServer("tcp://127.0.0.1:*", TOKEN, "1.0", security, NEVER_MS, peers=1)
    with zmq.Context() as context, context.socket(zmq.DEALER) as worker:
        worker.setsockopt(zmq.LINGER, 0)
        security.connecting(worker)
        worker.connect(driver.address)
        driver._thread.join(60)
        with pytest.raises(InternalError, match="ValueError: unforeseen"):
            driver.poll()
    driver.close()


def test_a_workers_control_thread_that_fails_fails_the_slot(
    context: zmq.Context[Any], driver: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = client(context, driver)

    def breaks(message: object) -> bool:
        raise ValueError("unforeseen")

    monkeypatch.setattr(worker, "_take", breaks)
    with pytest.raises(InternalError, match="ValueError: unforeseen"):
        worker.start()
    with pytest.raises(InternalError, match="ValueError: unforeseen"):
        worker.receive()
    worker.send(control.Drained(attempt=FIRST, subtask=0))
    worker.close()


# --- connections --------------------------------------------------------------------------------


def test_unidentified_connections_do_not_use_up_file_handles(
    context: zmq.Context[Any],
) -> None:
    """A thousand took all of the driver's, and the job could not write its log until they left."""
    security = Password(TOKEN)
    router = context.socket(zmq.ROUTER)
    admission = Admission(context, router, security, "tcp://127.0.0.1:*", 1000, peers=1, most=8)
    host, port = str(urlparse(admission.address).hostname), int(urlparse(admission.address).port or 0)
    ours = context.socket(zmq.DEALER)
    security.connecting(ours)
    ours.connect(admission.address)
    ours.send(b"before")
    assert router.poll(60_000)
    assert router.recv_multipart()[1] == b"before"
    idle = [sockets.create_connection((host, port)) for _ in range(30)]
    wait_for(lambda: admission.refused == 30 - 7)
    for connection in idle[7:]:
        connection.settimeout(60)
        while connection.recv(100):
            pass  # What a socket says first; then it has hung up.
    ours.send(b"meanwhile")
    assert router.poll(60_000)
    assert router.recv_multipart()[1] == b"meanwhile", "who was let in stays"
    for connection in idle:
        connection.close()
    later = context.socket(zmq.DEALER)
    security.connecting(later)
    later.connect(admission.address)
    later.send(b"later")
    assert router.poll(60_000)
    assert router.recv_multipart()[1] == b"later"
    admission.close()
    for socket in (router, ours, later):
        socket.close(linger=0)


def test_an_admission_that_closes_during_a_connection_does_not_hang(
    context: zmq.Context[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZeroMQ waits for ever to tell of a connection where the socket that it tells it to is closed."""
    router = context.socket(zmq.ROUTER)
    admission = Admission(context, router, Password(TOKEN), "tcp://127.0.0.1:*", 1000, peers=1)
    address = urlparse(admission.address)
    heard: list[bytes] = []
    disable = zmq.Socket.disable_monitor

    def at_the_last_moment(listening: zmq.Socket[bytes]) -> None:
        with sockets.create_connection((str(address.hostname), int(address.port or 0)), 5) as stranger:
            heard.append(stranger.recv(1))
        disable(listening)

    monkeypatch.setattr(zmq.Socket, "disable_monitor", at_the_last_moment)
    admission.close()
    assert heard == [b"\xff"], "ZeroMQ's greeting, which it says when it has told of the connection"
    router.close(linger=0)


@contextmanager
def an_admission() -> Iterator[tuple[Admission, tuple[str, int]]]:
    """With where it is."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        admission = Admission(context, router, Password(TOKEN), "tcp://127.0.0.1:*", 1000, peers=1)
        address = urlparse(admission.address)
        yield admission, (str(address.hostname), int(address.port or 0))
        admission.close()


def test_a_failed_admission_is_closed_despite_new_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(self: Admission, event: int, handle: int) -> None:
        raise ValueError("unforeseen")

    monkeypatch.setattr(Admission, "_note", breaks)
    with an_admission() as (admission, at):
        for _ in range(3_000):
            sockets.create_connection(at, timeout=60).close()
        with pytest.raises(InternalError, match="ValueError: unforeseen"):
            admission.check()
