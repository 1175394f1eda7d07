"""Options to connect to a Redis server, and errors of its client. Secrets are never shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from rheos.connectors.redis.registration import CONNECTOR
from rheos.connectors.urls import url_parts
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, UnavailableError
from rheos.core.redaction import without

_URL = (
    'write "redis://host:6379/0", with :password@ or user:password@ before the host if the '
    "server requires it; rediss:// for TLS"
)
_RETRIES = "retry_for= sets how long to retry"
_OWNED: Mapping[str, str] = {
    "decode_responses": "leave it out: the schema determines which columns are strings",
    "protocol": "leave it out",
    "retry": _RETRIES,
    "retry_on_error": _RETRIES,
    "retry_on_timeout": _RETRIES,
    "max_connections": "leave it out: each subtask has one connection",
    "ssl": "write rediss:// in the URL",
    "host": _URL,
    "port": _URL,
}
ANSWER_S = 5.0
"""Seconds that the client waits for an answer by default: a frozen host does not reply."""
_DEFAULTS: Mapping[str, float] = {"socket_connect_timeout": ANSWER_S, "socket_timeout": ANSWER_S}


@dataclass(frozen=True, repr=False)
class RedisOptions:
    """Options to connect to a Redis server. They are sent to the workers with the program, including
    secrets."""

    url: str
    options: tuple[tuple[str, Any], ...] = ()
    """Options by their names in redis-py, without those that Rheos sets."""

    @classmethod
    def of(cls, url: str, options: Mapping[str, Any] | None = None) -> RedisOptions:
        """Create options from a user's arguments. Raises ProgramError, which shows no value."""
        parts = url_parts(url, ("redis", "rediss", "unix"), "a Redis", _URL)
        if options is not None and not isinstance(options, Mapping):
            raise ProgramError(
                f"options= must be a dict, not a {type(options).__name__}",
                hint='write options={"ssl_ca_certs": "/etc/ssl/redis-ca.pem", ...}',
            )
        # The client gives options in the URL precedence over others.
        for name in (*(options or {}), *dict(parse_qsl(parts.query, keep_blank_values=True))):
            if name in _OWNED:
                raise ProgramError(f"the option {name!r} is set by Rheos", hint=_OWNED[name])
        made = cls(url, tuple(sorted((options or {}).items())))
        try:
            made.connection()  # Creating it does not connect yet.
        except (TypeError, ValueError) as error:
            raise ProgramError(
                f"the options of the Redis at {made.address} are not valid: {made.redact(str(error))}",
                hint="options={...} accepts those of redis-py's Connection and SSLConnection",
            ) from None
        return made

    @property
    def address(self) -> str:
        """Return the server's address without user and password."""
        parts = urlsplit(self.url)
        place = parts.netloc.rpartition("@")[2]
        return f"{place}{parts.path}"

    def connection(self) -> Any:
        """Return a connection of redis-py, not connected yet, which does not retry by itself."""
        redis = client()
        nothing = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
        own = {"protocol": 2, "retry": nothing, "decode_responses": False}
        return redis.ConnectionPool.from_url(
            self.url, **{**_DEFAULTS, **dict(self.options), **own}
        ).make_connection()

    def redact(self, text: str) -> str:
        """Return the string with `***` in place of the passwords of the URL and of the options."""
        return without(text, self._secrets())

    def _secrets(self) -> set[str]:
        parts = urlsplit(self.url)
        options = (*self.options, *parse_qsl(parts.query))
        given = [value for name, value in options if isinstance(value, str) and "pass" in name]
        found = {each for each in (parts.password, *given) if each}
        return found | set(map(unquote, found))

    def __repr__(self) -> str:
        names = "".join(f", {name}=***" for name, _ in self.options)
        return f"RedisOptions({self.address!r}{names})"


def client() -> ModuleType:
    """Return the module of Redis's client. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()


# --- errors of Redis as errors of Rheos
# ----------------------------------------------------------------


_PASSES = (
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "NOREPLICAS",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "OOM",
    "MISCONF",
    "BUSY ",
)
"""Prefixes of replies of a server that refuses temporarily: it is starting, is a replica, lacks
replicas, or is out of space."""
_REFUSED = ("NOAUTH", "WRONGPASS", "NOPERM", "DENIED")


def may_pass(error: Exception) -> bool:
    """Return whether a retry may succeed."""
    redis = client()
    if isinstance(error, redis.AuthenticationError) or _is_refused(str(error)):
        return False
    if isinstance(error, redis.ResponseError):
        return _error_text(error).startswith(_PASSES) or isinstance(error, _passing_types())
    return isinstance(error, redis.ConnectionError | redis.TimeoutError | OSError)


def redis_error(
    error: Exception, doing: str, options: RedisOptions, *, record: str | None = None
) -> RheosError:
    """Translate an error of the client. `doing` begins the message: "the stream 'a' cannot be read"."""
    what = f"{doing}, at {options.address}: {options.redact(_error_text(error))}"
    redis = client()
    if isinstance(error, redis.AuthenticationError) or _is_refused(str(error)):
        return ConfigurationError(
            what, hint="check the user and password in the URL, and the permissions of the user (ACL)"
        )
    if isinstance(error, redis.exceptions.MovedError | redis.exceptions.AskError):
        return ConfigurationError(
            what,
            hint="this is a node of a Redis Cluster, which spreads keys over several servers: use a "
            "single server",
        )
    if may_pass(error):
        return UnavailableError(
            what,
            hint="check that it is up at that address, uses TLS only if the URL begins with "
            "rediss://, and has free memory. A running job is restarted by its restart strategy",
            record=record,
        )
    if "WRONGTYPE" in str(error):
        hint = "the value at this key in Redis has another type: use another key, or delete it"
    else:
        hint = "check the server's version: Rheos supports 6.2 and newer"
    return InputError(what, hint=hint, record=record)


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _is_refused(message: str) -> bool:
    return message.startswith(_REFUSED) or "CERTIFICATE_VERIFY_FAILED" in message


def _passing_types() -> tuple[Any, ...]:
    # redis-py removes the first word of an error for which it has a class.
    of = client().exceptions
    names = (
        "ReadOnlyError",
        "MasterDownError",
        "ClusterDownError",
        "TryAgainError",
        "OutOfMemoryError",
    )
    return tuple(getattr(of, name) for name in names if hasattr(of, name))
