"""Options to connect to MQTT brokers, and errors of the client. Secrets are never shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from rheos.connectors.client_options import checked_options
from rheos.connectors.mqtt.registration import CONNECTOR
from rheos.connectors.tls_files import TLS_OPTIONS
from rheos.connectors.urls import url_parts
from rheos.core.errors import ConfigurationError, ProgramError, RheosError, UnavailableError
from rheos.core.redaction import without

_URL = (
    'write "mqtt://host:1883", with user:password@ before the host if the broker requires it; '
    "mqtts:// for TLS, at port 8883"
)
_PORTS = {"mqtt": 1883, "mqtts": 8883}
_TLS = 'write options={"tls_ca_file": "/etc/ssl/ca.pem"}'


@dataclass(frozen=True, repr=False)
class MqttOptions:
    """Options to connect to a broker. They are sent to the workers with the program, including
    secrets."""

    url: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, url: Any, options: Mapping[str, Any] | None = None) -> MqttOptions:
        """Create options from a user's arguments. Raises ProgramError, which shows no value."""
        parts = url_parts(url, tuple(_PORTS), "an MQTT broker", _URL)
        if parts.hostname is None or parts.path.strip("/") or parts.query or parts.fragment:
            raise ProgramError("url= does not consist of a host and a port", hint=_URL)
        files = checked_options(options, TLS_OPTIONS, "the path of a file", _TLS, _URL)
        if files and parts.scheme != "mqtts":
            raise ProgramError(
                "options= has files for TLS, but url= does not use TLS",
                hint='write "mqtts://host:8883"',
            )
        return cls(url, files)

    @property
    def host(self) -> str:
        """Return the host of the broker."""
        return str(urlsplit(self.url).hostname)

    @property
    def port(self) -> int:
        """Return the port of the broker."""
        parts = urlsplit(self.url)
        return parts.port or _PORTS[parts.scheme]

    @property
    def address(self) -> str:
        """Return host and port, without user and password."""
        return f"{self.host}:{self.port}"

    @property
    def has_tls(self) -> bool:
        """Return whether the connection is encrypted."""
        return urlsplit(self.url).scheme == "mqtts"

    @property
    def login(self) -> tuple[str, str | None] | None:
        """Return the user and the password; None if the URL has no user."""
        parts = urlsplit(self.url)
        if parts.username is None:
            return None
        return unquote(parts.username), None if parts.password is None else unquote(parts.password)

    def redact(self, text: str) -> str:
        """Return the string with `***` in place of the password."""
        password = urlsplit(self.url).password
        return text if not password else without(text, {password, unquote(password)})

    def __repr__(self) -> str:
        names = "".join(f", {name}=***" for name, _ in self.options)
        return f"MqttOptions({self.address!r}{names})"


def client() -> ModuleType:
    """Return the module of the client. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()


_NO_ENTRY = frozenset(
    (0x81, 0x82, 0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x9A, 0x9B, 0x9D, 0x9E, 0xA1, 0xA2)
)
"""Reason codes of refusals that another try does not change, such as 0x86, a wrong password."""
TAKEN_OVER = 0x8E
"""Reason code with which a broker closes the connection of a client whose id another one uses."""


def refusal(code: int, text: str, doing: str, options: MqttOptions) -> RheosError:
    """Translate a reason code of the broker, of 128 or more. `doing` begins the message: "the topic 'a'
    cannot be read"."""
    what = f"{doing}, at {options.address}: the broker answers {options.redact(text)!r} ({code})"
    if code == TAKEN_OVER:
        return ConfigurationError(
            what,
            hint="another client has connected with the same client_id: give each source of each job "
            "its own",
        )
    if code in _NO_ENTRY:
        return ConfigurationError(
            what,
            hint="check user and password, the user's permissions for the topic, and that the broker "
            "supports MQTT 5",
        )
    return unavailable(doing, options, f"the broker answers {options.redact(text)!r} ({code})")


def unavailable(doing: str, options: MqttOptions, text: str) -> UnavailableError:
    """Return the error of a broker that is down, or does not answer."""
    return UnavailableError(
        f"{doing}, at {options.address}: {options.redact(text)}",
        hint="check that the broker is up at that address and supports MQTT 5, and that no other "
        "client uses the same client_id. A running job is restarted by its restart strategy",
    )
