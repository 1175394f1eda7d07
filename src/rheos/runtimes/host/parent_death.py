"""A process that ends with the one that has started it, even if that one is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

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
