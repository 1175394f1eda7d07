"""Options to connect to Pulsar, and errors of the client. Secrets are never shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from rheos.connectors.client_options import checked_options
from rheos.connectors.pulsar.registration import CONNECTOR
from rheos.connectors.tls_files import TLS_OPTIONS
from rheos.connectors.urls import url_parts
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, UnavailableError
from rheos.core.redaction import without

_URL = (
    'write "pulsar://host:6650"; pulsar+ssl:// for TLS, at port 6651; commas between the hosts of a '
    "cluster"
)
_SCHEMES = ("pulsar", "pulsar+ssl")
ANSWER_S = 5
"""Seconds that a broker has to answer."""
_CONNECT_MS = 3000
_TOKEN = "token"
_OPTIONS = (*TLS_OPTIONS, _TOKEN)


@dataclass(frozen=True, repr=False)
class PulsarOptions:
    """Options to connect to Pulsar. They are sent to the workers with the program, including
    secrets."""

    url: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, url: Any, options: Mapping[str, Any] | None = None) -> PulsarOptions:
        """Create options from a user's arguments. Raises ProgramError, which shows no value."""
        first, *others = url.split(",") if isinstance(url, str) else [url]
        scheme = first.partition("://")[0] if others else ""
        for each in (first, *(f"{scheme}://{other}" for other in others)):
            parts = url_parts(each, _SCHEMES, "a Pulsar cluster", _URL)
            if parts.hostname is None or parts.path.strip("/") or parts.query or parts.fragment:
                raise ProgramError("url= does not consist of hosts and ports", hint=_URL)
            if parts.username is not None:
                raise ProgramError(
                    "url= has a user, but Pulsar's clients send tokens or certificates",
                    hint='write options={"token": ...}',
                )
        example = 'write options={"token": os.environ["PULSAR_TOKEN"]}'
        return cls(url, checked_options(options, _OPTIONS, "a non-empty string", example, _URL))

    @property
    def address(self) -> str:
        """Return hosts and ports."""
        return urlsplit(self.url).netloc

    def connect(self) -> Any:
        """Return a new client. It makes no request yet."""
        pulsar, given = client(), dict(self.options)
        authentication = None
        if _TOKEN in given:
            authentication = pulsar.AuthenticationToken(given[_TOKEN])
        elif "tls_cert_file" in given:
            key = given.get("tls_key_file", given["tls_cert_file"])
            authentication = pulsar.AuthenticationTLS(given["tls_cert_file"], key)
        return pulsar.Client(
            self.url,
            authentication=authentication,
            operation_timeout_seconds=ANSWER_S,
            connection_timeout_ms=_CONNECT_MS,
            tls_trust_certs_file_path=given.get("tls_ca_file"),
            tls_validate_hostname=True,
            # Its log would go to the output of the job; what matters is in errors.
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
        )

    def redact(self, text: str) -> str:
        """Return the string with `***` in place of the token."""
        token = dict(self.options).get(_TOKEN)
        return text if token is None else without(text, {token})

    def __repr__(self) -> str:
        names = "".join(f", {name}=***" for name, _ in self.options)
        return f"PulsarOptions({self.address!r}{names})"


def client() -> ModuleType:
    """Return the module of Pulsar's client. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()


def pulsar_error(
    error: BaseException, doing: str, options: PulsarOptions, *, record: str | None = None
) -> RheosError:
    """Translate an error of the client. `doing` begins the message: "the topic 'a' cannot be read"."""
    if isinstance(error, RheosError):
        return error
    pulsar = client()
    what = f"{doing}, at {options.address}: {options.redact(str(error) or type(error).__name__)}"
    refused = (
        pulsar.AuthenticationError,
        pulsar.AuthorizationError,
        pulsar.ErrorGettingAuthenticationData,
        pulsar.InvalidConfiguration,
        pulsar.NotAllowedError,
    )
    if isinstance(error, refused):
        return ConfigurationError(
            what, hint="check the token, TLS, and the permissions of the role for the topic"
        )
    if isinstance(error, pulsar.TopicNotFound | pulsar.InvalidTopicName | pulsar.SubscriptionNotFound):
        return InputError(
            what, hint="create the topic, its tenant and its namespace first", record=record
        )
    if isinstance(error, pulsar.MessageTooBig):
        return InputError(
            what,
            hint="the message is larger than the broker allows: raise its maxMessageSize, or write "
            "smaller rows",
            record=record,
        )
    if isinstance(error, pulsar.IncompatibleSchema | pulsar.TopicTerminated | pulsar.InvalidMessage):
        return InputError(
            what,
            hint="the topic does not accept plain payloads: remove its schema, or write another topic",
            record=record,
        )
    if isinstance(error, pulsar.PulsarException):
        return UnavailableError(
            what,
            hint="check that the brokers are up at that address and accept the token. A running job is "
            "restarted by its restart strategy",
            record=record,
        )
    raise error
