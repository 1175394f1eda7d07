"""Latency of batches at a gate, from their arrival until processed; it follows one batch at a time."""

from __future__ import annotations

from collections.abc import Callable

from rheos.core.protocol.elements import Batch


class GateLatency:
    """The gate reports what arrives and what is taken; the chain reports when it has processed that."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._watched: Batch | None = None
        self._since_us = 0
        self._taken = False
        self._longest_us = 0

    def arrived(self, batch: Batch) -> None:
        if self._watched is None:
            self._watched, self._since_us, self._taken = batch, self._now_us(), False

    def took(self, batch: object) -> None:
        if batch is self._watched:
            self._taken = True

    def processed(self) -> None:
        """Note that the taken batch is processed."""
        if self._taken:
            self._longest_us = max(self._longest_us, self._now_us() - self._since_us)
            self._watched, self._taken = None, False

    def longest_us(self) -> int:
        """Since the last call: also of a batch that is still there."""
        longest_us, self._longest_us = self._longest_us, 0
        if self._watched is not None:
            longest_us = max(longest_us, self._now_us() - self._since_us)
        return longest_us
