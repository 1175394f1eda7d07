"""Deadlines for whole HTTP requests, for clients built on `http.client`.

A socket's timeout bounds each read separately. A server that sends one byte every few seconds never
exceeds it, and can block its client forever. Sockets of this module bound all their operations
together: each operation gets the time that is left until a deadline. Each request sets a new deadline.

The deadline covers connecting, TLS, sending, and reading head and body. It does not cover looking up
the host name, which the operating system bounds.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
import urllib.request
from functools import cached_property
from typing import Any


class Deadline:
    """Point in time by which a request must have ended. The sockets of a connection share one."""

    def __init__(self, within_s: float) -> None:
        self.within_s = within_s
        self._until_s = 0.0
        self.restart()

    def restart(self) -> None:
        """Restart the deadline for the next request."""
        self._until_s = time.monotonic() + self.within_s

    def left_s(self) -> float:
        """Return the seconds that are left. Raises TimeoutError if none are."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"the request took longer than {self.within_s:g} s")
        return left_s


class _DeadlineSocket(socket.socket):
    deadline: Deadline

    # `http.client` reads by `recv_into` and sends by `sendall`. Python applies a socket's timeout to a
    # whole `sendall`.

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(self.deadline.left_s())
        return super().recv_into(*args, **kwargs)

    def recv(self, *args: Any, **kwargs: Any) -> bytes:
        self.settimeout(self.deadline.left_s())
        return super().recv(*args, **kwargs)

    def send(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(self.deadline.left_s())
        return super().send(*args, **kwargs)

    def sendall(self, *args: Any, **kwargs: Any) -> None:
        self.settimeout(self.deadline.left_s())
        super().sendall(*args, **kwargs)


class _DeadlineTlsSocket(ssl.SSLSocket):
    deadline: Deadline | None = None
    """The request's deadline; None during the handshake, to which Python applies the timeout as a
    whole."""

    # `recv` and `recv_into` of the superclass call `read`; its `sendall` calls `send`.

    def read(self, *args: Any, **kwargs: Any) -> Any:
        if self.deadline is not None:
            self.settimeout(self.deadline.left_s())
        return super().read(*args, **kwargs)

    def send(self, *args: Any, **kwargs: Any) -> int:
        if self.deadline is not None:
            self.settimeout(self.deadline.left_s())
        return super().send(*args, **kwargs)


def bounded_socket(sock: socket.socket, deadline: Deadline) -> socket.socket:
    """Return the connected socket as one whose operations end at the deadline."""
    bounded = _DeadlineSocket(sock.family, sock.type, sock.proto, sock.detach())
    bounded.deadline = deadline
    bounded.settimeout(deadline.left_s())
    return bounded


def bound_tls(context: ssl.SSLContext) -> ssl.SSLContext:
    """Make the context's sockets accept a deadline, which `bound_secured` sets once they are
    connected."""
    context.sslsocket_class = _DeadlineTlsSocket
    return context


def bound_secured(sock: Any, deadline: Deadline) -> None:
    """Set the deadline of a socket whose context was passed to `bound_tls`. Other sockets are
    unchanged."""
    if isinstance(sock, _DeadlineTlsSocket):
        sock.deadline = deadline


class _PlainConnection(http.client.HTTPConnection):
    """Connection for a single request, as `urllib.request` makes it."""

    def connect(self) -> None:
        assert isinstance(self.timeout, float)
        self.deadline = Deadline(self.timeout)
        self._create_connection = self._connected
        super().connect()

    def _connected(self, *args: Any) -> socket.socket:
        return bounded_socket(socket.create_connection(*args), self.deadline)


class _SecuredConnection(_PlainConnection, http.client.HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        bound_secured(self.sock, self.deadline)


class _PlainHandler(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(_PlainConnection, request)


class _SecuredHandler(urllib.request.HTTPSHandler):
    def __init__(self, ca_certs: str | None) -> None:
        super().__init__()
        self._ca_certs = ca_certs

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(_SecuredConnection, request, context=self._tls)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Context of all connections. Reading the certificates of a system takes milliseconds."""
        return bound_tls(ssl.create_default_context(cafile=self._ca_certs))


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Handler that refuses redirects, so that a request and its secrets go only to the configured
    address."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def opener(*handlers: Any, ca_certs: str | None = None) -> urllib.request.OpenerDirector:
    """Return an opener of `urllib.request` whose `timeout=` bounds a request as a whole, not each read.

    The response is under the same deadline: reading it raises TimeoutError. `ca_certs` is a file with
    the certificates against which that of the server is checked; by default those of the system.
    """
    return urllib.request.build_opener(_PlainHandler, _SecuredHandler(ca_certs), *handlers)
