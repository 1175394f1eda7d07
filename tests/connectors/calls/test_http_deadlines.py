"""Every HTTP client in the sources ends its request at a deadline, however slowly the server sends."""

from __future__ import annotations

import ast
import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rheos.connectors.calls import file_systems, http_session
from rheos.connectors.opensearch import client as opensearch
from rheos.core.errors import ConfigurationError, TransportError, UnavailableError
from rheos.formats import schema_registry
from rheos.ops.control import alert_webhook
from rheos.ops.servers import jars
from rheos.ops.views import rest_reads
from tests.source_trees import SOURCES, source_trees

WITHIN_S = 0.3
TRICKLES_S = 0.02
GIVES_UP_S = 20.0
"""The trickle is longer than any client may wait, and ends with the test in any case."""


@contextmanager
def trickling(begins: bytes, tls: Any = None) -> Iterator[int]:
    """Run a server that sends `begins` at once, and then a byte at intervals. Yields its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        try:
            connection, _ = listening.accept()
            with connection if tls is None else tls.wrap_socket(connection, server_side=True) as open:
                open.recv(1 << 16)
                open.sendall(begins)
                until = time.monotonic() + GIVES_UP_S
                while not over.wait(TRICKLES_S) and time.monotonic() < until:
                    open.sendall(b" ")
        except OSError:
            pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        over.set()
        thread.join()
        listening.close()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
IN_THE_HEAD = b"HTTP/1.1 200 OK\r\nX-Header: "
BEGINS = pytest.mark.parametrize("begins", [HEAD, IN_THE_HEAD, b""], ids=["body", "head", "nothing"])


def ask_registry(url: str, _: Path) -> None:
    with pytest.raises(TransportError, match=r"longer than|timed out"):
        schema_registry.SchemaRegistry(url).schema(1)


def ask_opensearch(url: str, _: Path) -> None:
    with pytest.raises(UnavailableError, match=r"longer than|timed out"):
        opensearch.Connection(opensearch.Endpoint(url, None, None)).ask("GET", "/")


def ask_for_a_jar(url: str, folder: Path) -> None:
    jar = jars.Jar("g", "a", "1", "", "0", 1 << 20)
    with pytest.raises(OSError, match=r"longer than|timed out"):
        jars._fetch(jar, url, folder)


def post_an_alert(url: str, _: Path) -> None:
    # A status is an answer, whatever comes of the body.
    with contextlib.suppress(OSError):
        assert alert_webhook.post_json(url, b"{}", WITHIN_S) == 200


def read_a_state(url: str, _: Path) -> None:
    with pytest.raises(TransportError, match=r"longer than|timed out"):
        rest_reads.RestReads(url, "job", "token").states()


def ask_webhdfs(url: str, _: Path) -> None:
    system, _path = file_systems.url_to_fs(url.replace("http", "webhdfs"))
    with pytest.raises(TimeoutError, match="exists"):
        system.exists("/a")


def ask_google(url: str, _: Path) -> None:
    system, path = file_systems.url_to_fs("gs://bucket/a", endpoint_url=url, token="anon")
    with pytest.raises(TimeoutError, match="cat_file"):
        system.cat_file(path)


CLIENTS: dict[str, Callable[[str, Path], None]] = {
    "ops/control/alert_webhook.py": post_an_alert,
    "formats/schema_registry.py": ask_registry,
    "connectors/calls/http_session.py": ask_opensearch,
    "connectors/calls/file_systems.py": ask_google,
    "connectors/calls/webhdfs.py": ask_webhdfs,
    "ops/servers/jars.py": ask_for_a_jar,
    "ops/views/rest_reads.py": read_a_state,
}
"""By the module that makes the request."""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "TIMEOUT_S", WITHIN_S)
    monkeypatch.setattr(file_systems, "REQUEST", replace(file_systems.REQUEST, limit_s=WITHIN_S))
    monkeypatch.setattr(file_systems, "_ALIVE_S", WITHIN_S)
    monkeypatch.setattr(http_session, "ANSWER_WITHIN_S", WITHIN_S)
    monkeypatch.setattr(jars, "_TIMEOUT_S", WITHIN_S)
    monkeypatch.setattr(rest_reads, "TIMEOUT_S", WITHIN_S)


@BEGINS
@pytest.mark.parametrize("client", CLIENTS)
def test_a_slow_server_does_not_hold_a_client(client: str, begins: bytes, tmp_path: Path) -> None:
    """Check that the request ends at all: the server runs longer than any test may take."""
    with trickling(begins) as port:
        CLIENTS[client](f"http://127.0.0.1:{port}", tmp_path)


@pytest.mark.parametrize("ask", [ask_registry, ask_opensearch])
def test_a_slow_server_over_tls_does_not_hold_a_client(
    ask: Callable[[str, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ssl

    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    making = ["openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]
    curve = ["-pkeyopt", "ec_paramgen_curve:prime256v1"]
    subprocess.run(
        [*making, *curve, "-keyout", key, "-out", certificate, *subject],
        check=True,
        capture_output=True,
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with trickling(HEAD, tls) as port:
        ask(f"https://127.0.0.1:{port}", tmp_path)


def test_every_module_that_makes_requests_is_tested() -> None:
    """Check that CLIENTS has every module that imports an HTTP client, including those added later."""
    found = set()
    for path, tree in source_trees().items():
        names: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        asks = (
            "urllib.request",
            "urllib3",
            "requests",
            "httpx",
            "aiohttp",
            "rheos.connectors.calls.http_deadlines",
        )
        if any(name in asks or name.startswith("urllib3.") for name in names):
            found.add(path.relative_to(SOURCES).as_posix())
    assert found - {"connectors/calls/http_deadlines.py"} == set(CLIENTS)


def test_a_server_that_does_not_match_its_certificate_is_refused() -> None:
    """Check that the deadline's sockets keep the checks of TLS."""
    with trickling(HEAD) as port:
        endpoint = opensearch.Endpoint(f"https://127.0.0.1:{port}", None, None)
        connection = opensearch.Connection(endpoint)
        with pytest.raises((ConfigurationError, UnavailableError)):
            connection.ask("GET", "/")
