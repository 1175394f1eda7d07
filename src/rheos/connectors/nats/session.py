"""Connection to NATS for one thread at a time. The client is a library for asyncio.

Its event loop runs only during a call, in the thread of `BoundedCalls`. Between calls it is
stopped, so nothing is read from the connection: a slow job slows the server down. The client never
reconnects by itself: after an error, the next call opens another connection.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from rheos.connectors.calls.client_loop import CLOSE_S, ClientLoop
from rheos.connectors.calls.client_session import ClientSession
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.nats.bounded_parser import bound_parser
from rheos.connectors.nats.client_options import ANSWER_S, NatsOptions, client, nats_error
from rheos.core.errors import RheosError

T = TypeVar("T")

LOGGER = logging.getLogger("rheos.nats")

REQUESTS = OutsideCall(
    server="NATS",
    call="source and sink: a request, or a batch of messages",
    limit_s=15.0,
    limit="the client has 5 s for each answer",
    then="the connection is closed. The source continues from its position on another one. After 1 s "
    "the sink stages rows next to the checkpoints, and tries to deliver them every second; rows, "
    "checkpoints and other sinks continue",
)


class NatsConnection:
    """An open connection with its event loop. All methods are for one thread."""

    def __init__(self, options: NatsOptions) -> None:
        self._options = options
        self._loop = ClientLoop()
        self.nats: Any = None
        self.stream_api: Any = None
        """The client's JetStream context."""
        self.refused: Exception | None = None
        """Last error that the server has sent without a request, such as a missing permission."""

    @property
    def domain(self) -> str | None:
        """Return the JetStream domain, if one is set."""
        return self._options.domain

    def run(self, work: Callable[[NatsConnection], Awaitable[T]], limit_s: float) -> T:
        """Run a coroutine until it ends."""
        return self._loop.run(self._opened(work), limit_s)

    def close(self) -> None:
        """Close the connection, at once."""
        if self._loop.is_closed:
            return
        if self.nats is not None:
            with contextlib.suppress(Exception):
                self._loop.run(self.nats.close(), CLOSE_S)
        self._loop.close()

    async def _opened(self, work: Callable[[NatsConnection], Awaitable[T]]) -> T:
        if self.nats is None:
            connection = client().NATS()
            bound_parser(connection)
            self.nats = connection
            await connection.connect(
                **self._options.arguments(),
                name="rheos",
                allow_reconnect=False,
                connect_timeout=ANSWER_S,
                error_cb=self._on_error,
            )
            self.stream_api = connection.jetstream(domain=self._options.domain, timeout=ANSWER_S)
        try:
            return await work(self)
        except TimeoutError:
            if self.refused is not None:
                raise self.refused from None
            raise

    async def _on_error(self, error: Exception) -> None:
        self.refused = error


class NatsSession(ClientSession[NatsConnection]):
    """Session with the servers of `options`."""

    def __init__(self, options: NatsOptions, doing: str) -> None:
        def translated(error: BaseException) -> RheosError:
            return nats_error(error, doing, options)

        super().__init__(partial(NatsConnection, options), REQUESTS, doing, options.address, translated)
