"""File systems of fsspec whose calls have a time limit, and are repeated after passing errors.

All of Rheos opens file systems here. `store_retries.py` has the errors that are worth another try, and
the limits; the client libraries make one try. So each call must be one that can be repeated.

An abandoned call may complete at any later time, which does no harm. A late write stores the same bytes
as its retry, under a name that only its attempt uses; the next attempt removes leftovers. A late rename
sets the same name as its retry. A late conditional write may create an entry of the job's log: its
caller does not know whether the entry exists, and reads the log again before it continues. A late
deletion deletes a file that nothing needs.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable
from importlib import import_module
from random import Random
from types import MethodType
from typing import Any, TypeVar

from rheos.connectors.calls.bounded_calls import UNDER_WAY, AbandonedCallError, ThreadCalls
from rheos.connectors.calls.bounded_files import BoundedFile, UploadedFile
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.calls.store_retries import (
    CONNECT_S,
    FIRST_WAIT_S,
    LONGEST_WAIT_S,
    MOST_TRIES,
    READ_S,
    RETRY_FOR_S,
    STORE_RETRIES,
    RetryReason,
    retry_after_s,
    retry_reason,
)
from rheos.core.connectors.backoff import Backoff
from rheos.core.errors import UnavailableError
from rheos.core.safe_strings import named_error

T = TypeVar("T")
logger = logging.getLogger("rheos.stores")

REQUEST = OutsideCall(
    server="object store",
    call="checkpoints, the job's log, savepoints, staged rows, file sources and sinks: each request",
    limit_s=30.0,
    limit="starts over while the store answers other requests, up to 30 min",
    then="the request fails. A request that fails with a passing error is repeated: up to "
    f"{MOST_TRIES} tries in {RETRY_FOR_S:g} s. A checkpoint that is being written fails, and the next "
    "one is tried. An entry of the log that may or may not exist is read again before the job "
    "continues. A commit is retried every second until it succeeds. A read fails the attempt, which "
    "restarts after 5 s at most",
)
TEMPORARY = ".tmp-"
"""Beginning of the name of a file that is not complete yet, in a store that shows such files."""
_LONGEST_S = 1800.0
_ALIVE_S = 10.0
_LOCAL = {"file", "local", "memory"}
_AT_ONCE = {"invalidate_cache", "unstrip_protocol"}
"""Methods that make no request."""
_EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "hdfs": "hdfs",
    "webhdfs": "hdfs",
}
"""Scheme -> extra of Rheos that installs its package."""
_MODULES = {"s3": "s3fs", "gcs": "gcsfs", "azure": "adlfs", "hdfs": "hdfs_native"}
_OWN = {
    "hdfs": "rheos.connectors.calls.hdfs:NativeHdfs",
    "webhdfs": "rheos.connectors.calls.webhdfs:WebHdfs",
}
"""File systems that Rheos uses instead of those that fsspec has registered, by scheme."""


def installation_of(url: str) -> str | None:
    """Return how to install the package of the URL's scheme in this Python, which may be a worker's;
    None if no extra has it.

    >>> installation_of("s3://bucket/a").endswith(" -m pip install 'rheos[s3]'")
    True
    >>> installation_of("/data/out")
    """
    extra = _EXTRAS.get(_scheme(url))
    return f"{sys.executable} -m pip install 'rheos[{extra}]'" if extra else None


def missing_package(url: str) -> str | None:
    """Return how to install the package of the URL's scheme; None if it is installed or not known."""
    from importlib.util import find_spec

    extra = _EXTRAS.get(_scheme(url))
    return installation_of(url) if extra and not find_spec(_MODULES[extra]) else None


