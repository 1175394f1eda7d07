"""Reads of a job on another machine, over the REST interface of `rheos dashboard`."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import msgspec

from rheos.connectors.calls.bounded_calls import ThreadCalls
from rheos.connectors.calls.http_deadlines import NoRedirects, opener
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.listener.bounds import HEAD_BYTES
from rheos.connectors.listener.place import is_loopback
from rheos.core.errors import ConfigurationError, RheosError, TransportError, UnavailableError
from rheos.core.protocol.error_data import MAX_ERROR_BYTES, ErrorData
from rheos.core.redaction import redacted
from rheos.core.version import VERSION
from rheos.runtimes.job_methods import JobReads
from rheos.runtimes.job_operations import answer_type
from rheos.runtimes.operation_contract import MAX_READ_BYTES, REST_BASE, JobOperation

T = TypeVar("T")

READ = OutsideCall(
    server="REST of a job",
    call="a read of `rh.query`",
    limit_s=35.0,
    limit="30 s for the whole request; 35 s if resolving the host name takes longer",
    then="the read raises `TransportError`; no job depends on it",
)
TIMEOUT_S = 30.0
"""Seconds for a whole request, up to the last byte of its answer."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
_MAX_PATH_CHARS = HEAD_BYTES - 2048
"""Maximum length of path and query. The rest of the head is for the token and other headers. A longer
request is posted."""


class RestReads(JobReads):
    """Client of one job, for any thread. The server's refusals are raised as the same exceptions as on
    the machine of the job."""

    def __init__(self, url: str, job: str, token: str, ca_certs: str | None = None) -> None:
        """Create a client, without a request.

        Args:
            url: Address of the dashboard, such as "https://jobs.example:8484".
            job: Name, id or key of the job.
            token: Token with the role `read` or `operate`.
            ca_certs: File with the certificates of the authority of the server.

        Raises:
            ConfigurationError: The address, the token or the file is unusable, or the token would
                travel unencrypted.
        """
        self._address = _address_of(url)
        if not token.isascii() or not token.isprintable() or not token:
            raise ConfigurationError("token= is not a token", hint="pass it without spaces and lines")
        try:
            ssl.create_default_context(cafile=ca_certs)
        except OSError as error:
            raise ConfigurationError(
                f"ca_certs={ca_certs!r} cannot be read: {error}", hint="pass a file in the form PEM"
            ) from error
        self._path = f"{REST_BASE}/jobs/{quote(job, safe='')}"
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": f"rheos/{VERSION}"}
        self._open = opener(NoRedirects, ca_certs=ca_certs).open
        self._calls = ThreadCalls()

    def ask(self, operation: JobOperation[T]) -> T:
        """Return the job's answer to an operation that reads.

        Raises:
            RheosError: The error with which the job or the server refuses.
            TransportError: The server cannot be reached, or its answer is invalid.
        """
        fields = msgspec.structs.asdict(operation)
        query = {name: _query_parameter(value) for name, value in fields.items() if value is not None}
        path = f"{self._path}/{operation.name}"
        in_path, body = f"{path}?{urlencode(query)}", None
        if len(in_path) <= _MAX_PATH_CHARS:
            path = in_path
        else:
            body = _body(fields)
        try:
            data = self._calls.run(
                f"a read of {self._address}", READ.limit_s, lambda progressed: self._fetch(path, body)
            )
        except UnavailableError as error:
            raise TransportError(error.what, hint=error.hint) from None
        try:
            answer: T = _decoder(type(operation)).decode(data)
            return answer
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise TransportError(
                f"{self._address} sent an unreadable answer: {error}",
                hint="use the version of Rheos that serves the job",
            ) from error

    def _fetch(self, path: str, posted: bytes | None) -> bytes:
        request = urllib.request.Request(self._address + path, posted, self._headers)
        try:
            with self._open(request, timeout=TIMEOUT_S) as answer:
                data: bytes = answer.read(MAX_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise TransportError(
                f"{self._address} cannot be reached: {reason}",
                hint="check that `rheos dashboard` runs at this address; if its certificate is of "
                "your own authority, pass ca_certs=",
            ) from error
        if len(data) > MAX_ANSWER_BYTES:
            raise TransportError(
                f"the answer of {self._address} exceeds {MAX_ANSWER_BYTES} bytes",
                hint="read fewer rows or columns at once",
            )
        return data

    def _refusal(self, error: urllib.error.HTTPError) -> RheosError:
        """Return the error that the server sent."""
        try:
            body = error.read(MAX_ERROR_BYTES)
            return _error_decoder().decode(body).error()
        except (msgspec.MsgspecError, ValueError, RecursionError, OSError, http.client.HTTPException):
            if error.code == 401:
                return ConfigurationError(
                    f"{self._address} does not know this token",
                    hint="pass a token of its file of tokens, with the role read",
                )
            if error.code == 405:
                return ConfigurationError(
                    f"{self._address} accepts no read of this size",
                    hint="look up fewer keys at once, or serve the job with this version of Rheos",
                )
            return TransportError(
                f"{self._address} answered with the status {error.code}",
                hint="check that the URL is that of `rheos dashboard`",
            )


def is_address(job: str) -> bool:
    """Return whether the string is the URL of a server, and not the name of a job."""
    return job.lower().startswith(("http://", "https://"))


def _address_of(url: str) -> str:
    """Return the URL without a slash at its end. Raise ConfigurationError if it cannot be used."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # It raises ValueError for a port that is no number.
    except ValueError:
        parts = urlsplit("")
    is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
    if not parts.hostname or not is_plain:
        raise ConfigurationError(
            f"{redacted(repr(url))} is not the address of a server of jobs",
            hint='write "https://jobs.example:8484", and pass the token as token=',
        )
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ConfigurationError(
            f"the token would travel to {parts.hostname} unencrypted",
            hint="use https://, or a tunnel to this machine",
        )
    return urlunsplit(parts).rstrip("/")


def _body(fields: Mapping[str, Any]) -> bytes:
    """Return the body of a posted read. Raise ConfigurationError if it is too large."""
    body = msgspec.json.encode({name: value for name, value in fields.items() if value is not None})
    if len(body) > MAX_READ_BYTES:
        raise ConfigurationError(
            f"the request has {len(body)} bytes, but the maximum over REST is {MAX_READ_BYTES}",
            hint="look up fewer keys at once",
        )
    return body


def _query_parameter(value: Any) -> str:
    """Return a field of a request as a parameter of a query."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


@cache
def _decoder(operation: type[JobOperation[Any]]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(answer_type(operation))


@cache
def _error_decoder() -> msgspec.json.Decoder[ErrorData]:
    return msgspec.json.Decoder(ErrorData)
