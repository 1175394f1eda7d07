"""Sizes, numbers and deadlines of a listener. None of them depends on what a peer sends."""

from __future__ import annotations

import os
from dataclasses import dataclass

HEAD_BYTES = 1 << 14
MAX_WAITING = 64
"""Connections without a valid token."""
_SHARE_OF_HANDLES = 16
"""Those take at most this part of the file handles of the process."""


@dataclass(frozen=True)
class Bounds:
    """What one listener allows."""

    max_connections: int
    """Connections that are served at a time."""
    max_body_bytes: int = 1 << 14
    max_waiting: int = MAX_WAITING
    head_s: float = 10.0
    """From the connection until the head of its request is there, with the handshake of TLS."""
    body_s: float = 15.0
    answer_piece_s: float = 10.0
    """For each piece of an answer (64 KiB), until its reader has taken it."""
    untrusted_answer_s: float = 30.0
    """For a whole answer to a connection without a valid token."""
    admitted_within_s: float = 0.0
    """For a request that finds too many others served, until it is refused."""
    linger_s: float = 1.0
    """For what a peer still sends after the answer."""
    end_s: float = 3.0
    """For answers under way when the listener is closed."""

    def waiting(self) -> int:
        """Return `max_waiting`, or less where the process may have few file handles."""
        return max(1, min(self.max_waiting, _handles() // _SHARE_OF_HANDLES))


def _handles() -> int:
    if os.name != "posix":
        return 1 << 20
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