def url_to_fs(url: str, **options: Any) -> tuple[Any, str]:
    """Return the file system of a path or URL, whose calls are bounded if it is remote, and the path
    in it. Raises what fsspec raises.

    Args:
        url: a local path, or a URL of fsspec.
        options: options of the file system.
    """
    import fsspec  # slow to import, and few jobs on a single machine need it

    own = _OWN.get(_scheme(url))
    if own is not None:
        module, _, name = own.partition(":")
        kind = getattr(import_module(module), name)
        system = kind(**kind._get_kwargs_from_urls(url), **options)
        return BoundedFileSystem(system), kind._strip_protocol(url)
    service = _EXTRAS.get(_scheme(url))
    system, path = fsspec.core.url_to_fs(url, **options, **_limits(service))
    protocol = system.protocol
    if _LOCAL & ({protocol} if isinstance(protocol, str) else set(protocol)):
        return system, path
    return BoundedFileSystem(system, service), path


def _scheme(url: str) -> str:
    """Return the part of a URL before "://"; for a path, the whole path."""
    return url.partition("://")[0]


def _limits(service: str | None) -> dict[str, Any]:
    """Return the options that limit the client library of a service to one try."""
    if service == "s3":
        limits = {"connect_timeout": CONNECT_S, "read_timeout": READ_S}
        return {"config_kwargs": {**limits, "retries": {"total_max_attempts": 1}}}
    if service == "gcs":
        from aiohttp import ClientTimeout

        return {"requests_timeout": ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=READ_S)}
    return {}


def _without_retries(system: Any, service: str | None) -> Any:
    """Return the file system after making its client library try each request once."""
    if service == "s3":
        system.retries = 1
    elif service == "gcs":
        request = type(system)._request
        system._request = MethodType(getattr(request, "__wrapped__", request), system)
    elif service == "azure":
        policy = getattr(getattr(system.service_client, "_config", None), "retry_policy", None)
        if policy is not None:
            policy.total_retries = 0
    return system


def raise_if_away(error: BaseException, what: str) -> None:
    """Raise UnavailableError if a file system does not answer: its files may be undamaged.

    Args:
        error: what a call raised.
        what: what could not be done, for people: "s3://a/b cannot be read".
    """
    if isinstance(error, ConnectionError | TimeoutError):
        raise UnavailableError(
            f"{what}: {error}",
            hint="check that the store is up and reachable. A running job is restarted by its "
            "restart strategy",
        ) from error


_accepted: set[int] = set()
"""Hashes of the file systems whose service has accepted their credentials. New ones are not expired."""


def _same(error: Exception) -> Exception:
    return error


