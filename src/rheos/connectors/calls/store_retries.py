"""Retries of object stores: which errors are worth another try, and how many this process has made.

The client libraries raise their own errors, or errors of Python that were caused by these. So an error
is classified by its chain: by the service's error code, by the HTTP status, or by the class.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from rheos.connectors.calls.labelled_counts import LabelledCounts

RETRY_FOR_S = 60.0
"""Time after which a request is not repeated, in seconds since its first failure."""
MOST_TRIES = 10
FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 5.0
"""Longest pause between two tries. A longer `Retry-After` of the service is cut to it."""

CONNECT_S = 5.0
READ_S = 20.0
"""Time limits of the client libraries, in seconds: to connect, and for the next piece of an answer."""


class RetryReason(StrEnum):
    """Reason for which a request is repeated."""

    THROTTLED = "throttled"
    SERVER_ERROR = "server error"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    CONFLICT = "conflict"
    """Another request for the same object is under way. The service asks for a repetition."""
    CREDENTIALS = "credentials"


_CODES = {
    "SlowDown": RetryReason.THROTTLED,
    "Throttling": RetryReason.THROTTLED,
    "ThrottlingException": RetryReason.THROTTLED,
    "RequestLimitExceeded": RetryReason.THROTTLED,
    "TooManyRequests": RetryReason.THROTTLED,
    "ServiceUnavailable": RetryReason.THROTTLED,
    "ServerBusy": RetryReason.THROTTLED,
    "InternalError": RetryReason.SERVER_ERROR,
    "OperationTimedOut": RetryReason.TIMEOUT,
    "RequestTimeout": RetryReason.TIMEOUT,
    "IncompleteBody": RetryReason.CONNECTION,
    "OperationAborted": RetryReason.CONFLICT,
    "ConditionalRequestConflict": RetryReason.CONFLICT,
    "ExpiredToken": RetryReason.CREDENTIALS,
    "ExpiredTokenException": RetryReason.CREDENTIALS,
    "TokenRefreshRequired": RetryReason.CREDENTIALS,
    "InvalidToken": RetryReason.CREDENTIALS,
    "RequestExpired": RetryReason.CREDENTIALS,
    "InvalidAccessKeyId": RetryReason.CREDENTIALS,
    "AuthenticationFailed": RetryReason.CREDENTIALS,
    "InvalidAuthenticationInfo": RetryReason.CREDENTIALS,
    "400": RetryReason.CREDENTIALS,  # S3 refuses a token so: an answer to HEAD has only a status.
}
"""Error codes of S3 and Azure."""
_STATUSES = {
    401: RetryReason.CREDENTIALS,
    408: RetryReason.TIMEOUT,
    429: RetryReason.THROTTLED,
    500: RetryReason.SERVER_ERROR,
    502: RetryReason.SERVER_ERROR,
    503: RetryReason.THROTTLED,
    504: RetryReason.SERVER_ERROR,
}
_CLASSES = {
    "aiohttp.ClientError": RetryReason.CONNECTION,
    "asyncio.IncompleteReadError": RetryReason.CONNECTION,
    "asyncio.TimeoutError": RetryReason.TIMEOUT,
    "azure.IncompleteReadError": RetryReason.CONNECTION,
    "azure.ServiceRequestError": RetryReason.CONNECTION,
    "azure.ServiceResponseError": RetryReason.CONNECTION,
    "botocore.ConnectionError": RetryReason.CONNECTION,
    "botocore.HTTPClientError": RetryReason.CONNECTION,
    "botocore.IncompleteReadError": RetryReason.CONNECTION,
    "botocore.ReadTimeoutError": RetryReason.TIMEOUT,
    "botocore.ResponseParserError": RetryReason.SERVER_ERROR,
    "builtins.ConnectionError": RetryReason.CONNECTION,
    "builtins.TimeoutError": RetryReason.TIMEOUT,
    "gcsfs.ChecksumError": RetryReason.CONNECTION,
    "google.RefreshError": RetryReason.CREDENTIALS,
    "google.TransportError": RetryReason.CONNECTION,
    "http.IncompleteRead": RetryReason.CONNECTION,
    "requests.RequestException": RetryReason.CONNECTION,
}
"""Classes of errors, by the top package of their module."""


def retry_reason(error: BaseException) -> RetryReason | None:
    """Return the reason to repeat a request that failed; None if it would fail again."""
    for each in _chain(error):
        code, status = _code(each), _status(each)
        if code in _CODES:
            return _CODES[code]
        if status is not None:
            return _STATUSES.get(status)
        for kind in type(each).__mro__:
            reason = _CLASSES.get(f"{kind.__module__.partition('.')[0]}.{kind.__name__}")
            if reason is not None:
                return reason
    return None


def retry_after_s(error: BaseException) -> float:
    """Return the pause that the service asks for (`Retry-After`), in seconds; 0 without one."""
    for each in _chain(error):
        headers: Any = {}
        response = getattr(each, "response", None)
        if isinstance(response, dict):
            headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        elif response is not None:
            headers = getattr(response, "headers", {})
        text = str({str(name).lower(): headers[name] for name in headers}.get("retry-after", ""))
        if text.isdecimal():
            return min(float(text), LONGEST_WAIT_S)
    return 0.0


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its cause, the cause of that, and so on."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__


def _code(error: BaseException) -> str:
    """Return the service's error code; empty without one."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore
        return str(response.get("Error", {}).get("Code", ""))
    code = getattr(error, "error_code", None) or ""  # azure: a string or an enum
    return str(getattr(code, "value", code))


def _status(error: BaseException) -> int | None:
    """Return the HTTP status; None without one."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        names = ("status_code", "status", "code")  # azure, aiohttp, gcsfs
        found = next((value for name in names if (value := getattr(error, name, None))), None)
    return int(found) if str(found).isdecimal() else None


class StoreRetries(LabelledCounts):
    """Number of repeated requests, by store, request and reason. Thread-safe."""

    def count(self, scheme: str, request: str, reason: RetryReason) -> None:
        """Count a repetition."""
        self.add((scheme, request, reason.value))


STORE_RETRIES = StoreRetries()
"""Repeated requests of this process."""
