"""Admission of connections. Pure: it counts connections and returns those to close.

    enter ──> waiting ──admit──> admitted ──> leave
      │  <──settle──────┘
      └──exempt──> exempt ──> leave

A connection *waits* until it has shown a valid token or, without tokens, until its request is complete.
The number of waiting connections is limited; at the limit, a new connection closes the oldest. An
*admitted* connection stays open; if too many are admitted, the listener refuses further ones. An
*exempt* connection requests health, and is always served. At `MAX_EXEMPT`, a new one closes the oldest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

MAX_EXEMPT = 16
"""Maximum requests for health that are served at a time."""

P = TypeVar("P")


class AdmissionCounts(msgspec.Struct, frozen=True):
    """Connections of a listener."""

    waiting: int
    """Open connections without a valid token."""
    admitted: int
    """Open connections that are served."""
    evicted: int
    """Connections closed so far for newer ones."""
    refused: int
    """Connections refused so far: too many were admitted, or the token was wrong or missing."""
    late: int
    """Connections closed so far because of a deadline for head, body or answer."""


@dataclass
class ConnectionAdmission(Generic[P]):
    """Connections of one listener, each identified by a value of type P."""

    max_waiting: int
    max_admitted: int

    def __post_init__(self) -> None:
        # Dictionaries keep the order of entry.
        self._waiting: dict[P, None] = {}
        self._admitted: dict[P, None] = {}
        self._exempt: dict[P, None] = {}
        self._evicted = self._refused = self._late = 0

    def enter(self, peer: P) -> P | None:
        """Add a new connection, which waits. Return a connection to close, or None."""
        self._waiting[peer] = None
        return self._largest_over(self._waiting, self.max_waiting)

    def admit(self, peer: P) -> bool:
        """Admit a waiting connection. Return False if too many are admitted; it continues to wait."""
        if len(self._admitted) >= self.max_admitted:
            return False
        self.leave(peer)
        self._admitted[peer] = None
        return True

    def exempt(self, peer: P) -> P | None:
        """Exempt a connection from the bound of waiting ones. Return a connection to close, or None."""
        self.leave(peer)
        self._exempt[peer] = None
        return self._largest_over(self._exempt, MAX_EXEMPT)

    def settle(self, peer: P) -> P | None:
        """Make an admitted connection wait again, as the newest. Return one to close, or None."""
        if peer not in self._admitted:
            return None
        del self._admitted[peer]
        return self.enter(peer)

    def leave(self, peer: P) -> None:
        """Forget a connection that is closed."""
        for places in (self._waiting, self._admitted, self._exempt):
            places.pop(peer, None)

    def evict(self) -> P | None:
        """Return the oldest waiting connection to close, after the process ran out of file handles."""
        return self._largest_over(self._waiting, len(self._waiting) - 1) if self._waiting else None

    def waiting(self) -> list[P]:
        """Return the waiting connections."""
        return list(self._waiting)

    def count_refused(self) -> None:
        self._refused += 1

    def count_late(self) -> None:
        self._late += 1

    def counts(self) -> AdmissionCounts:
        return AdmissionCounts(
            len(self._waiting) + len(self._exempt),
            len(self._admitted),
            self._evicted,
            self._refused,
            self._late,
        )

    def _largest_over(self, places: dict[P, None], most: int) -> P | None:
        if len(places) <= most:
            return None
        oldest = next(iter(places))
        del places[oldest]
        self._evicted += 1
        return oldest
