"""Retry times after a failure: at growing intervals, up to a time limit. Pure."""

from __future__ import annotations

from collections.abc import Callable

_FIRST_WAIT_US = 50_000
_LONGEST_WAIT_US = 1_000_000


class Backoff:
    """The back-off of one caller. By default it waits 50 ms first, then twice as long, up to 1 s.

    With `most_tries`, the back-off also ends after that number of failures. With `jitter`, which
    returns random numbers below 1, each wait is between half of its length and its length.
    """

    def __init__(
        self,
        retry_for_us: int,
        *,
        first_us: int = _FIRST_WAIT_US,
        longest_us: int = _LONGEST_WAIT_US,
        most_tries: int | None = None,
        jitter: Callable[[], float] | None = None,
    ) -> None:
        self._retry_for_us = retry_for_us
        self._first_us = first_us
        self._longest_us = longest_us
        self._since_us: int | None = None
        self._wait_us = first_us
        self._most_tries = most_tries
        self._jitter = jitter
        self.failures = 0
        """Number of failures since the last success."""

    @property
    def failing(self) -> bool:
        return self._since_us is not None

    def failed(self, now_us: int, began_us: int | None = None) -> int | None:
        """Record a failure, and return the time to wait before the next try. Return None if tries have
        failed for `retry_for_us`. That time starts at `began_us`, when the first try began, or at the
        first failure."""
        if self._since_us is None:
            self._since_us = now_us if began_us is None else began_us
            self._wait_us = self._first_us
        self.failures += 1
        if self.failing_for_us(now_us) >= self._retry_for_us or self.failures == self._most_tries:
            return None
        wait_us, self._wait_us = self._wait_us, min(2 * self._wait_us, self._longest_us)
        return wait_us if self._jitter is None else int(wait_us * (1 + self._jitter()) / 2)

    def failing_for_us(self, now_us: int) -> int:
        """Return the time since the first failure after the last success; 0 without a failure."""
        return 0 if self._since_us is None else now_us - self._since_us

    def restore(self) -> None:
        """Record a success: the next failure starts a new back-off."""
        self._since_us = None
        self.failures = 0
