"""Options to connect to RabbitMQ, and errors of the client. Secrets are never shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from rheos.connectors.client_options import checked_options
from rheos.connectors.rabbitmq.registration import CONNECTOR
from rheos.connectors.tls_files import TLS_OPTIONS, tls_context
from rheos.connectors.urls import url_parts
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, UnavailableError
from rheos.core.redaction import without

_URL = (
    'write "amqp://user:password@host:5672/vhost"; without /vhost it is the default one; amqps:// for '
    "TLS, at port 5671"
)
_PORTS = {"amqp": 5672, "amqps": 5671}
ANSWER_S = 5.0
"""Seconds that the server has to answer."""
_TLS = 'write options={"tls_ca_file": "/etc/ssl/ca.pem"}'


@dataclass(frozen=True, repr=False)
class RabbitmqOptions:
    """Options to connect to RabbitMQ. They are sent to the workers with the program, including
    secrets."""

    url: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, url: Any, options: Mapping[str, Any] | None = None) -> RabbitmqOptions:
        """Create options from a user's arguments. Raises ProgramError, which shows no value."""
        parts = url_parts(url, tuple(_PORTS), "a RabbitMQ server", _URL)
        if parts.hostname is None or "/" in parts.path[1:] or parts.query or parts.fragment:
            raise ProgramError("url= does not consist of a host, a port and a vhost", hint=_URL)
        files = checked_options(options, TLS_OPTIONS, "the path of a file", _TLS, _URL)
        if files and parts.scheme != "amqps":
            raise ProgramError(
                "options= has files for TLS, but url= does not use TLS",
                hint='write "amqps://host:5671"',
            )
        return cls(url, files)

    @property
    def address(self) -> str:
        """Return host and port, without user and password."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port or _PORTS[parts.scheme]}"

    def parameters(self, heartbeat_s: int) -> Any:
        """Return the client's parameters of a connection.

        Args:
            heartbeat_s: interval in which both sides send signs of life; 0 for none.

        Returns:
            The parameters.

        Raises:
            ConfigurationError: A certificate cannot be read.
        """
        pika, parts = client(), urlsplit(self.url)
        more: dict[str, Any] = {}
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
            more["credentials"] = pika.PlainCredentials(user, password)
        if parts.scheme == "amqps":
            tls = tls_context(dict(self.options), "RabbitMQ", self.address)
            more["ssl_options"] = pika.SSLOptions(tls, parts.hostname)
        return pika.ConnectionParameters(
            host=parts.hostname,
            port=parts.port or _PORTS[parts.scheme],
            virtual_host=unquote(parts.path[1:]) or "/",
            heartbeat=heartbeat_s,
            connection_attempts=1,
            socket_timeout=ANSWER_S,
            stack_timeout=2 * ANSWER_S,
            client_properties={"connection_name": "rheos"},
            **more,
        )

    def redact(self, text: str) -> str:
        """Return the string with `***` in place of the password."""
        password = urlsplit(self.url).password
        return text if not password else without(text, {password, unquote(password)})

    def __repr__(self) -> str:
        names = "".join(f", {name}=***" for name, _ in self.options)
        return f"RabbitmqOptions({self.address!r}{names})"


def client() -> ModuleType:
    """Return the module of RabbitMQ's client. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()


_NOT_FOUND = 404
_STARTS = "is down or inaccessible"
"""End of the error for a queue whose server has started, but has not loaded the queue yet."""
_REFUSED = (402, 403, 530)
"""Codes of AMQP: an invalid path, a missing permission, a vhost that is not allowed."""
_BAD_REQUEST = (406, 540, 501, 502, 503, 504, 505)
"""Codes of AMQP: a failed precondition, and requests that this server does not understand."""


def rabbitmq_error(error: BaseException, doing: str, options: RabbitmqOptions) -> RheosError:
    """Translate an error of the client. `doing` begins the message: "the queue 'a' cannot be read"."""
    if isinstance(error, RheosError):
        return error
    known = client().exceptions
    if isinstance(error, asyncio.TimeoutError):
        text = f"no answer for {ANSWER_S:g} s"
    else:
        text = options.redact(_text(error))
    what = f"{doing}, at {options.address}: {text}"
    code = getattr(error, "reply_code", None)
    if code == _NOT_FOUND and not text.endswith(_STARTS):
        return InputError(what, hint="create it first, or check its name and the vhost of the URL")
    refused = (
        known.ProbableAuthenticationError,
        known.AuthenticationError,
        known.ProbableAccessDeniedError,
    )
    if code in _REFUSED or isinstance(error, refused) or "certificate" in text.lower():
        return ConfigurationError(
            what, hint="check user and password, the vhost, TLS, and the user's permissions"
        )
    if code in _BAD_REQUEST:
        return InputError(what, hint="check the type and the arguments of the queue")
    if code == _NOT_FOUND or isinstance(error, known.AMQPError | OSError | asyncio.TimeoutError):
        return UnavailableError(
            what,
            hint="check that the server is up at that address. A running job is restarted by its "
            "restart strategy",
        )
    raise error


def _text(error: BaseException) -> str:
    """Return the message of an error. The client wraps the reason of a failed connection."""
    reason: Any = error
    for _ in range(8):
        inner = getattr(reason, "exceptions", None) or getattr(reason, "exception", None) or reason.args
        last = inner[-1] if isinstance(inner, list | tuple) and inner else inner
        if not isinstance(last, BaseException):
            break
        reason = last
    return str(reason) or type(reason).__name__
