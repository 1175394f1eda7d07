"""Sockets that listen: what each allows before anything of a peer is looked at, and where it is."""

from __future__ import annotations

import contextlib
import hmac
import os

import zmq

from rheos.core.errors import ConfigurationError

_HANDSHAKE_WITHIN_MS = 10_000
"""Time in ms after which a connection that has not authenticated is closed."""
_BACKLOG = 128


def listen(socket: zmq.Socket[bytes], where: str, max_frame_bytes: int) -> str:
    """Bind the socket, and return its address. `where` is "ipc://..." or "tcp://host:*", for a free
    port.

    A frame that claims to be larger than `max_frame_bytes` ends its connection. An ipc socket accepts
    only processes of this user.
    """
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
            hint="is this an address of its machine? spark.driver.host and SPARK_LOCAL_IP set it",
        ) from error
    return _text(socket.getsockopt(zmq.LAST_ENDPOINT))


def is_of(token: bytes, frame: bytes | memoryview) -> bool:
    """Whether the frame begins with the job's token; compared in constant time. Asked before anything
    else of the frame is looked at."""
    return hmac.compare_digest(frame[: len(token)], token)


def _only_this_user(socket: zmq.Socket[bytes]) -> None:
    # If the system, or this build of ZeroMQ, cannot tell, the folder still keeps other users out.
    with contextlib.suppress(zmq.ZMQError):
        socket.setsockopt(zmq.IPC_FILTER_UID, os.getuid())


def _text(value: int | bytes) -> str:
    assert isinstance(value, bytes)
    return value.rstrip(b"\0").decode()
