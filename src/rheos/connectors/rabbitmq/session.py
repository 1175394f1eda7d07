"""Connection to RabbitMQ with one channel, for one thread at a time. The client runs on an event loop,
which runs only during a call."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from rheos.connectors.calls.client_loop import CLOSE_S, ClientLoop
from rheos.connectors.calls.client_session import ClientSession
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.rabbitmq.client_options import ANSWER_S, RabbitmqOptions, client, rabbitmq_error
from rheos.core.errors import RheosError

T = TypeVar("T")

LOGGER = logging.getLogger("rheos.rabbitmq")

REQUESTS = OutsideCall(
    server="RabbitMQ",
    call="source and sink: a request, or a batch of messages",
    limit_s=15.0,
    limit="the server has 5 s for each answer",
    then="the connection is closed, and another one is opened. The server delivers again what was not "
    "acknowledged. After 1 s the sink stages rows next to the checkpoints, and tries to deliver them "
    "every second; rows, checkpoints and other sinks continue",
)


class RabbitmqConnection:
    """An open connection and its channel. All methods are for one thread."""

    def __init__(self, options: RabbitmqOptions, heartbeat_s: int) -> None:
        self._options = options
        self._heartbeat_s = heartbeat_s
        self._loop = ClientLoop()
        self._connection: Any = None
        self.channel: Any = None
        self._waiting: asyncio.Future[Any] | None = None
        self.lost: BaseException | None = None
        """Error that has closed the channel or the connection."""
        self.on_lost: Callable[[], None] = lambda: None

    def run(self, work: Callable[[RabbitmqConnection], Awaitable[T]], limit_s: float) -> T:
        """Run a coroutine until it ends. The first call connects."""
        return self._loop.run(self._opened(work), limit_s)

    async def answer(self, ask: Callable[[Callable[[Any], None]], Any]) -> Any:
        """Send a request, and return the answer.

        Args:
            ask: sends the request. It is passed the callback for the answer.

        Returns:
            The answer.

        Raises:
            Exception: The channel was closed, or there is no answer for some seconds.
        """
        if self.lost is not None:
            raise self.lost
        waiting = self._waiting = self._loop.loop.create_future()

        def answered(answer: Any) -> None:
            if not waiting.done():
                waiting.set_result(answer)

        ask(answered)
        return await asyncio.wait_for(waiting, ANSWER_S)

    def close(self) -> None:
        """Close the connection, at once."""
        if self._loop.is_closed:
            return
        connection, self._connection = self._connection, None
        if connection is not None and not (connection.is_closing or connection.is_closed):
            closed = self._closing(connection)
            with contextlib.suppress(Exception):
                self._loop.run(closed, CLOSE_S)
        self._loop.close()

    async def _closing(self, connection: Any) -> None:
        connection.close()
        while not connection.is_closed:
            await asyncio.sleep(0.01)

    async def _opened(self, work: Callable[[RabbitmqConnection], Awaitable[T]]) -> T:
        if self._connection is None:
            made = client().adapters.asyncio_connection.AsyncioConnection
            parameters = self._options.parameters(self._heartbeat_s)

            def connect(answered: Callable[[Any], None]) -> None:
                self._connection = made(
                    parameters,
                    on_open_callback=answered,
                    on_open_error_callback=lambda _, error: self._on_lost(error),
                    on_close_callback=lambda _, error: self._on_lost(error),
                    custom_ioloop=self._loop.loop,
                )

            connection = await self.answer(connect)
            self.channel = await self.answer(lambda on: connection.channel(on_open_callback=on))
            self.channel.add_on_close_callback(lambda _, error: self._on_lost(error))
        if self.lost is not None:
            raise self.lost
        return await work(self)

    def _on_lost(self, error: Any) -> None:
        self.lost = self.lost or (
            error if isinstance(error, BaseException) else ConnectionError(str(error))
        )
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(self.lost)
        self.on_lost()


class RabbitmqSession(ClientSession[RabbitmqConnection]):
    """Session with the server of `options`.

    Args:
        heartbeat_s: interval of the signs of life; 0 if calls may be far apart.
    """

    def __init__(self, options: RabbitmqOptions, doing: str, heartbeat_s: int = 0) -> None:
        def translated(error: BaseException) -> RheosError:
            return rabbitmq_error(error, doing, options)

        connect = partial(RabbitmqConnection, options, heartbeat_s)
        super().__init__(connect, REQUESTS, doing, options.address, translated)

    @property
    def is_lost(self) -> bool:
        """Return whether the connection of an earlier call was closed by the server."""
        return self.connection is not None and self.connection.lost is not None
