"""Translation of errors of Redis to errors of Rheos, and whether a retry may succeed."""

from __future__ import annotations

from typing import Any

from rheos.connectors.redis.client_options import RedisOptions, client
from rheos.core.errors import ConfigurationError, InputError, RheosError, UnavailableError

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
replicas, or is out of space.
"""
_REFUSED = ("NOAUTH", "WRONGPASS", "NOPERM", "DENIED")


def may_pass(error: Exception) -> bool:
    """Whether the same may go well at another try."""
    redis = client()
    if isinstance(error, redis.AuthenticationError) or _is_refused(str(error)):
        return False
    if isinstance(error, redis.ResponseError):
        return _said(error).startswith(_PASSES) or isinstance(error, _passing_types())
    return isinstance(error, redis.ConnectionError | redis.TimeoutError | OSError)


def redis_error(
    error: Exception, doing: str, options: RedisOptions, *, record: str | None = None
) -> RheosError:
    """`doing` begins the sentence: "the stream 'a' cannot be read"."""
    what = f"{doing}, at {options.address}: {options.redact(_said(error))}"
    redis = client()
    if isinstance(error, redis.AuthenticationError) or _is_refused(str(error)):
        return ConfigurationError(
            what, hint="look at user and password in the URL, and at what the user may do (ACL)"
        )
    if isinstance(error, redis.exceptions.MovedError | redis.exceptions.AskError):
        return ConfigurationError(
            what,
            hint="this is a node of a Redis Cluster, whose keys are on several servers: name one",
        )
    if may_pass(error):
        return UnavailableError(
            what,
            hint="is it up at that address, with TLS only where the URL says rediss://, and has it "
            "room? A job that is running is restarted by its strategy",
            record=record,
        )
    if "WRONGTYPE" in str(error):
        hint = "what has this key in Redis is of another kind: take another key, or delete it"
    else:
        hint = "look at the server's version: 6.2 is the oldest that Rheos is tested with"
    return InputError(what, hint=hint, record=record)


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def _is_refused(said: str) -> bool:
    return said.startswith(_REFUSED) or "CERTIFICATE_VERIFY_FAILED" in said


def _passing_types() -> tuple[Any, ...]:
    # redis-py takes the first word off an answer for which it has a type.
    of = client().exceptions
    names = (
        "ReadOnlyError",
        "MasterDownError",
        "ClusterDownError",
        "TryAgainError",
        "OutOfMemoryError",
    )
    return tuple(getattr(of, name) for name in names if hasattr(of, name))
