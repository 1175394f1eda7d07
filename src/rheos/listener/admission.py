"""Which connections stay. Pure: it counts, and says which ones to close.

    enter ──> waiting ──admit──> admitted ──> leave
                 │  <──settle──────┘
                 └──exempt──> exempt ──> leave

A connection *waits* until it has shown a valid token, or, where no tokens are in use, until its request
is complete. The number of those is small, and one more takes the place of the oldest. An *admitted* one
keeps its place, and one more is refused. An *exempt* one asks for health: it is served whatever the
others do, and for its short life the oldest makes room for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

MAX_EXEMPT = 16
"""Requests for health that are answered at a time."""

P = TypeVar("P")


class AdmissionCounts(msgspec.Struct, frozen=True):
    """Connections of a listener."""

    waiting: int
    """Open without a valid token."""
    admitted: int
    """Open, and served."""
    evicted: int
    """Closed so far, because newer ones needed their place."""
    refused: int
    """Refused so far: too many were admitted, or the token was wrong or missing."""
    late: int
    """Closed so far, because head, body or the reading of the answer took too long."""


@dataclass
class ConnectionAdmission(Generic[P]):
    """The connections of one listener, each known by a value of its own."""

    max_waiting: int
    max_admitted: int

    def __post_init__(self) -> None:
        # Dictionaries keep the order of entry.
        self._waiting: dict[P, None] = {}
        self._admitted: dict[P, None] = {}
        self._exempt: dict[P, None] = {}
        self._evicted = self._refused = self._late = 0

    def enter(self, peer: P) -> P | None:
        """Let a new connection in to wait. Returns one to close."""
        self._waiting[peer] = None
        return self._over(self._waiting, self.max_waiting)

    def admit(self, peer: P) -> bool:
        """Admit a connection that waits. False where too many are admitted: it goes on waiting."""
        if len(self._admitted) >= self.max_admitted:
            return False
        self.leave(peer)
        self._admitted[peer] = None
        return True

    def exempt(self, peer: P) -> P | None:
        """Take a connection out of the bound of those that wait. Returns one to close."""
        self.leave(peer)
        self._exempt[peer] = None
        return self._over(self._exempt, MAX_EXEMPT)

    def settle(self, peer: P) -> P | None:
        """Have an admitted connection wait again, as the newest. Returns one to close."""
        if peer not in self._admitted:
            return None
        del self._admitted[peer]
        return self.enter(peer)

    def leave(self, peer: P) -> None:
        """Forget a connection that is closed."""
        for places in (self._waiting, self._admitted, self._exempt):
            places.pop(peer, None)

    def evict(self) -> P | None:
        """Return the oldest that waits, to be closed: the process has run out of file handles."""
        return self._over(self._waiting, len(self._waiting) - 1) if self._waiting else None

    def waiting(self) -> list[P]:
        """Return those that have shown no token."""
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

    def _over(self, places: dict[P, None], most: int) -> P | None:
        if len(places) <= most:
            return None
        oldest = next(iter(places))
        del places[oldest]
        self._evicted += 1
        return oldest
