"""A session whose calls end within Rheos's own limit.

libpq waits without a limit for a server that is connected but does not answer: a frozen process, or a
machine whose link drops packets. Yet a statement that takes long on a healthy server must not be
abandoned. So when the limit has passed, a second connection checks whether the server answers: if it
does, the call may take longer.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls, Progressed
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.postgres.connection import ServerOptions, ServerSession

T = TypeVar("T")

STATEMENT = OutsideCall(
    server="PostgreSQL",
    call="source, lookup and sink: connect, and each statement",
    limit_s=15.0,
    limit="starts over while the server answers on a second connection; 5 s for the sink to stage "
    "rows in the server",
    then="the connection is cut. The sink stages rows next to the checkpoints, and retries the "
    "commit every second until it succeeds; its target records which epochs it has. A lookup "
    "and the source repeat their work on another connection",
)
_ALIVE_S = 5.0


class ServerCheck:
    """Check whether a server answers. For one thread at a time."""

    def __init__(self, options: ServerOptions, doing: str) -> None:
        self._options = options
        self._doing = doing
        self._calls = BoundedCalls()

    def answers(self) -> bool:
        """Return whether the server answers on a new connection."""

        def ask(progressed: object) -> bool:
            session = self._options.connect(self._doing, connect_timeout=f"{_ALIVE_S:.0f}")
            with suppress(Exception):
                session.close()
            return True

        try:
            return self._calls.run(self._doing, 2 * _ALIVE_S, ask)
        except Exception:
            return False

    def close(self) -> None:
        """End the idle thread."""
        self._calls.close()


class WatchedSession:
    """A session that is opened by its first call, and again after it was closed. For one calling thread
    at a time."""

    def __init__(
        self,
        options: ServerOptions,
        doing: str,
        setting: str | None = None,
        *,
        hasty_s: float | None = None,
    ) -> None:
        """Create a session.

        Args:
            options: address of the server, and login.
            doing: beginning of error messages: "the table 't' cannot be written".
            setting: statement to run on each new connection.
            hasty_s: seconds without progress after which a call is abandoned, even if the server
                answers other connections. None: a call is abandoned after the limit of `STATEMENT`,
                and only if the server answers none.
        """
        self._hasty_s = hasty_s
        self._options = options
        self._doing = doing
        self._setting = setting
        self._calls = BoundedCalls()
        self._check = ServerCheck(options, doing)
        self._session: ServerSession | None = None

    def do(self, work: Callable[[ServerSession], T]) -> T:
        """Return the result of `work`, or raise its error.

        Raises UnavailableError if the server does not answer within the limit. It is unknown then
        whether `work` took effect.
        """
        session = self._session
        if session is None or not session.is_open:
            session = self._session = self._call(lambda progressed: self._opened(), None)

        def watched(progressed: Progressed) -> T:
            session.progressed = progressed
            return work(session)

        return self._call(watched, session)

    def close(self) -> None:
        """Close the connection. A later call opens another."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
        self._calls.close()
        self._check.close()

    def _opened(self) -> ServerSession:
        session = self._options.connect(self._doing)
        if self._setting is not None:
            session.run(self._setting)
        return session

    def _call(self, work: Callable[[Progressed], T], session: ServerSession | None) -> T:
        doing = f"{self._doing}, at {self._options}"
        try:
            if self._hasty_s is not None:
                return self._calls.run(doing, self._hasty_s, work)
            return self._calls.run(doing, STATEMENT.limit_s, work, alive=self._check.answers)
        except AbandonedCallError:
            self._session = None
            if session is not None:
                _cut_off(session)
            raise


def _cut_off(session: ServerSession) -> None:
    """Shut the socket under an abandoned call, which ends its wait."""
    with suppress(Exception):
        descriptor = os.dup(session.connection.pgconn.socket)
        with socket.socket(fileno=descriptor) as connected:
            connected.shutdown(socket.SHUT_RDWR)
