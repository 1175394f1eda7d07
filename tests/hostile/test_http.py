"""Peers without a token, at each place where Rheos listens for HTTP."""

from __future__ import annotations

import contextlib
import http.client
import shutil
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.http.webhook import Webhook
from rheos.connectors.listener.bounds import MAX_WAITING
from rheos.connectors.listener.server import Listener, listeners
from rheos.ops.control.metrics_port import MetricsPort
from rheos.ops.dashboard.serving import DashboardConfig, DashboardServer
from tests.connectors.ports import Probe
from tests.waiting import wait_for

TOKEN = "a token that is long enough"
MANY = 150
"""More than may wait, or be served."""


@dataclass
class Door:
    listener: Listener
    path: str
    """Request of an admitted peer."""
    method: str
    body: bytes | None
    headers: dict[str, str]
    status: int

    def ask(self, path: str | None = None, **headers: str) -> int:
        connection = http.client.HTTPConnection(self.listener.address, timeout=60)
        with closing(connection):
            sent = {**(self.headers if path is None else {}), **headers}
            body = self.body if path is None else None
            connection.request(self.method if path is None else "GET", path or self.path, body, sent)
            answer = connection.getresponse()
            answer.read()
            return answer.status


def dashboard(undo: ExitStack, tmp_path: Path) -> Door:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f'[oncall]\nrole = "operate"\ntoken = "{TOKEN}"\n')
    tokens.chmod(0o600)
    undo.callback(DashboardServer(DashboardConfig(port=0, tokens=tokens)).close)
    known = {"Authorization": f"Bearer {TOKEN}"}
    return Door(one("dashboard"), "/api/v1/jobs", "GET", None, known, 200)


def metrics(undo: ExitStack, tmp_path: Path) -> Door:
    undo.callback(MetricsPort("0", lambda: []).close)
    return Door(one("metrics"), "/metrics", "GET", None, {}, 200)


def webhook(undo: ExitStack, tmp_path: Path) -> Door:
    schema = pa.schema({"n": pa.int64()})
    source = rh.http.source(0, path="/rows", schema=schema, acknowledge="received", token=TOKEN)
    ctx = Probe().context()
    client = ctx.client = source.client(ctx)
    assert isinstance(client, Webhook)
    source.open(source.splits()[0], None, ctx)
    undo.callback(client.close)
    known = {"Authorization": f"Bearer {TOKEN}"}
    return Door(one("webhook"), "/rows", "POST", b'{"n": 1}', known, 202)


def one(name: str) -> Listener:
    return wait_for(lambda: next((each for each in listeners() if each.name == name), None))


@pytest.fixture(params=[dashboard, metrics, webhook], ids=lambda each: each.__name__)
def door(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Door]:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    made: Callable[[ExitStack, Path], Door] = request.param
    with ExitStack() as undo:
        yield made(undo, tmp_path)


SILENT = b""
SLOW_HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "
SLOW_BODY = b"POST /rows HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n{"
NO_READER = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "half_closed"),
    [(SILENT, False), (SILENT, True), (SLOW_HEAD, False), (SLOW_BODY, False), (NO_READER, False)],
    ids=["silent", "half-closed", "slow head", "slow body", "no reader"],
)
def test_many_connections_do_not_block_others(door: Door, sent: bytes, half_closed: bool) -> None:
    with ExitStack() as opened:
        for _ in range(MANY):
            peer = opened.enter_context(socket.create_connection(("127.0.0.1", door.listener.port), 60))
            with contextlib.suppress(OSError):
                peer.sendall(sent)
                if half_closed:
                    peer.shutdown(socket.SHUT_WR)
        assert door.ask() == door.status
        assert door.ask("/healthz") == 200
        assert door.listener.counts().waiting <= MAX_WAITING


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:80", "10.0.0.1", ""])
def test_a_page_with_another_host_name_is_refused(door: Door, host: str) -> None:
    for path in ("/", "/healthz", "/livez", "/readyz", door.path, "/openapi.json"):
        assert door.ask(path, Host=host) == 403


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_endless_handshakes_do_not_block_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    names = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", *made.split(), *names], check=True, capture_output=True)
    server = DashboardServer(DashboardConfig(port=0, certificate=certificate, key=key))
    trusting = ssl.create_default_context(cafile=str(certificate))
    with closing(server), ExitStack() as opened:
        port = server._listener.port
        for number in range(MANY):
            peer = opened.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            with contextlib.suppress(OSError):
                peer.sendall(b"\x16\x03\x01"[: number % 4])
        for path in ("healthz", ""):
            with urllib.request.urlopen(
                f"https://localhost:{port}/{path}", timeout=60, context=trusting
            ) as answer:
                assert answer.status == 200
                assert answer.read()
