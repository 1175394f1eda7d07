"""An HTTP proxy between a client and a server of an object store, which strikes requests.

The proxy draws by a seed which requests fail, and how. A request fails at most `MOST_IN_A_ROW` times in
a row, so that a client with bounded retries succeeds in the end.
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from email.message import Message
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

MOST_IN_A_ROW = 3
SLOW_S = 1.0


class HttpFault(StrEnum):
    """Kinds of failed requests."""

    THROTTLED = "throttled"
    """503 with `Retry-After`. The server does not receive the request."""
    ERROR = "error"
    """500, 502 or 504. The server does not receive the request."""
    RESET_BEFORE = "reset before"
    """The connection ends. The server does not receive the request."""
    RESET_AFTER = "reset after"
    """The connection ends after the server has processed the request: its answer is lost."""
    ERROR_AFTER = "error after"
    """500 after the server has processed the request: its answer is lost."""
    TRUNCATED = "truncated"
    """The connection ends in the middle of the answer's body."""
    SLOW = "slow"
    """The answer arrives after `SLOW_S`."""
    EXPIRED = "expired"
    """The credentials have expired. The server does not receive the request."""
    STALE = "stale"
    """A listing is answered as it was the last time."""


class Request:
    """A request of a client."""

    def __init__(self, method: str, target: str, headers: Message) -> None:
        self.method, self.headers = method, headers
        url = urlsplit(target)
        self.path, self.query = url.path, parse_qs(url.query, keep_blank_values=True)

    @property
    def lists(self) -> bool:
        """Whether it lists objects."""
        listed = "list-type" in self.query or self.query.get("comp") == ["list"]
        return self.method == "GET" and (listed or self.path.endswith("/o"))


Strike = Callable[[Request], HttpFault | None]


class Storm:
    """Strikes a share of all requests."""

    def __init__(self, seed: int, faults: Iterable[HttpFault], share: float = 0.4) -> None:
        self._rng = Random(seed)
        self._faults = sorted(faults)
        self._share = share
        self._in_a_row: Counter[tuple[str, str, str]] = Counter()

    def __call__(self, request: Request) -> HttpFault | None:
        of = request.method, request.path, str(sorted(request.query))
        if self._in_a_row[of] >= MOST_IN_A_ROW or self._rng.random() >= self._share:
            self._in_a_row[of] = 0
            return None
        self._in_a_row[of] += 1
        return self._rng.choice(self._faults)


class FaultingProxy:
    """A proxy on a free port of loopback that forwards to `port`."""

    def __init__(self, port: int = 0, dialect: str = "s3") -> None:
        self.target_port = port
        self.dialect = dialect
        self.strike: Strike = lambda request: None
        self.struck: Counter[HttpFault] = Counter()
        """Number of failed requests by fault."""
        self.lock = threading.Lock()
        self.listings: dict[str, tuple[int, list[tuple[str, str]], bytes]] = {}
        """Last answer of each listing."""
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("_Bound", (_Handler,), {"proxy": self})
        )
        self._server.daemon_threads = True
        self.port: int = self._server.server_port

    def secure(self, context: ssl.SSLContext) -> None:
        """Speak TLS with clients from now on."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def refusal(self, fault: HttpFault, request: Request) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of the answer to a request that the server never sees."""
        code, status = {
            HttpFault.THROTTLED: ("SlowDown" if self.dialect == "s3" else "ServerBusy", 503),
            HttpFault.EXPIRED: {
                "s3": ("ExpiredToken", 400),
                "gcs": ("Invalid Credentials", 401),
                "azure": ("AuthenticationFailed", 403),
            }[self.dialect],
        }.get(fault) or ("InternalError", (500, 502, 504)[self.struck[fault] % 3])
        headers = {"Retry-After": "1"} if fault is HttpFault.THROTTLED else {}
        if self.dialect == "gcs":
            body = f'{{"error": {{"code": {status}, "message": "{code}"}}}}'
            return status, headers | {"Content-Type": "application/json"}, body.encode()
        body = f"<Error><Code>{code}</Code><Message>struck</Message></Error>"
        return (
            status,
            headers | {"Content-Type": "application/xml", "x-ms-error-code": code},
            body.encode(),
        )


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    proxy: FaultingProxy

    def log_message(self, *args: Any) -> None:
        """Log nothing."""

    def _serve(self) -> None:
        sent = self._body()
        request = Request(self.command, self.path, self.headers)
        with self.proxy.lock:
            fault = self.proxy.strike(request)
            if fault is HttpFault.STALE and not request.lists:
                fault = None
            if fault is not None:
                self.proxy.struck[fault] += 1
        if fault is HttpFault.RESET_BEFORE:
            self._reset()
            return
        if fault in (HttpFault.THROTTLED, HttpFault.ERROR, HttpFault.EXPIRED):
            status, headers, body = self.proxy.refusal(fault, request)
            self._answer(status, list(headers.items()), body)
            return
        if fault is HttpFault.STALE and self.path in self.proxy.listings:
            self._answer(*self.proxy.listings[self.path])
            return
        status, headers_of_server, body = self._forward(sent)
        if request.lists:
            self.proxy.listings[self.path] = status, headers_of_server, body
        if fault is HttpFault.RESET_AFTER:
            self._reset()
        elif fault is HttpFault.ERROR_AFTER:
            refused, headers, text = self.proxy.refusal(fault, request)
            self._answer(refused, list(headers.items()), text)
        elif fault is HttpFault.TRUNCATED:
            self._answer(status, headers_of_server, body, part=len(body) // 2)
            self._reset()
        else:
            if fault is HttpFault.SLOW:
                time.sleep(SLOW_S)
            self._answer(status, headers_of_server, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _serve  # noqa: N815

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        skipped = {"transfer-encoding", "content-length", "connection", "expect"}
        server = http.client.HTTPConnection("127.0.0.1", self.proxy.target_port, timeout=30)
        try:
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in skipped:
                    server.putheader(name, value)
            server.putheader("Content-Length", str(len(body)))
            server.endheaders(body)
            answer = server.getresponse()
            headers = [each for each in answer.getheaders() if each[0].lower() not in skipped]
            if self.command == "HEAD":
                headers.append(("Content-Length", answer.getheader("Content-Length") or "0"))
            return answer.status, headers, answer.read()
        finally:
            server.close()

    def _answer(
        self, status: int, headers: list[tuple[str, str]], body: bytes, part: int | None = None
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
        elif not any(name == "Content-Length" for name, _ in headers):
            self.send_header("Content-Length", "0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:part])

    def _reset(self) -> None:
        self.wfile.flush()
        self.close_connection = True
