"""Session that reconnects after an outage of the server, and repeats the failed call."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from rheos.connectors.postgres.connection import ServerOptions, ServerSession, client
from rheos.connectors.postgres.errors import may_pass, postgres_error
from rheos.connectors.postgres.watched_session import WatchedSession
from rheos.connectors.unreachable_servers import SERVERS_AWAY

T = TypeVar("T")

_PAUSES_S = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0, None)
"""Pauses between retries. Together they exceed the time that a server takes to restart."""
RETRIES = "retries"


class RetryingSession:
    """Session that repeats failed calls after a pause. One thread at a time may use it."""

    def __init__(
        self,
        options: ServerOptions,
        doing: str,
        *,
        retries: bool = True,
        hasty_s: float | None = None,
    ) -> None:
        """Create a session.

        Args:
            options: address of the server, and login.
            doing: beginning of error messages: "the table 't' cannot be written".
            retries: whether to repeat failed calls. False if the caller does so itself.
            hasty_s: as for `WatchedSession`.
        """
        self._options = options
        self._doing = doing
        self._pauses_s = _PAUSES_S if retries else (None,)
        self._session = WatchedSession(options, doing, hasty_s=hasty_s)
        self._counts: Counter[str] = Counter()

    def counted(self) -> Counter[str]:
        """Return the counts since the last call."""
        counts, self._counts = self._counts, Counter()
        return counts

    def do(self, work: Callable[[ServerSession], T]) -> T:
        """Return the result of `work`, which may be called several times: after a failure it is unknown
        whether it took effect. Raises a RheosError."""
        psycopg = client()
        for pause_s in self._pauses_s:
            try:
                done = self._session.do(work)
                SERVERS_AWAY.answered(self)
                return done
            except psycopg.Error as raised:
                error = postgres_error(raised, self._doing, self._options)
            except Exception as raised:
                self.close()
                if not may_pass(raised):  # type: ignore[arg-type]
                    raise
                error = raised  # type: ignore[assignment]
            self.close()
            if may_pass(error):
                self._counts[RETRIES] += 1
                SERVERS_AWAY.failed(self, error.what)
            if not may_pass(error) or pause_s is None:
                raise error from None
            time.sleep(pause_s)
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        self._session.close()
