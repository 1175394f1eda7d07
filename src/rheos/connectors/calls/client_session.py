"""Session with a server whose client is written for asyncio, for one thread at a time.

Connections run their own event loop (`ClientLoop`) in the thread of `BoundedCalls`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls
from rheos.connectors.calls.client_loop import CLOSE_S
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.core.errors import RheosError, UnavailableError

T = TypeVar("T")


class LoopConnection(Protocol):
    """Connection that opens itself when it is first used."""

    def run(self, work: Callable[[Any], Awaitable[T]], limit_s: float) -> T:
        """Run a coroutine until it ends."""

    def close(self) -> None:
        """Close the connection, at once."""


C = TypeVar("C", bound=LoopConnection)


class ClientSession(Generic[C]):
    """Connection that is opened by the first call, and again after an error.

    Args:
        connect: Creates a connection.
        requests: What a call is, with its limit.
        doing: begins the messages of errors: "the stream 'a' cannot be read".
        address: Address of the server, for messages.
        translated: Translates errors of the client.
    """

    def __init__(
        self,
        connect: Callable[[], C],
        requests: OutsideCall,
        doing: str,
        address: str,
        translated: Callable[[BaseException], RheosError],
    ) -> None:
        self._connect = connect
        self._requests = requests
        self._doing = doing
        self._server = f"{requests.server} at {address}"
        self._translated = translated
        self._calls = BoundedCalls()
        self.connection: C | None = None

    def call(self, work: Callable[[C], Awaitable[T]]) -> T:
        """Return the result of a coroutine.

        Args:
            work: Creates the coroutine. It is passed the open connection.

        Returns:
            Its result.

        Raises:
            RheosError: It failed. Another call opens another connection.
        """
        connection = self.connection = self.connection or self._connect()
        limit_s = self._requests.limit_s

        def run() -> T:
            try:
                return connection.run(work, limit_s)
            except BaseException:
                connection.close()
                raise

        try:
            # The coroutine has a limit of its own. The second one is for a library that blocks.
            return self._calls.run(self._server, limit_s + 2 * CLOSE_S, lambda progressed: run())
        except AbandonedCallError as error:
            self.connection = None
            raise UnavailableError(f"{self._doing}: {error.what}", hint=error.hint) from None
        except BaseException as error:
            self.connection = None
            raise self._translated(error) from None

    def close(self) -> None:
        """Close the connection. A later call opens another."""
        connection, self.connection = self.connection, None
        if connection is not None:
            with contextlib.suppress(UnavailableError):
                self._calls.run(
                    self._server, self._requests.limit_s, lambda progressed: connection.close()
                )
        self._calls.close()
