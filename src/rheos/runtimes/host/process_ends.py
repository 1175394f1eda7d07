"""Ends of processes: not by `os._exit` in a function, and not after the process that started them."""

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
    """Within it, `os._exit` raises SystemExit in the calling thread, as `sys.exit` does. Other threads,
    and processes that are forked from this one, end by it as they ever did."""
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
    """Have the system send this process a signal when its parent ends, and send it now if that has
    happened already. Does nothing where the system cannot (Linux can).

    Args:
        parent: the process that has started this one, as it knows itself.
        by: the signal.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(by), 0, 0, 0) != 0:
        return
    if os.getppid() != parent:  # It ended before the system was asked.
        os.kill(os.getpid(), by)
