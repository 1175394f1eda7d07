"""Sizes, numbers and deadlines of a listener. None of them depends on what a peer sends."""

from __future__ import annotations

import os
from dataclasses import dataclass

HEAD_BYTES = 1 << 14
MAX_WAITING = 64
"""Maximum number of open connections without a valid token."""
_SHARE_OF_HANDLES = 16
"""Connections without a valid token use at most this fraction (1/16) of the process's file handles."""


@dataclass(frozen=True)
class Bounds:
    """The bounds of one listener."""

    max_connections: int
    """Maximum connections that are served at a time."""
    max_body_bytes: int = 1 << 14
    max_waiting: int = MAX_WAITING
    head_s: float = 10.0
    """Time from the start of a connection to the end of its head, including the TLS handshake."""
    body_s: float = 15.0
    answer_piece_s: float = 10.0
    """Time for the peer to read each piece of an answer (64 KiB)."""
    untrusted_answer_s: float = 30.0
    """Time for a whole answer to a connection without a valid token."""
    admitted_within_s: float = 0.0
    """Time that a request waits if too many others are served, before it is refused."""
    linger_s: float = 1.0
    """Time to read what a peer still sends after the answer."""
    end_s: float = 3.0
    """Time for running answers when the listener is closed."""

    def waiting(self) -> int:
        """Return `max_waiting`, or less if the process may have only a few file handles."""
        return max(1, min(self.max_waiting, _handles() // _SHARE_OF_HANDLES))


def _handles() -> int:
    if os.name != "posix":
        return 1 << 20
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
