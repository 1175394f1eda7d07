"""HTTP client of OpenSearch: address, login, and meaning of answers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from urllib.parse import urlsplit

import msgspec

from rheos.connectors.calls.http_session import (
    LIMIT,
    LIMIT_S,
    MAY_PASS,
    HttpAnswer,
    HttpSession,
    address_of,
    basic_login,
)
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.opensearch.registration import CONNECTOR
from rheos.connectors.urls import check_header_value, url_parts
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, UnavailableError

LOGGER = logging.getLogger("rheos.opensearch")
"""Logger for the reasons of retries."""

REQUEST = OutsideCall(
    server="OpenSearch",
    call="a request of the sink, or of the driver, which inspects the index",
    limit_s=LIMIT_S,
    limit=LIMIT,
    then="the connection is closed. After 1 s the sink stages rows next to the checkpoints, and "
    "tries to deliver them every second; rows, checkpoints and other sinks continue. A "
    "document that was already written is replaced by an equal one, because it has the same id",
)
_REASON_CHARS = 500
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
        return address_of(self.url)

    def headers(self) -> dict[str, str]:
        headers: dict[str, str] = {"Content-Type": "application/x-ndjson"}
        if self.api_key is not None:
            headers["Authorization"] = f"ApiKey {self.api_key}"
        else:
            headers |= basic_login(urlsplit(self.url))
        return headers

    def __repr__(self) -> str:
        return f"Endpoint({self.address!r})"


class Connection:
    """Session with the cluster. Not thread-safe."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._session = HttpSession(
            client(), REQUEST, endpoint.address, endpoint.headers(), endpoint.ca_certs
        )

    def ask(self, method: str, path: str, body: bytes | None = None) -> HttpAnswer:
        """Send a request and return the answer. Raises UnavailableError without an answer, or if it
        asks to retry later; and ConfigurationError if the login is refused."""
        found = self._session.ask(method, path, body)
        if found.status in (401, 403):
            raise self.error(found, "the server rejects the user")
        if found.status in MAY_PASS:
            raise self.error(found, "the server is overloaded")
        return found

    def error(self, answer: HttpAnswer, what: str) -> RheosError:
        """Return the error for a negative answer, with its reason."""
        hints: Mapping[int, tuple[type[RheosError], str]] = {
            401: (ConfigurationError, "set the user in the URL, or pass api_key="),
            403: (ConfigurationError, "allow the user to write to the index"),
            404: (ConfigurationError, "create the index first, or allow its automatic creation"),
            413: (InputError, "write smaller documents, or raise http.max_content_length"),
        }
        kind, hint = hints.get(answer.status, (InputError, "check the index and its mapping"))
        if answer.status in MAY_PASS:
            kind, hint = (
                UnavailableError,
                "the server is overloaded; the job is restarted by its restart strategy",
            )
        return kind(f"{what}, at {self._endpoint.address}: {reason(answer)}", hint=hint)

    def close(self) -> None:
        self._session.close()


class _Cause(msgspec.Struct):
    type: str = ""
    reason: str | None = None


class _Refusal(msgspec.Struct):
    error: _Cause | str | None = None


def reason(answer: HttpAnswer) -> str:
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
    return status in MAY_PASS


def client() -> ModuleType:
    """Return the module of the HTTP client. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()
