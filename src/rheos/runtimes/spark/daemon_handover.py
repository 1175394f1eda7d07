"""Handover from the daemon that Spark has started to the one that was started early (`early_daemon`).

Spark's daemon connects to the socket of the early one, and passes on everything that it received from
Spark: streams, environment, arguments and paths. Then it only waits for the early daemon to end: to
Spark it is the daemon. Only the first one that connects hands over. A later one, or one that finds no
early daemon, does the work itself. Spark ends its daemon by closing its input, which the early daemon
owns by then.

This module imports little, because Spark waits for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys
from collections.abc import Callable

PLACE = "RHEOS_DAEMON_AHEAD"
"""Environment variable that contains the path of the socket."""

_TAKEN = b"+"
_STREAMS = (0, 1, 2)


def another_stands_in() -> bool:
    """Hand over to an early daemon, if there is one: then wait until it has ended, and return True.
    Called in the daemon that Spark has started."""
    place = os.environ.get(PLACE)
    if place is None:
        return False
    with socket.socket(socket.AF_UNIX) as other:
        try:
            other.connect(place)
            socket.send_fds(other, [b"\n"], _STREAMS)
            other.sendall(json.dumps([dict(os.environ), os.getcwd(), sys.path, sys.argv]).encode())
            other.shutdown(socket.SHUT_WR)
            if other.recv(1) != _TAKEN:
                return False
        except OSError:
            return False
        with contextlib.suppress(OSError):
            other.recv(1)
    return True


def stands_in(place: str, import_beforehand: Callable[[], None]) -> bool:
    """Import, wait for the daemon that Spark has started, and take its place. Return False if the
    driver ended before, or needs no daemon. Called in the early daemon."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(1)
        import_beforehand()
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return False
        spark, _ = listener.accept()
    _, streams, _, _ = socket.recv_fds(spark, 1, len(_STREAMS))
    with spark.makefile("rb") as reader:
        environment, folder, paths, arguments = json.load(reader)
    for stream, number in zip(streams, _STREAMS, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:] = paths
    sys.argv[:] = arguments
    spark.sendall(_TAKEN)
    # The connection stays open until this process ends, whatever its workers do.
    os.register_at_fork(after_in_child=spark.close)
    return True
