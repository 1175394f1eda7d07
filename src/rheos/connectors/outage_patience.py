"""Retry budget for a system that is down or refuses requests temporarily, for callers that may wait."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic_ns, sleep
from typing import TypeVar

from rheos.connectors.unreachable_servers import SERVERS_AWAY
from rheos.core.connectors.backoff import Backoff
from rheos.core.errors import RheosError, UnavailableError

T = TypeVar("T")


class Patience:
    """Retry budget of one writer. It calls `retried` before each retry, and logs the reason once per
    outage."""

    def __init__(self, retry_for_ms: int, retried: Callable[[], None], logger: logging.Logger) -> None:
        self._logger = logger
        self._back_off = Backoff(retry_for_ms * 1000)
        self._retried = retried
        self._began_us: int | None = None

    def begin(self) -> None:
        """Start the budget now. Without this call, it starts at the first failure."""
        self._began_us = monotonic_ns() // 1000

    def spend(self, error: RheosError) -> None:
        """Wait before the next retry. Raises the error if it is not an UnavailableError, or if the
        budget is spent."""
        if not isinstance(error, UnavailableError):
            raise error from None
        if not self._back_off.failing:
            self._logger.warning("%s; retrying", error.what)
        SERVERS_AWAY.failed(self, error.what)
        wait_us = self._back_off.failed(monotonic_ns() // 1000, self._began_us)
        if wait_us is None:
            SERVERS_AWAY.forget(self)
            raise error from None
        self._retried()
        sleep(wait_us / 1e6)

    def ask(self, call: Callable[[], T]) -> T:
        """Return the result of a call, which is repeated while it raises UnavailableError. Raises that
        error when the budget is spent."""
        while True:
            try:
                found = call()
            except UnavailableError as error:
                self.spend(error)
            else:
                self.restore()
                return found

    def restore(self) -> None:
        """Reset the budget after a success."""
        if self._back_off.failing:
            SERVERS_AWAY.answered(self)
        self._back_off.restore()
