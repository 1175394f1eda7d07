"""Servers that clients of this process cannot reach, and since when: for health and metrics.

A client that retries records each failure, and the next success. A call that does not return is in
`bounded_calls.UNDER_WAY` instead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from time import monotonic
from weakref import WeakKeyDictionary

MOST_SERVERS = 32
"""Maximum number of clients whose servers are reported: those that were unreachable for longest."""


class UnreachableServers:
    """Unreachable servers by client. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: WeakKeyDictionary[object, tuple[str, float | None]] = WeakKeyDictionary()

    def failed(self, client: object, what: str) -> None:
        """Record that a client could not reach its server.

        Args:
            client: object that identifies the client as long as it exists. what: what the client could
                not do and why, for people.
        """
        with self._lock:
            before = self._clients.get(client)
            # The message of the first failure is kept, so that one outage has one message.
            if before is None or before[1] is None:
                self._clients[client] = what, monotonic()

    def answered(self, client: object) -> None:
        """Record that the server of a client has answered. Cheap if it was reachable before."""
        before = self._clients.get(client)
        if before is not None and before[1] is not None:
            with self._lock:
                self._clients[client] = before[0], None

    def forget(self, client: object) -> None:
        """Forget a client that is not used any more."""
        with self._lock:
            self._clients.pop(client, None)

    def is_away(self, client: object) -> bool:
        """Return whether the client failed to reach its server the last time."""
        before = self._clients.get(client)
        return before is not None and before[1] is not None

    def waits(self) -> Iterator[tuple[str, float]]:
        """Yield, for each server that was unreachable, the message and the duration in seconds. The
        duration is 0 if the server has answered since."""
        with self._lock:
            clients = list(self._clients.values())
        now_s = monotonic()
        found: dict[str, float] = {}
        for what, since_s in clients:
            found[what] = max(found.get(what, 0.0), 0.0 if since_s is None else now_s - since_s)
        longest_first = sorted(found.items(), key=lambda each: -each[1])
        yield from longest_first[:MOST_SERVERS]


SERVERS_AWAY = UnreachableServers()
"""Unavailable servers of this process."""
