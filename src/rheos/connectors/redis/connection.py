"""One connection to a Redis: commands go out together, and their answers come back in order.

What a server refuses for now, and what a lost connection leaves open, is sent again: all commands that
Rheos writes may be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from rheos.connectors.patience import Patience
from rheos.connectors.redis.client_options import RedisOptions, client
from rheos.connectors.redis.commands import command
from rheos.connectors.redis.errors import redis_error

T = TypeVar("T")

LOGGER = logging.getLogger("rheos.redis")


class RefusedError(Exception):
    """An answer is an error."""

    def __init__(self, reply: int, error: Exception) -> None:
        super().__init__(str(error))
        self.reply = reply
        self.error = error


class RedisConnection:
    """Not for two threads at once. It connects by itself, also again."""

    def __init__(
        self, options: RedisOptions, connected: Callable[[RedisConnection], None] | None = None
    ) -> None:
        """`connected` is called with each new connection, before anything else is sent."""
        self.options = options
        self._connection = options.connection()
        self._connected = connected
        self._is_open = False

    def send(self, data: bytes | memoryview) -> None:
        """Sends commands. Raises what the client raises."""
        try:
            if not self._is_open:
                self._connection.connect()
                self._is_open = True
                if self._connected is not None:
                    self._connected(self)
            self._connection.send_packed_command([data])
        except Exception:
            self.close()
            raise

    def receive(self, count: int) -> list[Any]:
        """So many answers. Raises RefusedError for the first that is an error, when all are read."""
        errors = client().ResponseError
        read, answers = self._connection.read_response, []
        refused: RefusedError | None = None
        try:
            for number in range(count):
                try:
                    answers.append(read())
                except errors as error:
                    refused = refused or RefusedError(number, error)
        except Exception:
            self.close()
            raise
        if refused is not None:
            raise refused
        return answers

    def ask(self, *commands: bytes) -> list[Any]:
        """Sends some commands, and has their answers. Raises what the client raises."""
        self.send(b"".join(commands))
        try:
            return self.receive(len(commands))
        except RefusedError as refused:
            raise refused.error from None

    def close(self) -> None:
        self._is_open = False
        self._connection.disconnect()


class RedisPatience:
    """How long something is tried again, and how often it was."""

    def __init__(self, retry_for_ms: int, options: RedisOptions, retried: Callable[[], None]) -> None:
        """`retried` is called before each further try."""
        self._patience = Patience(retry_for_ms, retried, LOGGER)
        self._options = options

    def begin(self) -> None:
        """As `Patience.begin`."""
        self._patience.begin()

    def spend(self, error: Exception, doing: str, record: str | None = None) -> None:
        """Waits before the next try, or raises the RheosError where there is to be none."""
        self._patience.spend(redis_error(error, doing, self._options, record=record))

    def ask(self, asked: Callable[[], T], doing: str) -> T:
        """What that gives, tried again as long as there is patience. Raises the RheosError."""
        while True:
            try:
                given = asked()
            except (OSError, client().RedisError) as error:
                self.spend(error, doing)
            else:
                self.restore()
                return given

    def restore(self) -> None:
        """It went well."""
        self._patience.restore()


def check_reachable(options: RedisOptions, retry_for_ms: int, doing: str) -> None:
    """Raises the RheosError where it is not."""
    connection = RedisConnection(options)
    patience = RedisPatience(retry_for_ms, options, lambda: None)
    try:
        patience.ask(lambda: connection.ask(command("PING")), doing)
    finally:
        connection.close()
