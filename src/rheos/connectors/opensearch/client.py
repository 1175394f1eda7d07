"""HTTP client of OpenSearch: address, login, and meaning of answers."""

from __future__ import annotations

import logging
import socket
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls
from rheos.connectors.calls.http_deadlines import Deadline, bound_secured, bound_tls, bounded_socket
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.opensearch.registration import CONNECTOR
from rheos.connectors.urls import check_header_value, url_parts
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, UnavailableError

LOGGER = logging.getLogger("rheos.opensearch")
"""Logger for the reasons of retries."""

MAX_ANSWER_BYTES = 1 << 26
_CONNECT_WITHIN_S = 5.0
_ANSWER_WITHIN_S = 60.0
"""Time for a whole request, up to the last byte of its answer."""
REQUEST = OutsideCall(
    server="OpenSearch",
    call="a request of the sink, or of the driver, which inspects the index",
    limit_s=75.0,
    limit="60 s for the whole request, 5 s of these to connect; 75 s if the client does not respect "
    "these",
    then="the connection is closed. After 1 s the sink stages rows next to the checkpoints, and "
    "tries to deliver them every second; rows, checkpoints and other sinks continue. A "
    "document that was already written is replaced by an equal one, because it has the same id",
)
_REASON_CHARS = 500
_MAY_PASS = (429, 500, 502, 503, 504)
"""Status codes of a request or an item that may succeed later: the server is overloaded or temporarily
down."""
_URL_HINT = 'write "https://host:9200", with user:password@ before the host if the server requires it'


@dataclass(frozen=True, repr=False)
class Endpoint:
    """Options to connect to the cluster. They are sent to the workers with the program, including
    secrets."""

    url: str
    api_key: str | None
    ca_certs: str | None

    def __post_init__(self) -> None:
        parts = url_parts(self.url, ("http", "https"), "an OpenSearch", _URL_HINT)
        if not parts.hostname or parts.query or parts.fragment:
            raise ProgramError("url= is not the URL of an OpenSearch server", hint=_URL_HINT)
        if self.api_key is not None:
            check_header_value("api_key", self.api_key)

    @property
    def address(self) -> str:
        """Return the URL without user and password."""
        parts = urlsplit(self.url)
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        return urlunsplit(bare).rstrip("/")

    def headers(self) -> dict[str, str]:
        headers: dict[str, str] = {"Content-Type": "application/x-ndjson"}
        parts = urlsplit(self.url)
        if self.api_key is not None:
            headers["Authorization"] = f"ApiKey {self.api_key}"
        elif parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        return headers

    def __repr__(self) -> str:
        return f"Endpoint({self.address!r})"


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    status: int
    content: bytes


class Connection:
    """Pool of one connection, opened when it is needed. Not thread-safe."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._headers = endpoint.headers()
        self._pool = self._make_pool()
        self._calls = BoundedCalls()

    def _make_pool(self) -> Any:
        urllib3, endpoint = client(), self._endpoint
        tls: dict[str, Any] = {} if endpoint.ca_certs is None else {"ca_certs": endpoint.ca_certs}
        pool = urllib3.PoolManager(
            num_pools=1,
            maxsize=1,
            retries=False,
            timeout=urllib3.Timeout(connect=_CONNECT_WITHIN_S, read=_ANSWER_WITHIN_S),
            **tls,
        )
        pool.pool_classes_by_scheme = _bounded_pools(endpoint.ca_certs is None)
        return pool

    def ask(self, method: str, path: str, body: bytes | None = None) -> StoreAnswer:
        """Send a request and return the answer. Raises UnavailableError without an answer, or if it
        asks to retry later; and ConfigurationError if the login is refused. Redirects are not
        followed."""
        pool = self._pool
        try:
            return self._calls.run(
                f"a request to {self._endpoint.address}",
                REQUEST.limit_s,
                lambda progressed: self._ask(pool, method, path, body),
                pool.clear,
            )
        except AbandonedCallError:
            self._pool = self._make_pool()  # The abandoned call still uses the old pool.
            raise

    def _ask(self, pool: Any, method: str, path: str, body: bytes | None) -> StoreAnswer:
        url = f"{self._endpoint.address}{path}"
        try:
            answer = pool.request(
                method,
                url,
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
        except client().exceptions.SSLError as error:
            raise ConfigurationError(
                f"the TLS handshake with {self._endpoint.address} failed: {error}",
                hint='pass the certificates of its authority: ca_certs="/etc/ssl/opensearch-ca.pem"',
            ) from None
        except (client().exceptions.HTTPError, OSError) as error:
            raise UnavailableError(
                f"{self._endpoint.address} does not answer: {error}",
                hint="check that it is up at that address. A running job is restarted by its "
                "restart strategy",
            ) from None
        except ValueError:  # The exception's message may contain what was sent.
            raise ConfigurationError(
                f"a request to {self._endpoint.address} cannot be sent",
                hint="check url=, api_key= and index=",
            ) from None
        if len(content) > MAX_ANSWER_BYTES:
            raise InputError(f"an answer of {self._endpoint.address} exceeds {MAX_ANSWER_BYTES} bytes")
        found = StoreAnswer(answer.status, content)
        if found.status in (401, 403):
            raise self.error(found, "the server rejects the user")
        if found.status in _MAY_PASS:
            raise self.error(found, "the server is overloaded")
        return found

    def error(self, answer: StoreAnswer, what: str) -> RheosError:
        """Return the error for a negative answer, with its reason."""
        hints: Mapping[int, tuple[type[RheosError], str]] = {
            401: (ConfigurationError, "set the user in the URL, or pass api_key="),
            403: (ConfigurationError, "allow the user to write to the index"),
            404: (ConfigurationError, "create the index first, or allow its automatic creation"),
            413: (InputError, "write smaller documents, or raise http.max_content_length"),
        }
        kind, hint = hints.get(answer.status, (InputError, "check the index and its mapping"))
        if answer.status in _MAY_PASS:
            kind, hint = (
                UnavailableError,
                "the server is overloaded; the job is restarted by its restart strategy",
            )
        return kind(f"{what}, at {self._endpoint.address}: {reason(answer)}", hint=hint)

    def close(self) -> None:
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
            self.deadline = self.deadline or Deadline(_ANSWER_WITHIN_S)
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


class _Cause(msgspec.Struct):
    type: str = ""
    reason: str | None = None


class _Refusal(msgspec.Struct):
    error: _Cause | str | None = None


def reason(answer: StoreAnswer) -> str:
    """Return the reason in an answer as a readable message."""
    try:
        refusal = msgspec.json.decode(answer.content, type=_Refusal).error
    except msgspec.DecodeError:
        refusal = answer.content.decode(errors="replace").strip()
    if isinstance(refusal, _Cause):
        refusal = f"{refusal.type}: {refusal.reason}"
    return f"status {answer.status}{f', {refusal}' if refusal else ''}"[:_REASON_CHARS]


def may_pass(status: int) -> bool:
    """Return whether an item of a bulk request with this status may succeed when it is sent again."""
    return status in _MAY_PASS


def client() -> ModuleType:
    """Return the module of the HTTP client. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()
