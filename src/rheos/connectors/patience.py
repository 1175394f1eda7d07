"""How long a system that is away, or refuses for now, is tried again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic, sleep

from rheos.errors import RheosError, UnavailableError

_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 1.0


class Patience:
    """Of one writer. `retried` is called before each further try; why there is one is logged once for
    each time that it goes wrong."""

    def __init__(self, retry_for_ms: int, retried: Callable[[], None], logger: logging.Logger) -> None:
        self._logger = logger
        self._retry_for_s = retry_for_ms / 1000
        self._retried = retried
        self._since_s: float | None = None
        self._wait_s = _FIRST_WAIT_S

    def spend(self, error: RheosError) -> None:
        """Waits before the next try; raises the error where it does not pass (only UnavailableError
        may), or has lasted for too long."""
        now_s = monotonic()
        may_pass = isinstance(error, UnavailableError)
        if self._since_s is None:
            self._since_s, self._wait_s = now_s, _FIRST_WAIT_S
            if may_pass:
                self._logger.warning("%s; trying again", error.what)
        if not may_pass or now_s - self._since_s >= self._retry_for_s:
            raise error from None
        self._retried()
        sleep(self._wait_s)
        self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)

    def restore(self) -> None:
        """It went well."""
        self._since_s = None
