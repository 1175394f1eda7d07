"""Options to connect to a service of AWS, and errors of the client. Secrets are never shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from rheos.connectors.client_options import checked_options
from rheos.connectors.registration import CONNECTORS
from rheos.connectors.urls import url_parts
from rheos.core.connectors.datasets import Dataset
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, UnavailableError
from rheos.core.redaction import without

CONNECT_S = 5.0
ANSWER_S = 10.0
"""Seconds that the service has to answer."""
_CONNECTIONS = 64
_CLIENTS = 16
_SECRETS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_OPTIONS = (*_SECRETS, "profile_name")
_EXAMPLE = 'write options={"profile_name": "jobs"}'
_LOGIN = (
    "check the credentials and the policy of their user. Credentials are those of options=, or those "
    "that the AWS command line finds (environment, profile, role of the machine)"
)


@dataclass(frozen=True, repr=False)
class AwsOptions:
    """Options to connect. They are sent to the workers with the program, including secrets."""

    service: str
    """Name of the service and of its connector, such as `kinesis`."""
    region: str | None
    endpoint: str | None
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, service: str, region: Any, endpoint: Any, options: Mapping[str, Any] | None
    ) -> AwsOptions:
        """Create options from a user's arguments. Raises ProgramError, which shows no value; and
        ConfigurationError if the client library is missing."""
        _library(service)
        if region is not None and not (isinstance(region, str) and re.fullmatch(r"[a-z0-9-]+", region)):
            raise ProgramError(
                f"region={region!r} is not the name of a region", hint='write region="eu-central-1"'
            )
        if endpoint is not None:
            hint = 'write endpoint="http://localhost:5000"'
            if url_parts(endpoint, ("http", "https"), "a service", hint).hostname is None:
                raise ProgramError("endpoint= names no host", hint=hint)
        found = checked_options(options, _OPTIONS, "a non-empty string", _EXAMPLE, _EXAMPLE)
        return cls(service, region, endpoint, found)

    @property
    def address(self) -> str:
        """Return the address of the endpoint if it is given, or the region."""
        if self.endpoint is not None:
            return urlsplit(self.endpoint).netloc.rpartition("@")[2]
        return f"the region {self.region}" if self.region is not None else "the default region"

    def dataset(self, resource: str) -> Dataset:
        """Return the name of a stream or a queue for catalogs, by its name, its ARN or its URL."""
        host = urlsplit(self.client().meta.endpoint_url).netloc.rpartition("@")[2]
        return Dataset(f"{self.service}://{host}", resource.rpartition("/")[2])

    def client(self) -> Any:
        """Return a client, which all threads of this process share. Raises ConfigurationError if the
        library or the credentials are missing."""
        return _client(self)

    def redact(self, text: str) -> str:
        """Return the string with `***` in place of keys and tokens."""
        return without(text, {value for name, value in self.options if name in _SECRETS})

    def __repr__(self) -> str:
        names = "".join(f", {name}=***" for name, _ in self.options)
        return f"AwsOptions({self.service!r}, {self.address!r}{names})"


def _library(service: str) -> ModuleType:
    registration = CONNECTORS.find(service)
    assert registration is not None, f"{service} is a connector"
    return registration.client()


@lru_cache(_CLIENTS)
def _client(options: AwsOptions) -> Any:
    boto3 = _library(options.service)
    from botocore.config import Config  # Only now is it known that the library is installed.

    config = Config(
        connect_timeout=CONNECT_S,
        read_timeout=ANSWER_S,
        # Rheos retries and counts that.
        retries={"total_max_attempts": 1},
        max_pool_connections=_CONNECTIONS,
        user_agent_extra="rheos",
    )
    session = boto3.session.Session(region_name=options.region, **dict(options.options))
    return session.client(options.service, endpoint_url=options.endpoint, config=config)


_THROTTLED = frozenset(
    {
        "KMSThrottlingException",
        "LimitExceededException",
        "OverLimit",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_AGAIN = frozenset(
    {
        "ExpiredIteratorException",
        "InternalError",
        "InternalFailure",
        "KMS.ThrottlingException",
        "ResourceInUseException",
        "ServiceUnavailable",
    }
)
_MISSING = frozenset(
    {
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
        "ResourceNotFoundException",
    }
)
_REFUSED = re.compile(
    "AccessDenied|ExpiredToken|InvalidAccessKeyId|InvalidClientTokenId|InvalidSignature|"
    "MissingAuthenticationToken|NotAuthorized|OptInRequired|SignatureDoesNotMatch|"
    "UnrecognizedClient|KMSAccessDenied|KMSDisabled|KMSNotFound|KMSOptInRequired"
)
_UNREACHABLE = (
    "check that the service is up and reachable, and that its limits suffice. A running job is "
    "restarted by its restart strategy"
)
_LEAST_OUTAGE = 500


def is_temporary(code: str) -> bool:
    """Return whether a request that was refused with an error code may succeed later."""
    return code in _THROTTLED or code in _AGAIN


def error_code(error: BaseException) -> str:
    """Return the service's error code; empty if it has not answered with one."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def aws_error(
    error: BaseException, doing: str, options: AwsOptions, *, record: str | None = None
) -> RheosError:
    """Translate an error of the client. `doing` begins the message: "the stream 'a' cannot be read"."""
    if isinstance(error, RheosError):
        return error
    from botocore import exceptions as known  # An error of its client shows that it is installed.

    what = f"{doing}, at {options.address}: {options.redact(str(error) or type(error).__name__)}"
    if isinstance(error, known.ClientError):
        code = error_code(error)
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if is_temporary(code) or status >= _LEAST_OUTAGE:
            return UnavailableError(what, hint=_UNREACHABLE)
        if code in _MISSING:
            return InputError(what, hint="create it first, or check its name and the region")
        if _REFUSED.search(code):
            return ConfigurationError(what, hint=_LOGIN)
        return InputError(what, hint="check the arguments of the request", record=record)
    if isinstance(error, known.NoRegionError):
        return ConfigurationError(what, hint='write region="eu-central-1", or set AWS_DEFAULT_REGION')
    if isinstance(
        error, known.NoCredentialsError | known.PartialCredentialsError | known.ProfileNotFound
    ):
        return ConfigurationError(what, hint=_LOGIN)
    if isinstance(error, known.ParamValidationError):
        return InputError(what, hint="the service accepts no such request", record=record)
    if isinstance(error, known.BotoCoreError | OSError):
        return UnavailableError(what, hint=_UNREACHABLE)
    raise error