class BoundedFileSystem:
    """A file system of fsspec, for any number of threads. A call that does not return within our limit
    is abandoned, and raises TimeoutError. A call that fails with a passing error is repeated; after the
    last try it raises ConnectionError."""

    def __init__(self, system: Any, service: str | None = None, jitter: Random | None = None) -> None:
        self._service = service
        self._system = _without_retries(system, service)
        self._jitter = (jitter or Random()).random
        protocol = system.protocol
        self._scheme = protocol if isinstance(protocol, str) else protocol[0]
        self._server = getattr(system, "address", "")
        """The server, if the paths do not name it."""
        self._calls = ThreadCalls()
        self._alive = ThreadCalls()
        self._os_error = getattr(system, "os_error", _same)

    def __getattr__(self, name: str) -> Any:
        if name == "_system":
            raise AttributeError(name)  # The object is being unpickled.
        value = getattr(self._system, name)
        if not callable(value) or name in _AT_ONCE:
            return value

        def call(*args: Any, **options: Any) -> Any:
            def work() -> Any:
                return getattr(self._system, name)(*args, **options)  # It may have been replaced.

            return self.run(*_target(name, args, options), work)

        return call

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """Return an opened file, whose calls are bounded."""
        if mode == "wb" and self._service is not None:
            return UploadedFile(self, path)

        def opened() -> Any:
            return self._system.open(path, mode, **options)

        return BoundedFile(self, path, opened, self.run(path, "open", opened))

    def isfile(self, path: str) -> bool:
        return self._kind(path) == "file"

    def isdir(self, path: str) -> bool:
        return self._kind(path) == "directory"

    def _kind(self, path: str) -> str:
        """Return what a path is; empty if nothing has it. The methods of fsspec would return False
        after any error."""
        try:
            return str(self.info(path)["type"])
        except FileNotFoundError:
            return ""

    def run(self, path: str, request: str, work: Callable[[], T], *, repeat: bool = True) -> T:
        """Return what `work` returns, or raise what it raises.

        Args:
            path: path that the call is for.
            request: name of the request, for people and metrics.
            work: makes the call, in another thread. It is called again after a passing error.
            repeat: whether it may be called again.

        Raises:
            TimeoutError: the file system does not answer.
            ConnectionError: all tries have failed with passing errors.
        """
        doing = f"{self._scheme}://{self._server}{path}: {request}"
        back_off = Backoff(
            int(RETRY_FOR_S * 1e6),
            first_us=int(FIRST_WAIT_S * 1e6),
            longest_us=int(LONGEST_WAIT_S * 1e6),
            most_tries=MOST_TRIES if repeat else 1,
            jitter=self._jitter,
        )
        with contextlib.ExitStack() as waiting:
            while True:
                try:
                    result = self._try(doing, work)
                    _accepted.add(hash(self._system))
                    return result
                except UnavailableError as error:
                    raise TimeoutError(error.what) from None
                except Exception as error:
                    reason = retry_reason(error)
                    if self._service is None or reason is None or self._never_accepted(reason):
                        raise
                    wait_us = back_off.failed(time.monotonic_ns() // 1000)
                    if wait_us is None:
                        raise ConnectionError(
                            f"{doing}: {back_off.failures} tries have failed ({reason}): "
                            f"{named_error(error)}"
                        ) from error
                    wait_s = max(wait_us / 1e6, retry_after_s(error))
                    failed = f"{doing} is repeated ({reason}: {named_error(error)})"
                STORE_RETRIES.count(self._scheme, request, reason)
                if back_off.failures == 1:
                    logger.warning("%s", failed)
                    waiting.enter_context(UNDER_WAY.watched(failed))
                time.sleep(wait_s)
                if reason is RetryReason.CREDENTIALS:
                    self._renew()

    def _try(self, doing: str, work: Callable[[], T]) -> T:
        began_s = time.monotonic()
        try:
            return self._calls.run(
                doing,
                REQUEST.limit_s,
                lambda progressed: work(),
                alive=lambda: time.monotonic() - began_s < _LONGEST_S and self._answers(),
            )
        except UnavailableError:
            raise
        except Exception as error:
            known = self._os_error(error)
            if known is error:
                raise
            raise known from error

    def _never_accepted(self, reason: RetryReason) -> bool:
        return reason is RetryReason.CREDENTIALS and hash(self._system) not in _accepted

    def _renew(self) -> None:
        """Replace the file system by one that reads its credentials again, wherever they are from."""
        kind = type(self._system)
        kind.clear_instance_cache()
        system = kind(*self._system.storage_args, **self._system.storage_options)
        self._system = _without_retries(system, self._service)

    def _answers(self) -> bool:
        """Return whether the file system answers another request."""
        try:
            self._alive.run(
                f"{self._scheme} is asked", _ALIVE_S, lambda progressed: self._system.exists(".alive")
            )
        except AbandonedCallError:
            return False
        except Exception:
            return True  # An error is an answer, too. The call itself will get one.
        return True


def _target(name: str, args: Any, options: dict[str, Any]) -> tuple[str, str]:
    """Return the path that a call of fsspec is for, and the name of its request."""
    if name == "call_s3":
        key = options.get("Key", options.get("Prefix", ""))
        return f"{options['Bucket']}/{key}", args[0]
    if name == "put_file":
        return args[1], name
    if name == "call":  # gcsfs: the method, the form of the path, and its parts
        return "/".join(args[2:]), args[1].rpartition("/")[2]
    return (args[0] if args and isinstance(args[0], str) else ""), name
