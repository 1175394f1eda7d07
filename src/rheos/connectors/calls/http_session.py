"""Requests to one HTTP server, each of which ends at a deadline. For stores that are used over HTTP."""

from __future__ import annotations

import socket
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls
from rheos.connectors.calls.http_deadlines import Deadline, bound_secured, bound_tls, bounded_socket
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.core.errors import ConfigurationError, InputError, UnavailableError

MAX_ANSWER_BYTES = 1 << 26
ANSWER_WITHIN_S = 60.0
"""Time for a whole request, up to the last byte of its answer."""
_CONNECT_WITHIN_S = 5.0
LIMIT_S = 75.0
LIMIT = "60 s for the whole request, 5 s of these to connect; 75 s if the client does not respect these"
"""Limit of a request, for an `OutsideCall`."""
MAY_PASS = (429, 500, 502, 503, 504)
"""Status codes of requests that may succeed later: the server is overloaded or temporarily down."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    content: bytes


def address_of(url: str) -> str:
    """Return the URL without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")


def basic_login(parts: SplitResult) -> dict[str, str]:
    """Return the header for the user and the password of a URL; none if it has no user."""
    if parts.username is None:
        return {}
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}


class HttpSession:
    """Pool of one connection, opened when it is needed. Not thread-safe.

    Args:
        library: urllib3, which is an optional dependency.
        request: What a request is, with its limit.
        address: URL of the server, without user and password.
        headers: Headers of each request.
        ca_certs: File with the certificates that the server's certificate is checked against.
    """

    def __init__(
        self,
        library: ModuleType,
        request: OutsideCall,
        address: str,
        headers: Mapping[str, str],
        ca_certs: str | None,
    ) -> None:
        self._library = library
        self._request = request
        self._address = address
        self._headers = dict(headers)
        self._ca_certs = ca_certs
        self._pool = self._make_pool()
        self._calls = BoundedCalls()

    def _make_pool(self) -> Any:
        urllib3: Any = self._library
        tls: dict[str, Any] = {} if self._ca_certs is None else {"ca_certs": self._ca_certs}
        pool = urllib3.PoolManager(
            num_pools=1,
            maxsize=1,
            retries=False,
            timeout=urllib3.Timeout(connect=_CONNECT_WITHIN_S, read=ANSWER_WITHIN_S),
            **tls,
        )
        pool.pool_classes_by_scheme = _bounded_pools(self._ca_certs is None)
        return pool

    def ask(self, method: str, path: str, body: bytes | None = None) -> HttpAnswer:
        """Send a request and return the answer, whatever its status. Redirects are not followed.

        Args:
            method: Method of HTTP.
            path: Path of the URL, with its query.
            body: Body of the request.

        Returns:
            The answer.

        Raises:
            UnavailableError: There was no answer.
            ConfigurationError: The TLS handshake failed, or the request cannot be sent.
            InputError: The answer is too long.
        """
        pool = self._pool
        try:
            return self._calls.run(
                f"a request to {self._address}",
                self._request.limit_s,
                lambda progressed: self._ask(pool, method, path, body),
                pool.clear,
            )
        except AbandonedCallError:
            self._pool = self._make_pool()  # The abandoned call still uses the old pool.
            raise

    def _ask(self, pool: Any, method: str, path: str, body: bytes | None) -> HttpAnswer:
        errors: Any = self._library.exceptions
        try:
            answer = pool.request(
                method,
                f"{self._address}{path}",
                body=body,
                headers=self._headers,
                redirect=False,
                preload_content=False,
                # no compression was requested, and content could expand without bound
                decode_content=False,
            )
            try:
                content = answer.read(MAX_ANSWER_BYTES + 1)
            finally:
                answer.release_conn() if answer.length_remaining == 0 else answer.close()
        except errors.SSLError as error:
            raise ConfigurationError(
                f"the TLS handshake with {self._address} failed: {error}",
                hint='pass the certificates of its authority: ca_certs="/etc/ssl/authority.pem"',
            ) from None
        except (errors.HTTPError, OSError) as error:
            raise UnavailableError(
                f"{self._address} does not answer: {error}",
                hint="check that it is up at that address. A running job is restarted by its "
                "restart strategy",
            ) from None
        except ValueError:  # The exception's message may contain what was sent.
            raise ConfigurationError(
                f"a request to {self._address} cannot be sent",
                hint="check the arguments, such as url=, and user and password",
            ) from None
        if len(content) > MAX_ANSWER_BYTES:
            raise InputError(f"an answer of {self._address} exceeds {MAX_ANSWER_BYTES} bytes")
        return HttpAnswer(answer.status, content)

    def close(self) -> None:
        """Close the connection."""
        self._pool.clear()
        self._calls.close()


def _bounded_pools(default_certs: bool) -> Mapping[str, Any]:
    """Return the client's connection pools, changed so that each request has a deadline as a whole."""
    import ssl

    import urllib3.connection
    import urllib3.connectionpool
    from urllib3.util.ssl_ import create_urllib3_context

    class Plain(urllib3.connection.HTTPConnection):
        deadline: Deadline | None = None

        def _new_conn(self) -> socket.socket:
            self.deadline = self.deadline or Deadline(ANSWER_WITHIN_S)
            self.deadline.restart()
            return bounded_socket(super()._new_conn(), self.deadline)

        def request(self, *args: Any, **kwargs: Any) -> None:
            if self.deadline is not None:
                self.deadline.restart()
            super().request(*args, **kwargs)

    class SecuredConnection(Plain, urllib3.connection.HTTPSConnection):
        def connect(self) -> None:
            if self.ssl_context is None:
                self.ssl_context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
                if default_certs:
                    self.ssl_context.load_default_certs()
            bound_tls(self.ssl_context)
            super().connect()
            assert self.deadline is not None
            bound_secured(self.sock, self.deadline)

    class PlainPool(urllib3.connectionpool.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecuredPool(urllib3.connectionpool.HTTPSConnectionPool):
        ConnectionCls = SecuredConnection

    return {"http": PlainPool, "https": SecuredPool}
