"""Ends of processes: turns `os._exit` into SystemExit, and ends a process with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def os_exit_raises() -> Iterator[None]:
    """Make `os._exit` in the block raise SystemExit in the calling thread, as `sys.exit` does. In other
    threads, and in processes forked from this one, it works as usual."""
    end, here = os._exit, (os.getpid(), threading.get_ident())

    def leave(status: int) -> None:
        if (os.getpid(), threading.get_ident()) == here:
            raise SystemExit(f"os._exit({status})")
        end(status)

    os._exit = leave  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = end


_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int, by: signal.Signals) -> None:
    """Request that the system sends this process a signal when its parent ends, and send it now if the
    parent has already ended. Does nothing if the system cannot do that (Linux can).

    Args:
        parent: pid of the process that has started this one, as the parent itself knows it.
        by: the signal.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(by), 0, 0, 0) != 0:
        return
    if os.getppid() != parent:  # It ended before the request.
        os.kill(os.getpid(), by)
