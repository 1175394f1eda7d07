"""A listener over real sockets: how slow and silent peers are treated, and that others are served."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from rheos.connectors.listener.bounds import Bounds
from rheos.connectors.listener.connection import HttpConnection
from rheos.connectors.listener.exchange import HttpExchange, ThreadedService
from rheos.connectors.listener.head import HttpError, RequestHead
from rheos.connectors.listener.place import HostNames, listening_socket
from rheos.connectors.listener.server import Listener, listeners
from tests.waiting import wait_for

TOKEN = "open sesame"
PATIENT = Bounds(2, max_body_bytes=100, max_waiting=4, linger_s=0.05)
"""No deadline passes: only newer connections end the older ones."""
IMPATIENT = Bounds(
    2, 1 << 24, head_s=0.05, body_s=0.05, answer_piece_s=0.05, untrusted_answer_s=0.2, linger_s=0.05
)


@dataclass
class Served:
    """Handling of a request."""

    may_answer: threading.Event = field(default_factory=threading.Event)
    content: bytes = b"done"
    seen: list[str] = field(default_factory=list)

    def handle(self, exchange: HttpExchange) -> None:
        self.seen.append(f"{exchange.method} {exchange.path} {len(exchange.body)}")
        if exchange.path == "/wait":
            self.may_answer.wait(60)
        if exchange.path == "/refused":
            raise HttpError(418, "no")
        if exchange.path == "/broken":
            raise KeyError("a defect")
        exchange.answer(200, self.content, "text/plain")


class Running:
    def __init__(self, bounds: Bounds, token: str | None, served: Served) -> None:
        made = listening_socket("127.0.0.1", 0)
        service = ThreadedService(served.handle, token)
        self.listener = Listener("test", made, service, bounds, HostNames.of("127.0.0.1"))
        self.served = served
        self._opened = ExitStack()

    def connect(self, sent: bytes = b"") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.listener.port), 60)
        self._opened.enter_context(made)
        made.sendall(sent)
        return made

    def ask(self, path: str = "/", body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.listener.address, timeout=60)
        with contextlib.closing(connection):
            method = "GET" if body is None else "POST"
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def known(self, path: str = "/", body: bytes | None = None) -> tuple[int, bytes]:
        return self.ask(path, body, Authorization=f"Bearer {TOKEN}")

    def close(self) -> None:
        self.served.may_answer.set()
        self.listener.close()
        self._opened.close()


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Iterator[Running]:
    bounds, token = request.param
    running = Running(bounds, token, Served())
    yield running
    running.close()


with_token = pytest.mark.parametrize("run", [(PATIENT, TOKEN)], indirect=True)
without_token = pytest.mark.parametrize("run", [(PATIENT, None)], indirect=True)
either = pytest.mark.parametrize("run", [(PATIENT, TOKEN), (PATIENT, None)], indirect=True)
KNOWN = b"\r\nHost: localhost\r\nAuthorization: Bearer open sesame\r\n\r\n"
HEAD = b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n"


@either
@pytest.mark.parametrize("sent", [b"", HEAD, HEAD + b"\r\nabc", b"\0", b"\r\n"])
def test_newer_connections_replace_silent_ones(run: Running, sent: bytes) -> None:
    silent = [run.connect(sent) for _ in range(12)]
    assert run.known() == (200, b"done")
    assert run.ask("/healthz")[0] == 200
    with contextlib.suppress(ConnectionResetError):
        wait_for(lambda: silent[0].recv(1 << 16) == b"")
    assert run.listener.counts().waiting <= PATIENT.max_waiting


@with_token
def test_requests_without_a_token_are_not_served(run: Running) -> None:
    assert [run.ask()[0], run.ask("/", b"abc")[0], run.ask(Authorization="Bearer x")[0]] == [401] * 3
    assert run.ask("/healthz", Host="evil.example")[0] == 403
    assert run.served.seen == []
    assert run.listener.counts().refused == 4


@without_token
def test_another_name_is_refused_without_a_token(run: Running) -> None:
    assert run.ask(Host="evil.example:80")[0] == 403
    assert run.connect(b"GET / HTTP/1.1\r\n\r\n").recv(100).startswith(b"HTTP/1.1 403 ")
    assert run.ask(Host="localhost:1")[0] == 200


@either
def test_health_is_answered_while_all_places_are_in_use(run: Running) -> None:
    waiting = [threading.Thread(target=run.known, args=("/wait",)) for _ in range(2)]
    for each in waiting:
        each.start()
    wait_for(lambda: run.listener.counts().admitted == 2)
    status, why = run.known()
    assert (status, why) == (503, b'{"error": "too many connections"}\n')
    assert run.ask("/healthz") == (200, b'{"healthy": true}\n')
    run.served.may_answer.set()
    for each in waiting:
        each.join(60)


@either
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000, b"431"),
        (HEAD.replace(b"50", b"101") + b"Authorization: Bearer open sesame\r\n\r\n", b"413"),
        (
            b"GET /refused HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer open sesame\r\n\r\n",
            b"418",
        ),
        (
            b"GET /broken HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer open sesame\r\n\r\n",
            b"500",
        ),
    ],
)
def test_invalid_requests_are_answered(run: Running, sent: bytes, status: bytes) -> None:
    """Check this also while the rest of the request is still being sent."""
    connection = run.connect(sent)
    assert connection.recv(100).startswith(b"HTTP/1.1 " + status)


@with_token
def test_a_body_may_be_announced(run: Running) -> None:
    known = b"Authorization: Bearer open sesame\r\nExpect: 100-continue\r\n\r\n"
    connection = run.connect(HEAD + known)
    assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.sendall(b"x" * 50)
    connection.shutdown(socket.SHUT_WR)  # A peer that has ended its side still gets the answer.
    assert b"done" in b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert run.served.seen == ["POST /a 50"]


@pytest.mark.parametrize("run", [(IMPATIENT, TOKEN), (IMPATIENT, None)], indirect=True)
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        HEAD,
        HEAD + b"Authorization: Bearer open sesame\r\n\r\nabc",
        b"GET /much HTTP/1.1" + KNOWN,
    ],
    ids=["silent", "head", "body", "reader"],
)
def test_no_peer_exceeds_the_deadlines(run: Running, sent: bytes) -> None:
    """Check a slow head, a slow body, and a reader that does not read."""
    run.served.content = b"x" * (1 << 23)
    run.connect(sent)
    wait_for(lambda: run.listener.counts().late == 1)
    assert (run.listener.counts().waiting, run.listener.counts().admitted) == (0, 0)


def test_closing_ends_waiting_requests_and_leaves_nothing() -> None:
    running = Running(Bounds(4, end_s=0.05), None, Served())
    silent = running.connect()
    waiting = running.connect(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
    wait_for(lambda: running.listener.counts().admitted == 1)
    assert running.listener in listeners()
    running.listener.close()
    assert (silent.recv(10), waiting.recv(10)) == (b"", b"")
    assert running.listener not in listeners()
    running.listener.close()
    listening_socket("127.0.0.1", running.listener.port).close()
    running.close()


def test_an_async_service_receives_the_peer() -> None:
    class Peer:
        uses_tokens = False

        def knows(self, head: RequestHead) -> bool:
            return False

        is_open = is_health = knows

        async def serve(self, connection: HttpConnection, head: RequestHead, body: bytes) -> None:
            await asyncio.sleep(0)
            await connection.answer_json(200, connection.peer)

    made = listening_socket("127.0.0.1", 0)
    listener = Listener("test", made, Peer(), PATIENT, None)
    with contextlib.closing(listener), socket.create_connection(("127.0.0.1", listener.port)) as asking:
        asking.sendall(b"GET / HTTP/1.1\r\nHost: any.example\r\n\r\n")
        assert b'"127.0.0.1"' in b"".join(iter(lambda: asking.recv(1 << 16), b""))
