"""File systems of fsspec whose calls have a time limit.

All of Rheos opens file systems here. An abandoned call may complete at any later time, which does no
harm. A late write stores the same bytes as its retry, under a name that only its attempt uses; the next
attempt removes leftovers. A late rename sets the same name as its retry. A late conditional write may
create an entry of the job's log: its caller does not know whether the entry exists, and reads the log
again before it continues. A late deletion deletes a file that nothing needs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from rheos.connectors.calls.bounded_calls import AbandonedCallError, ThreadCalls
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.core.errors import UnavailableError

T = TypeVar("T")

REQUEST = OutsideCall(
    server="object store",
    call="checkpoints, the job's log, savepoints, staged rows, file sources and sinks: each request",
    limit_s=30.0,
    limit="starts over while the store answers other requests, up to 30 min",
    then="the request fails. A checkpoint that is being written fails, and the next one is tried. "
    "An entry of the log that may or may not exist is read again before the job continues. A "
    "commit is retried every second until it succeeds. A read fails the attempt, which restarts "
    "after 5 s at most",
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
"""Scheme -> the file system that Rheos uses instead of the one that fsspec has registered."""


def installation_of(url: str) -> str | None:
    """Return how to install the package of the URL's scheme in this Python, which may be a worker's;
    None if no extra has it.

    >>> installation_of("s3://bucket/a").endswith(" -m pip install 'rheos[s3]'")
    True
    >>> installation_of("/data/out")
    """
    extra = _EXTRAS.get(url.partition("://")[0])
    return f"{sys.executable} -m pip install 'rheos[{extra}]'" if extra else None


def missing_package(url: str) -> str | None:
    """Return how to install the package of the URL's scheme; None if it is installed or not known."""
    from importlib.util import find_spec

    extra = _EXTRAS.get(url.partition("://")[0])
    return installation_of(url) if extra and not find_spec(_MODULES[extra]) else None


def url_to_fs(url: str, **options: Any) -> tuple[Any, str]:
    """Return the file system of a path or URL, whose calls are bounded if it is remote, and the path
    in it. Raises what fsspec raises.

    Args:
        url: a local path, or a URL of fsspec.
        options: options of the file system.
    """
    import fsspec  # slow to import, and few jobs on a single machine need it

    own = _OWN.get(url.partition("://")[0])
    if own is not None:
        module, _, name = own.partition(":")
        kind = getattr(import_module(module), name)
        return BoundedFileSystem(
            kind(**kind._get_kwargs_from_urls(url), **options)
        ), kind._strip_protocol(url)
    system, path = fsspec.core.url_to_fs(url, **options)
    protocol = system.protocol
    if _LOCAL & ({protocol} if isinstance(protocol, str) else set(protocol)):
        return system, path
    return BoundedFileSystem(system), path


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


def _same(error: Exception) -> Exception:
    return error


class BoundedFileSystem:
    """A file system of fsspec, for any number of threads. A call that does not return within our limit
    is abandoned, and raises TimeoutError."""

    def __init__(self, system: Any) -> None:
        self._system = system
        protocol = system.protocol
        self._scheme = protocol if isinstance(protocol, str) else protocol[0]
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
            path = args[0] if args and isinstance(args[0], str) else ""
            return self.run(f"{self._scheme}://{path}: {name}", lambda: value(*args, **options))

        return call

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """Return an opened file, whose calls are bounded."""
        doing = f"{self._scheme}://{path}"
        file = self.run(f"{doing}: open", lambda: self._system.open(path, mode, **options))
        return _BoundedFile(self, doing, file)

    def run(self, doing: str, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise what it raises. Raises TimeoutError if the file system
        does not answer.

        Args:
            doing: what the call is for, for people.
            work: makes the call, in another thread.
        """
        began_s = time.monotonic()
        try:
            return self._calls.run(
                doing,
                REQUEST.limit_s,
                lambda progressed: work(),
                alive=lambda: time.monotonic() - began_s < _LONGEST_S and self._answers(),
            )
        except UnavailableError as error:
            raise TimeoutError(error.what) from None
        except Exception as error:
            known = self._os_error(error)
            if known is error:
                raise
            raise known from error

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


class _BoundedFile:
    """A file whose reads and writes are bounded calls. Everything else is forwarded to the file."""

    def __init__(self, system: BoundedFileSystem, doing: str, file: Any) -> None:
        self._system = system
        self._doing = doing
        self._file = file

    def read(self, *args: Any) -> Any:
        return self._system.run(f"{self._doing}: read", lambda: self._file.read(*args))

    def readline(self, *args: Any) -> Any:
        return self._system.run(f"{self._doing}: read", lambda: self._file.readline(*args))

    def readinto(self, buffer: Any) -> int:
        into = memoryview(buffer).cast("B")
        # An abandoned call may still write into its buffer, so it does not get the caller's.
        data = self.read(len(into))
        into[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> Any:
        copied = bytes(data)  # An abandoned call may still read its argument, so it gets a copy.
        return self._system.run(f"{self._doing}: write", lambda: self._file.write(copied))

    def flush(self, *args: Any) -> Any:
        return self._system.run(f"{self._doing}: write", lambda: self._file.flush(*args))

    def close(self) -> None:
        self._system.run(f"{self._doing}: close", self._file.close)

    def __enter__(self) -> _BoundedFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name == "_file":
            raise AttributeError(name)
        return getattr(self._file, name)
