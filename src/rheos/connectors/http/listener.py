"""A small HTTP server in threads of its own: what the webhook source and the event sink listen with.

Nothing of a request is trusted. What is bounded: how many connections there are, how long and how large
the head of a request is, how long its body may take and how large it may be, and how long an answer may
wait for its reader. Each connection is for one request.

On loopback without a token, only requests that name this machine are answered, and those of a page of
another site are not: a browser would send them for any page that its user visits.
"""

from __future__ import annotations

import contextlib
import hmac
import io
import json
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import responses
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from rheos.connectors.headers import check_header_value
from rheos.errors import ConfigurationError, ProgramError

LOGGER = logging.getLogger("rheos.http")
"""Where a source or a sink listens, and what has gone wrong in an answer."""

MOST_CONNECTIONS = 1024
"""Each has a thread."""
_HEAD_BYTES = 1 << 14
_REQUEST_WITHIN_S = 15.0
"""The head and the body of a request."""
_ANSWER_WITHIN_S = 10.0
"""For each piece of an answer, that its reader takes it."""
_DRAIN_BYTES = 1 << 20
_DRAIN_WITHIN_S = 1.0
_BIND_WITHIN_S = 30.0
"""An attempt that was killed may still have the port for a while."""
_BIND_AGAIN_S = 0.2
_END_WITHIN_S = 3.0
_LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class ListenAt:
    """Where to listen, and who may come."""

    host: str
    port: int
    token: str | None
    max_connections: int

    def __post_init__(self) -> None:
        if not isinstance(self.port, int) or not 0 <= self.port < 1 << 16:
            raise ProgramError(f"port={self.port!r} is no port", hint="0 takes a free one")
        if self.token is not None:
            check_header_value("token", self.token)
        most = MOST_CONNECTIONS
        if not isinstance(self.max_connections, int) or not 0 < self.max_connections <= most:
            raise ProgramError(f"max_connections={self.max_connections!r} is not between 1 and {most}")
        if not self.is_loopback and self.token is None:
            raise ProgramError(
                f"host={self.host!r} lets anybody in the network come",
                hint='give a token="..." that they must send (Authorization: Bearer ...), or leave out '
                "host: then only this machine is let in",
            )

    @property
    def is_loopback(self) -> bool:
        return _is_loopback(self.host)

    def __repr__(self) -> str:
        return f"ListenAt({self.host!r}, {self.port}{'' if self.token is None else ', token=***'})"


