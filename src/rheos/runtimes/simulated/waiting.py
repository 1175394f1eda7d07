"""Waits in virtual time for the calls of an asynchronous operator, where one thread runs everything."""

from __future__ import annotations

from rheos.core.errors import ProgramError
from rheos.core.operators.contract import StartedWork
from rheos.runtimes.simulated.clock import SimClock

_MOST_RETRIES = 10_000
_WAIT_US = 1000


def wait_for_calls(begun: StartedWork, clock: SimClock) -> None:
    """Wait until calls to outside systems end, advancing the clock for retries. Raise ProgramError if
    they do not end."""
    for _ in range(_MOST_RETRIES):
        if begun.ready():
            return
        clock.advance(begun.wake_after_us() or _WAIT_US)
    raise ProgramError("an asynchronous call does not end", hint="set a timeout")
