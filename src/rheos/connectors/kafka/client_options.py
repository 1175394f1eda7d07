"""Options of Kafka's client: options that are passed through, and options that Rheos sets itself.

Any option may contain a password, so no value is ever shown except the brokers' addresses. Messages of
the client are shown without the values of options whose names mark them as secrets.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

from rheos.connectors.client_logs import RepeatedMessageFilter
from rheos.connectors.kafka.registration import CONNECTOR
from rheos.core.errors import ProgramError
from rheos.core.redaction import without

Value: TypeAlias = str | int | float | bool | Callable[..., Any]

ANSWER_S = 10.0
"""Maximum time without progress of a call to the brokers, in seconds; then it is abandoned. The
client does not keep all of its own limits, so the sink's calls run under this one (`BoundedCalls`)."""
GRACE_S = 2.0
"""Seconds that a call with its own time limit may exceed it before it is abandoned."""
_DEFAULTS: Mapping[str, Value] = {
    # When a broker or its link recovers, the client uses it within one or two seconds, not only after
    # the default limits of 10, 30 and 60 s.
    "reconnect.backoff.max.ms": 1000,
    "socket.connection.setup.timeout.ms": 5000,
    "socket.timeout.ms": 10_000,
}
LOGGER = logging.getLogger("rheos.kafka")
"""Logger for messages of Kafka's client, such as that a broker is down."""
_NOTICE = 5
"""Least severe syslog level that is logged; the client's messages below it are noise."""
_OF_ANOTHER_KIND = "property and will be ignored by this"

_SECRET = re.compile(
    r"password|passwd|secret|token|credential|jaas|\.key|\.pem|assertion|oauthbearer\.config"
)
_NOT_SECRET = re.compile(r"\.(location|endpoint\.url|url)$")

_BROKERS = 'write brokers="host:9092,..."'
_OWNED: Mapping[str, str] = {
    "bootstrap.servers": _BROKERS,
    "metadata.broker.list": _BROKERS,
    "logger": 'use the Python logger "rheos.kafka"',
    "log_cb": 'use the Python logger "rheos.kafka"',
    "error_cb": "leave it out: errors are counted and shown in the status",
    "stats_cb": "leave it out",
}


@dataclass(frozen=True, repr=False)
class ClientOptions:
    """Options to connect to a cluster. They are sent to the workers with the program, including
    secrets."""

    brokers: str
    options: tuple[tuple[str, Value], ...] = ()
    """Options by name, without those that Rheos sets."""

    @classmethod
    def of(
        cls,
        brokers: str | Sequence[str],
        options: Mapping[str, Value] | None = None,
        owned: Mapping[str, str] | None = None,
    ) -> ClientOptions:
        """Create options from a user's arguments. `owned` maps further names that a user may not set to
        a hint. Raises ProgramError, which shows no value."""
        addresses: list[Any] = [brokers]
        if isinstance(brokers, Iterable) and not isinstance(brokers, str):
            addresses = list(brokers)
        if not addresses or not all(isinstance(each, str) and each.strip() for each in addresses):
            raise ProgramError(f"brokers={brokers!r} is empty", hint=_BROKERS)
        if options is not None and not isinstance(options, Mapping):
            raise ProgramError(
                f"options= must be a dict, not a {type(options).__name__}",
                hint='write options={"security.protocol": "SSL", ...}',
            )
        forbidden = {**_OWNED, **(owned or {})}
        for name, value in (options or {}).items():
            if not isinstance(name, str):
                raise ProgramError(
                    f"options= has the name {name!r}, which is not a string",
                    hint='write options={"security.protocol": "SSL", ...}',
                )
            if name in forbidden:
                raise ProgramError(f"the option {name!r} is set by Rheos", hint=forbidden[name])
            if not isinstance(value, str | int | float) and not callable(value):
                raise ProgramError(
                    f"the option {name!r} is a {type(value).__name__}",
                    hint="values must be strings, numbers, True or False, as in librdkafka's "
                    "CONFIGURATION.md; callbacks such as oauth_cb must be functions",
                )
        return cls(",".join(each.strip() for each in addresses), tuple(sorted((options or {}).items())))

    def config(self, client_id: str, **own: Value) -> dict[str, Any]:
        """Return the configuration for a producer, a consumer or an admin client. `own` are options of
        Rheos, with `_` for each dot. They come last, so the user's options cannot change them."""
        return {
            "client.id": client_id,
            "logger": self._logger(),
            "log_level": _NOTICE,
            **_DEFAULTS,
            **dict(self.options),
            "bootstrap.servers": self.brokers,
            **{name.replace("_", "."): value for name, value in own.items()},
        }

    def redact(self, text: str) -> str:
        """Return the string with `***` in place of the values of secret options."""
        return without(text, self._secrets())

    def _secrets(self) -> set[str]:
        return {
            str(value)
            for name, value in self.options
            if not callable(value)
            and _SECRET.search(name)
            and not _NOT_SECRET.search(name)
            and str(value).strip()
        }

    def _logger(self) -> logging.Logger:
        """Return a logger for these options, below the public one, that redacts secrets."""
        logger = LOGGER.getChild(f"client-{hash(self) & 0xFFFFFFFF:08x}")
        if not logger.filters:
            logger.addFilter(self._redact_record)
            logger.addFilter(RepeatedMessageFilter())
        return logger

    def _redact_record(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self.redact(record.getMessage()), ()
        # The user's options are shared by producers, consumers and admin clients.
        return _OF_ANOTHER_KIND not in str(record.msg)

    def __repr__(self) -> str:
        names = "".join(f", {name}=***" for name, _ in self.options)
        return f"ClientOptions({self.brokers!r}{names})"


def client() -> ModuleType:
    """Return the module of Kafka's client. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()
