"""Errors of the clients of object stores, and whether their requests are repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import botocore.exceptions
import pytest
from azure.core.exceptions import HttpResponseError, ServiceRequestError
from azure.storage.blob import StorageErrorCode
from gcsfs.retry import HttpError
from s3fs.errors import translate_boto_error

from rheos.connectors.calls.store_retries import (
    LONGEST_WAIT_S,
    RetryReason,
    retry_after_s,
    retry_reason,
)
from rheos.core.connectors.backoff import Backoff

SRC = Path(__file__).parents[3] / "src" / "rheos"


def s3(code: str, status: int, **headers: str) -> OSError:
    answer: Any = {
        "Error": {"Code": code, "Message": code},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers},
    }
    translated: OSError = translate_boto_error(botocore.exceptions.ClientError(answer, "GetObject"))
    return translated


def azure(code: str, status: int) -> HttpResponseError:
    error = HttpResponseError(code)
    error.status_code = status
    error.error_code = StorageErrorCode(code)  # type: ignore[attr-defined]
    return error


def gcs(status: int) -> HttpError:
    return HttpError({"code": status, "message": "no"})


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (s3("SlowDown", 503), RetryReason.THROTTLED),
        (s3("InternalError", 200), RetryReason.SERVER_ERROR),
        (s3("502", 502), RetryReason.SERVER_ERROR),
        (s3("ConditionalRequestConflict", 409), RetryReason.CONFLICT),
        (s3("ExpiredToken", 400), RetryReason.CREDENTIALS),
        (s3("AccessDenied", 403), None),
        (s3("NoSuchKey", 404), None),
        (s3("PreconditionFailed", 412), None),
        (azure("ServerBusy", 503), RetryReason.THROTTLED),
        (azure("AuthenticationFailed", 403), RetryReason.CREDENTIALS),
        (azure("AuthorizationFailure", 403), None),
        (azure("BlobAlreadyExists", 409), None),
        (ServiceRequestError("no route"), RetryReason.CONNECTION),
        (gcs(429), RetryReason.THROTTLED),
        (gcs(401), RetryReason.CREDENTIALS),
        (gcs(404), None),
        (aiohttp.ClientPayloadError("cut"), RetryReason.CONNECTION),
        (botocore.exceptions.ReadTimeoutError(endpoint_url="a"), RetryReason.TIMEOUT),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="a"), RetryReason.CONNECTION),
        (ConnectionResetError(), RetryReason.CONNECTION),
        (FileNotFoundError("a"), None),
        (PermissionError("a"), None),
        (ValueError("a"), None),
    ],
    ids=repr,
)
def test_errors_that_pass_are_repeated(error: Exception, reason: RetryReason | None) -> None:
    assert retry_reason(error) is reason


def test_the_pause_that_a_service_asks_for_is_bounded() -> None:
    assert retry_after_s(s3("SlowDown", 503, **{"Retry-After": "2"})) == 2.0
    assert retry_after_s(s3("SlowDown", 503, **{"retry-after": "3600"})) == LONGEST_WAIT_S
    assert retry_after_s(s3("SlowDown", 503)) == 0.0
    assert retry_after_s(azure("ServerBusy", 503)) == 0.0


def test_a_back_off_ends_after_its_tries_and_draws_its_waits() -> None:
    drawn = iter([0.0, 0.5, 0.0])
    back_off = Backoff(
        60_000_000, first_us=100, longest_us=300, most_tries=4, jitter=lambda: next(drawn)
    )
    assert [back_off.failed(0) for _ in range(4)] == [50, 150, 150, None]
    back_off.restore()
    assert back_off.failures == 0


def test_all_file_systems_are_opened_with_the_policy() -> None:
    """One module opens file systems, so that every call has the time limit and the retries."""
    opening = ("fsspec.core.url_to_fs(", "fsspec.filesystem(", "fsspec.open(")
    found = {
        str(path.relative_to(SRC))
        for path in SRC.rglob("*.py")
        if any(each in path.read_text() for each in opening)
    }
    assert found == {"connectors/calls/file_systems.py"}
