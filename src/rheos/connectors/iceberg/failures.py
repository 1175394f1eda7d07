"""Errors of catalogs and stores: outages, which may pass, and others.

A catalog raises errors of the libraries by which it talks to its server. An outage is an error that one
of them documents as such, or an HTTP status that invites to try again. Everything else does not pass by
waiting: a refusal, or an error in a program.

>>> may_pass(ConnectionResetError()), may_pass(KeyError("schema"))
(True, False)
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from typing import Any

from rheos.core.connectors.outages import is_outage

_PASSING = frozenset(
    {
        "aiohttp.client_exceptions.ClientConnectionError",
        "aiohttp.client_exceptions.ClientPayloadError",
        "azure.core.exceptions.ServiceRequestError",
        "azure.core.exceptions.ServiceResponseError",
        "botocore.exceptions.ConnectionError",
        "botocore.exceptions.HTTPClientError",
        "google.auth.exceptions.TransportError",
        "pyiceberg.exceptions.AuthorizationExpiredError",
        "pyiceberg.exceptions.CommitFailedException",
        "pyiceberg.exceptions.CommitStateUnknownException",
        "pyiceberg.exceptions.ServerError",
        "pyiceberg.exceptions.ServiceUnavailableError",
        "pyiceberg.exceptions.TooManyRequestsError",
        "pyiceberg.exceptions.WaitingForLockException",
        "requests.exceptions.ChunkedEncodingError",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "sqlalchemy.exc.InterfaceError",
        "sqlalchemy.exc.OperationalError",
        "sqlalchemy.exc.TimeoutError",
        "thrift.transport.TTransport.TTransportException",
        "urllib3.exceptions.ProtocolError",
        "urllib3.exceptions.TimeoutError",
    }
)
"""Classes of outages. The libraries of other catalogs and stores need not be installed."""
_LATER = frozenset({408, 419, 425, 429})
"""HTTP statuses below 500 with which a server asks to try again."""
_SQLITE_PASSING = frozenset({5, 6, 10, 13})
"""Codes of SQLite: busy, locked, I/O error, full."""
_REFUSED_BY_STORE = re.compile(
    r"ACCESS_DENIED|NO_SUCH_BUCKET|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|UNRECOGNIZED_CLIENT"
)
"""Answers of S3 in the messages of Arrow, whose errors have no number."""


def may_pass(error: BaseException) -> bool:
    """Return whether a call that raised this error may succeed later."""
    chain = [*_chain(error)]
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in chain):
        return False  # Libraries wrap it in errors of connections.
    return next((verdict for each in chain if (verdict := _verdict(each)) is not None), False)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes."""
    at: BaseException | None = error
    while at is not None:
        yield at
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)


def _verdict(error: BaseException) -> bool | None:
    """Return whether the error may pass; None if its class does not tell, but its cause may."""
    if (status := _status(error)) is not None:
        return status in _LATER or (status >= 500 and status != 501)
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
    if isinstance(code, int):
        return code & 0xFF in _SQLITE_PASSING
    if getattr(error, "connection_invalidated", False) is True:
        return True
    if any(f"{each.__module__}.{each.__qualname__}" in _PASSING for each in type(error).__mro__):
        return True
    if isinstance(error, OSError) and not isinstance(error, ValueError):
        if error.errno is not None or is_outage(error):
            return is_outage(error)
        return None if error.__cause__ else _REFUSED_BY_STORE.search(str(error)) is None
    return False if type(error).__module__ == "builtins" else None


def _status(error: Any) -> int | None:
    """Return the HTTP status of an error, if it has one."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        metadata = response.get("ResponseMetadata")
        found = metadata.get("HTTPStatusCode") if isinstance(metadata, dict) else None
    else:
        found = getattr(response, "status_code", None) or getattr(error, "status_code", None)
    return found if isinstance(found, int) and 100 <= found < 600 else None
