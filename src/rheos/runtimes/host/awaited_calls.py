"""The wait for calls of asynchronous operators, in hosts without other work."""

from __future__ import annotations

import time

from rheos.core.operators.contract import StartedWork

_MAX_WAIT_US = 1000
"""Maximum interval between checks, because no completion wakes the waiting thread."""


def wait_for(begun: StartedWork) -> None:
    """Wait until the calls have completed. Raise the error that ends the attempt."""
    while not begun.ready():
        time.sleep(min(begun.wake_after_us() or _MAX_WAIT_US, _MAX_WAIT_US) / 1e6)
