"""Declarations of the calls that may wait for a server, each with its time limit.

Every module that calls a client library declares its calls as constants. The table in
`docs/operating.md` is made of them, and tests go through all of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class OutsideCall:
    """A kind of call to a server, and what happens if the server does not answer."""

    server: str
    """The system, for people: "Redis"."""
    call: str
    """Name of the call for messages: "a command"."""
    limit_s: float
    """Seconds without progress after which the call is abandoned. Infinite if the call has no limit,
    because a thread of its own waits and nothing waits for that thread."""
    limit: str = ""
    """More about the limit, for people: when it begins again, or which setting extends it."""
    then: str
    """What happens at the limit, and why no row is lost or duplicated."""
