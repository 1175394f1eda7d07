"""One connection to a Redis: commands go out together, and their answers come back in order.

What a server refuses for now, and what a lost connection leaves open, is sent again: all commands that
Rheos writes may be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls, Progressed
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.patience import Patience
from rheos.connectors.redis.client_options import ANSWER_S, RedisOptions, client, redis_error
from rheos.connectors.redis.text import command
from rheos.core.errors import UnavailableError

T = TypeVar("T")
_Answers: TypeAlias = "tuple[list[Any], RefusedError | None]"

LOGGER = logging.getLogger("rheos.redis")

COMMANDS = OutsideCall(
    server="Redis",
    call="source, lookup and sink: a batch of commands",
    limit_s=7.5,
    limit='starts over with each answer; longer with options={"socket_timeout": ...}',
    then="the connection is closed. After 1 s the sink stages rows next to the checkpoints, and "
    "tries to deliver them every second; rows, checkpoints and other sinks continue. All "
    "commands may be repeated. The source and lookups retry, a lookup for up to `retry_for`",
)


class RefusedError(Exception):
    """An answer is an error."""

    def __init__(self, reply: int, error: Exception) -> None:
        super().__init__(str(error))
        self.reply = reply
        self.error = error


class RedisConnection:
    """Not for two threads at once. It connects by itself, also again. A call that the client does not
    return from within our limit is abandoned with its connection, and raises the client's
    TimeoutError."""

    def __init__(
        self, options: RedisOptions, connected: Callable[[RedisConnection], None] | None = None
    ) -> None:
        """`connected` is called with each new connection, before anything else is sent."""
        self.options = options
        self._connection = options.connection()
        self._connected = connected
        self._is_open = False
        self._calls = BoundedCalls()

    def send(self, data: bytes | memoryview) -> None:
        """Send commands. Raises what the client raises."""
        self._open()
        self._called(lambda connection, progressed: connection.send_packed_command([data]))

    def receive(self, count: int) -> list[Any]:
        """Return that many answers. Raises RefusedError for the first that is an error, when all are
        read."""
        return self._answers(lambda connection, progressed: _received(connection, count, progressed))

    def ask(self, *commands: bytes) -> list[Any]:
        """Send some commands, and return their answers. Raises what the client raises."""

        def asked(connection: Any, progressed: Progressed) -> _Answers:
            connection.send_packed_command([b"".join(commands)])
            return _received(connection, len(commands), progressed)

        self._open()
        try:
            return self._answers(asked)
        except RefusedError as refused:
            raise refused.error from None

    def close(self) -> None:
        """Close the connection. A later call opens another."""
        self._is_open = False
        self._connection.disconnect()
        self._calls.close()

    def _open(self) -> None:
        if self._is_open:
            return
        self._called(lambda connection, progressed: connection.connect())
        self._is_open = True
        if self._connected is not None:
            try:
                self._connected(self)
            except Exception:
                self.close()
                raise

    def _answers(self, work: Callable[[Any, Progressed], _Answers]) -> list[Any]:
        answers, refused = self._called(work)
        if refused is not None:
            raise refused
        return answers

    def _called(self, work: Callable[[Any, Progressed], T]) -> T:
        connection = self._connection
        try:
            return self._calls.run(
                f"Redis at {self.options.address}",
                self._limit_s(),
                lambda progressed: work(connection, progressed),
                connection.disconnect,
            )
        except AbandonedCallError as error:
            self._is_open = False
            self._connection = self.options.connection()  # The abandoned call has the other one.
            raise client().TimeoutError(error.what) from None
        except UnavailableError as error:
            raise client().TimeoutError(error.what) from None
        except Exception:
            self._is_open = False
            connection.disconnect()
            raise

    def _limit_s(self) -> float:
        own_s = self._connection.socket_timeout or ANSWER_S
        return COMMANDS.limit_s + max(own_s - ANSWER_S, 0.0)


def _received(connection: Any, count: int, progressed: Progressed) -> _Answers:
    errors = client().ResponseError
    read, answers = connection.read_response, []
    refused: RefusedError | None = None
    for number in range(count):
        try:
            answers.append(read())
        except errors as error:
            refused = refused or RefusedError(number, error)
        progressed()
    return answers, refused


class RedisPatience:
    """Retry budget: for how long to retry, and the number of retries so far."""

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
        """Return the result of `asked`, which is retried while patience lasts. Raises the RheosError
        afterwards.
        """
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