class HttpError(Exception):
    """The answer to a request that is not to be served."""

    def __init__(self, status: int, why: str, **headers: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why
        self.headers = headers


class HttpExchange:
    """One request and its answer."""

    def __init__(self, handler: _Handler) -> None:
        url = urlsplit(handler.path)
        self.method = handler.command
        self.path = url.path
        self.query: Mapping[str, list[str]] = parse_qs(url.query, max_num_fields=16)
        self.headers = handler.headers
        self._handler = handler

    def body(self, max_bytes: int) -> bytes:
        """The whole body. Raises HttpError where its length is not said, or is too large."""
        said = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (said.isascii() and said.isdigit()):
            raise HttpError(411, "say the length of the body: Content-Length")
        if len(said) > 18 or int(said) > max_bytes:
            raise HttpError(413, f"the body has more than {max_bytes} bytes")
        self._handler.limit.allow(int(said))
        body: bytes = self._handler.rfile.read(int(said))
        if len(body) < int(said):
            raise HttpError(400, "the body has ended before its length")
        return body

    def sender_is_gone(self) -> bool:
        """Whether nobody waits for the answer any more. Looks without waiting; to be asked when the
        body is read. One that has ended its side and still listens counts as gone, too: clients of
        HTTP that wait for an answer keep both sides open."""
        connection = self._handler.connection
        try:
            connection.settimeout(0)
            return not connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def answer(self, status: int, content: bytes, kind: str, **headers: str) -> None:
        """Sends an answer. `headers` have `_` for `-`."""
        self.begin(status, kind, Content_Length=str(len(content)), **headers)
        self.send(content)

    def answer_json(self, status: int, content: Any, **headers: str) -> None:
        self.answer(status, json.dumps(content).encode() + b"\n", "application/json", **headers)

    def begin(self, status: int, kind: str, **headers: str) -> None:
        """Sends the head of an answer whose content comes by `send`."""
        handler = self._handler
        handler.connection.settimeout(_ANSWER_WITHIN_S)
        handler.send_response_only(status)
        own = {"Content-Type": kind, "Connection": "close", "X-Content-Type-Options": "nosniff"}
        for name, value in {"Cache_Control": "no-store", **own, **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()

    def send(self, content: bytes) -> None:
        """Raises OSError where the reader is gone, or does not take it."""
        self._handler.wfile.write(content)


Serve: TypeAlias = Callable[[HttpExchange], None]
"""Answers one request, in a thread of its own. May raise HttpError."""


class Listener:
    """Listens from `start` to `close`; `serve` is called for each request that is let in."""

    def __init__(self, at: ListenAt, serve: Serve) -> None:
        self.at = at
        self._serve = serve
        self._server: _Server | None = None
        self._closing = threading.Event()

    @property
    def address(self) -> str:
        """host:port. Known once it listens."""
        assert self._server is not None
        host, port = str(self._server.server_address[0]), self._server.server_address[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def start(self) -> None:
        """Returns when it listens, or is closed meanwhile; waits for the port for a while. Raises
        ConfigurationError where somebody else has it, or there is no such address."""
        deadline_s = time.monotonic() + _BIND_WITHIN_S
        while not self._closing.is_set():
            try:
                self._server = _Server(self.at, self._serve)
                break
            except OSError as error:
                if time.monotonic() > deadline_s:
                    raise ConfigurationError(
                        f"nothing can listen at {self.at.host}:{self.at.port}: {error}",
                        hint="is another program there? port=0 takes a free port, and logs which",
                    ) from None
            self._closing.wait(_BIND_AGAIN_S)
        else:
            return
        server = self._server
        threading.Thread(
            target=server.serve_forever, args=(_LOOK_EVERY_S,), name="rheos-http", daemon=True
        ).start()
        if self._closing.is_set():
            self.close()

    def close(self) -> None:
        """Ends all connections; those whose answers are under way have a few seconds. May be called
        again."""
        self._closing.set()
        if self._server is not None:
            self._server.end()


class _Limit(io.RawIOBase):
    """What a request reads of its connection: so many bytes, and until a moment."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._left_bytes = _HEAD_BYTES
        self._deadline_s = time.monotonic() + _REQUEST_WITHIN_S

    def allow(self, more_bytes: int) -> None:
        self._left_bytes += more_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0 or self._left_bytes <= 0:
            raise TimeoutError("the request is too slow, or its head too large")
        self._connection.settimeout(left_s)
        read = self._connection.recv_into(buffer[: self._left_bytes])
        self._left_bytes -= read
        return read


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.limit = _Limit(self.connection)
        self.rfile.close()
        self.rfile = io.BufferedReader(self.limit, 4096)

    def handle(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):  # Of a peer that is slow, or has gone.
            self.handle_one_request()

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(_HEAD_BYTES)
        if not self.raw_requestline or not self.parse_request():
            return
        try:
            exchange = HttpExchange(self)
        except ValueError:
            self.send_error(400)
            return
        try:
            self._let_in(exchange)
            self.server.serve(exchange)
        except HttpError as refused:
            exchange.answer_json(refused.status, {"error": refused.why}, **refused.headers)
            self._drain()
        except OSError:
            raise
        except Exception:
            LOGGER.exception("a request could not be answered")
            exchange.answer_json(500, {"error": "it is logged where the job runs"})

    def _let_in(self, exchange: HttpExchange) -> None:
        at = self.server.at
        if at.token is not None:
            said = exchange.headers.get("Authorization", "")
            given = [said.removeprefix("Bearer ")] if said.startswith("Bearer ") else []
            if exchange.method == "GET":  # A browser's EventSource can send no header.
                given += exchange.query.get("token", [])
            known = at.token.encode()
            if not any(hmac.compare_digest(each.encode(), known) for each in given):
                raise HttpError(
                    401, "send the token: Authorization: Bearer ...", WWW_Authenticate="Bearer"
                )
        elif not _is_loopback(_host_of(exchange.headers.get("Host", ""))):
            raise HttpError(403, "the request does not name this machine, and there is no token")

    def _drain(self) -> None:
        """What was not read of a body: else its sender is cut off before it has the answer."""
        left, deadline_s = _DRAIN_BYTES, time.monotonic() + _DRAIN_WITHIN_S
        self.connection.shutdown(socket.SHUT_WR)
        while left > 0 and (wait_s := deadline_s - time.monotonic()) > 0:
            self.connection.settimeout(wait_s)
            read = len(self.connection.recv(1 << 16))
            if not read:
                return
            left -= read

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Of what the parser refuses."""
        self.request_version = self.protocol_version
        self.wfile.write(_refusal(code, responses.get(code, "it is not understood").lower()))

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, at: ListenAt, serve: Serve) -> None:
        self.at = at
        self.serve = serve
        self._lock = threading.Condition()
        self._open: set[socket.socket] = set()
        self.address_family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
        super().__init__((at.host, at.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            is_full = len(self._open) >= self.at.max_connections
            if not is_full:
                self._open.add(request)
        if is_full:
            with contextlib.suppress(OSError):
                request.settimeout(0)
                request.send(_refusal(503, "there are too many connections", "Retry-After: 1"))
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._lock:
            self._open.discard(request)
            self._lock.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        LOGGER.exception("a connection has failed")

    def end(self) -> None:
        self.shutdown()
        self.server_close()
        with self._lock:
            self._lock.wait_for(lambda: not self._open, _END_WITHIN_S)
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def _refusal(status: int, why: str, *headers: str) -> bytes:
    """A whole answer, to who gets no further."""
    content = json.dumps({"error": why}).encode() + b"\n"
    head = [
        f"HTTP/1.1 {status} {responses.get(status, '')}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join([*head, "", ""]).encode() + content


def _host_of(said: str) -> str:
    """Without the port."""
    if said.startswith("["):
        return said[1:].partition("]")[0]
    return said.partition(":")[0]


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
