"""Listening sockets: the limits before a peer has authenticated, and the folder of the sockets."""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import os
import stat
import tempfile
import time
from pathlib import Path
from uuid import uuid4

import zmq

from rheos.core.errors import ConfigurationError

_HANDSHAKE_WITHIN_MS = 10_000
"""Time in ms after which a connection that has not authenticated is closed."""
_BACKLOG = 128


def listen(socket: zmq.Socket[bytes], where: str, max_frame_bytes: int) -> str:
    """Bind the socket, and return its address. `where` is "ipc://..." or "tcp://host:*", for a free
    port. A frame that claims to be larger than `max_frame_bytes` ends its connection. An ipc socket
    accepts only processes of this user."""
    socket.setsockopt(zmq.MAXMSGSIZE, max_frame_bytes)
    socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_WITHIN_MS)
    socket.setsockopt(zmq.BACKLOG, _BACKLOG)
    if where.startswith("ipc://") and hasattr(os, "getuid"):
        _only_this_user(socket)
    try:
        socket.bind(where)
    except zmq.ZMQError as error:
        raise ConfigurationError(
            f"a process of the job cannot listen at {where}: {error}",
            hint="check that this is an address of the machine; spark.driver.host and "
            "SPARK_LOCAL_IP set it",
        ) from error
    return _text(socket.getsockopt(zmq.LAST_ENDPOINT))


def is_of(token: bytes, frame: bytes | memoryview) -> bool:
    """Return whether the frame begins with the job's token, compared in constant time. The check comes
    before anything else of the frame is read."""
    return hmac.compare_digest(frame[: len(token)], token)


def _only_this_user(socket: zmq.Socket[bytes]) -> None:
    # If the system, or this build of ZeroMQ, does not support it, the folder still keeps other users
    # out.
    with contextlib.suppress(zmq.ZMQError):
        socket.setsockopt(zmq.IPC_FILTER_UID, os.getuid())


def _text(value: int | bytes) -> str:
    assert isinstance(value, bytes)
    return value.rstrip(b"\0").decode()


# --- the folder of the sockets, removed with its owner or by a sweep after a kill ---------------------


_PREFIX = "rheos-sockets-"
_LOCK = "lock"
_EMPTY_FOR_S = 3600.0
"""Seconds after which a folder without a lock may be removed. A younger one may just be in creation."""
_NAME_BYTES = 16
"""Bytes reserved for the name of a socket within the folder."""


class SocketFolder:
    """A new folder (0700) for sockets, which exists until `close`. It is among the temporary files, or
    in /tmp if that path is too long for a socket.

    It removes folders that killed processes of this user left there. The name of a folder proves
    nothing, so it removes only a folder that belongs to this user, that nobody else can enter, and
    whose lock file nobody holds. It removes only sockets from it; if the folder contains anything else,
    it stays.
    """

    def __init__(self) -> None:
        base = tempfile.gettempdir()
        longest = len(os.fsencode(base)) + 1 + len(_PREFIX) + 8 + 1 + _NAME_BYTES
        if longest > zmq.IPC_PATH_MAX_LEN:
            base = "/tmp"
        _sweep(Path(base))
        self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
        # The lock is held before it gets the name for which a sweep looks.
        new = os.path.join(self.path, "new")
        self._lock = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(new, os.path.join(self.path, _LOCK))

    def close(self) -> None:
        """Remove the folder. May be called again."""
        if self._lock >= 0:
            with contextlib.suppress(OSError):
                _remove(Path(self.path))
            os.close(self._lock)
            self._lock = -1


def in_folder(path: str) -> str:
    """Return a new address in the folder at which a socket can listen."""
    return f"ipc://{path}/{uuid4().hex[:16]}"


def is_in_folder(socket: str) -> bool:
    """Return whether the path of a socket is one that `in_folder` returned."""
    return os.path.basename(os.path.dirname(socket)).startswith(_PREFIX)


def _sweep(base: Path) -> None:
    for folder in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
            if not private or found.st_uid != os.geteuid():
                continue
            if time.time() - found.st_mtime > _EMPTY_FOR_S:
                # The process was killed before it had its lock. Other folders stay.
                with contextlib.suppress(OSError):
                    folder.rmdir()
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                # Raises an error if the owner lives.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
            finally:
                os.close(lock)


def _remove(folder: Path) -> None:
    """Remove the sockets, then the lock, and the folder if it is empty then."""
    for entry in list(os.scandir(folder)):
        if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
            os.unlink(entry.path)
    if [entry.name for entry in os.scandir(folder)] == [_LOCK]:
        (folder / _LOCK).unlink()
        folder.rmdir()
