"""The leases of workers: which of them were silent for longer than the heartbeat timeout."""

from __future__ import annotations

from collections.abc import Iterator


class Leases:
    """Times at which workers were heard last.

    Looking for silent workers costs nothing as long as none can be silent. The leases remember a time
    before which no lease can end. Later messages only extend leases, so that this time stays valid.

    All times are in seconds, of one monotonic clock that the caller reads.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._heard: dict[bytes, float] = {}
        """Time of the last message, by worker."""
        self._none_before = float("inf")
        """Time before which no lease ends."""

    def __contains__(self, worker: bytes) -> bool:
        return worker in self._heard

    def heard(self, worker: bytes, now: float) -> None:
        """Begin or extend the lease of a worker."""
        self._heard[worker] = now
        self._none_before = min(self._none_before, now + self._timeout_s)

    def heard_at(self, worker: bytes) -> float | None:
        """Return the time of a worker's last message; None if it has no lease."""
        return self._heard.get(worker)

    def extend_all(self, now: float) -> None:
        """Extend all leases, as if each worker had just been heard."""
        self._heard = dict.fromkeys(self._heard, now)

    def end(self, worker: bytes) -> None:
        """End a lease. Raises KeyError for a worker without a lease."""
        del self._heard[worker]

    def clear(self) -> None:
        """End all leases."""
        self._heard.clear()
        self._none_before = float("inf")

    def due(self) -> float:
        """Return the earliest time at which `silent` may find a worker; infinite without leases."""
        return self._none_before

    def silent(self, now: float) -> Iterator[bytes]:
        """Yield each worker that was silent for longer than the timeout. Its lease goes on."""
        if now <= self._none_before:
            return
        silent = [worker for worker, heard in self._heard.items() if now - heard > self._timeout_s]
        rest = (heard for worker, heard in self._heard.items() if now - heard <= self._timeout_s)
        # A silent worker whose lease goes on is found again.
        self._none_before = now if silent else min(rest, default=float("inf")) + self._timeout_s
        yield from silent
