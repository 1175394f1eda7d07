"""Options to connect to NATS servers, and errors of the client. Secrets are never shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from rheos.connectors.client_options import checked_options
from rheos.connectors.nats.registration import CONNECTOR
from rheos.connectors.tls_files import TLS_OPTIONS, tls_context
from rheos.connectors.urls import url_parts
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, UnavailableError
from rheos.core.redaction import without

_URL = (
    'write "nats://host:4222", with user:password@ or token@ before the host if the server requires '
    "it; tls:// for TLS; commas between the servers of a cluster"
)
ANSWER_S = 5.0
"""Seconds that the server has to answer."""
_OF_CLIENT = ("user_credentials", "nkeys_seed", "nkeys_seed_str", "tls_hostname", "inbox_prefix")
_DOMAIN = "domain"
_OPTIONS = (*TLS_OPTIONS, *_OF_CLIENT, _DOMAIN)


@dataclass(frozen=True, repr=False)
class NatsOptions:
    """Options to connect to NATS. They are sent to the workers with the program, including secrets."""

    url: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, url: Any, options: Mapping[str, Any] | None = None) -> NatsOptions:
        """Create options from a user's arguments. Raises ProgramError, which shows no value."""
        for each in url.split(",") if isinstance(url, str) else [url]:
            if url_parts(each, ("nats", "tls"), "a NATS server", _URL).hostname is None:
                raise ProgramError("url= names no host", hint=_URL)
        example = 'write options={"user_credentials": "/etc/nats/job.creds"}'
        return cls(url, checked_options(options, _OPTIONS, "a non-empty string", example, _URL))

    @property
    def address(self) -> str:
        """Return the addresses of the servers, without users and passwords."""
        return ",".join(urlsplit(each).netloc.rpartition("@")[2] for each in self.url.split(","))

    @property
    def domain(self) -> str | None:
        """Return the JetStream domain, if one is set."""
        return dict(self.options).get(_DOMAIN)

    def arguments(self) -> dict[str, Any]:
        """Return arguments of the client's `connect`. Raises ConfigurationError for an unreadable
        certificate."""
        given = dict(self.options)
        made: dict[str, Any] = {name: given[name] for name in _OF_CLIENT if name in given}
        if any(name in given for name in TLS_OPTIONS):
            made["tls"] = tls_context(given, "NATS", self.address)
        parts = [urlsplit(each) for each in self.url.split(",")]
        # The client does not decode users and passwords in URLs.
        for each in parts:
            if each.password is not None:
                made |= {"user": unquote(each.username or ""), "password": unquote(each.password)}
            elif each.username is not None:
                made |= {"token": unquote(each.username)}
        servers = [f"{each.scheme}://{each.netloc.rpartition('@')[2]}" for each in parts]
        return {**made, "servers": servers}

    def redact(self, text: str) -> str:
        """Return the string with `***` in place of users' passwords, tokens and seeds."""
        parts = [urlsplit(each) for each in self.url.split(",")]
        found = {each.password or each.username for each in parts}
        found.add(dict(self.options).get("nkeys_seed_str"))
        secrets = {each for each in found if each}
        return without(text, secrets | set(map(unquote, secrets)))

    def __repr__(self) -> str:
        names = "".join(f", {name}=***" for name, _ in self.options)
        return f"NatsOptions({self.address!r}{names})"


def client() -> ModuleType:
    """Return the module of NATS's client. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()


_REFUSED = ("authorization", "authentication", "permissions violation", "certificate")
_TOO_LARGE = 10054
"""JetStream's code for a message that is larger than the stream allows."""


def nats_error(
    error: BaseException, doing: str, options: NatsOptions, *, record: str | None = None
) -> RheosError:
    """Translate an error of the client. `doing` begins the message: "the stream 'a' cannot be read"."""
    if isinstance(error, RheosError):
        return error
    nats = client()
    if isinstance(error, asyncio.TimeoutError):
        text = f"no answer for {ANSWER_S:g} s"
    else:
        text = options.redact(str(error) or type(error).__name__)
    what = f"{doing}, at {options.address}: {text}"
    if any(word in text.lower() for word in _REFUSED):
        return ConfigurationError(
            what, hint="check the user, password or credentials, TLS, and the user's permissions"
        )
    if isinstance(error, nats.errors.MaxPayloadError) or _code(error) == _TOO_LARGE:
        return InputError(
            what,
            hint="the message is larger than the server or the stream allows: raise max_payload of "
            "the server and max_msg_size of the stream, or write smaller rows",
            record=record,
        )
    if isinstance(error, nats.js.errors.NotFoundError):
        return InputError(what, hint="create the stream first: nats stream add", record=record)
    if isinstance(error, nats.js.errors.BadRequestError):
        return InputError(what, hint="check the stream's configuration", record=record)
    if isinstance(error, nats.errors.Error | OSError | asyncio.TimeoutError):
        return UnavailableError(
            what,
            hint="check that the server is up at that address, has JetStream enabled (-js), and has "
            "room in the stream. A running job is restarted by its restart strategy",
            record=record,
        )
    raise error


def _code(error: BaseException) -> int | None:
    return getattr(error, "err_code", None)
