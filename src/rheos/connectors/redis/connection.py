"""Connection to Redis: commands are sent together, and their answers arrive in order.

If the server refuses commands temporarily, or the connection is lost before their answers, they are
sent again. All commands that Rheos writes are idempotent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls, Progressed
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.outage_patience import Patience
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
    """Raised if the answer to a command is an error."""

    def __init__(self, reply: int, error: Exception) -> None:
        super().__init__(str(error))
        self.reply = reply
        self.error = error


class RedisConnection:
    """Connection for one thread at a time. It connects and reconnects by itself. If the client does not
    return from a call within our limit, the call is abandoned with its connection, and raises the
    client's TimeoutError."""

    def __init__(
        self, options: RedisOptions, connected: Callable[[RedisConnection], None] | None = None
    ) -> None:
        """Create a connection. It calls `connected` after each connect, before other commands."""
        self.options = options
        self._connection = options.connection()
        self._connected = connected
        self._is_open = False
        self._calls = BoundedCalls()

    def send(self, data: bytes | memoryview) -> None:
        """Send commands. Raises the client's errors."""
        self._open()
        self._called(lambda connection, progressed: connection.send_packed_command([data]))

    def receive(self, count: int) -> list[Any]:
        """Return this number of answers. If some answers are errors, read all of them, and raise
        RefusedError for the first error."""
        return self._answers(lambda connection, progressed: _received(connection, count, progressed))

    def ask(self, *commands: bytes) -> list[Any]:
        """Send some commands, and return their answers. Raises the client's errors."""

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
            # The abandoned call still uses the old connection.
            self._connection = self.options.connection()
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
        """Create a budget. `retried` is called before each retry."""
        self._patience = Patience(retry_for_ms, retried, LOGGER)
        self._options = options

    def begin(self) -> None:
        """Start the budget now, as `Patience.begin` does."""
        self._patience.begin()

    def spend(self, error: Exception, doing: str, record: str | None = None) -> None:
        """Wait before the next retry, or raise the error as a RheosError if there must be none."""
        self._patience.spend(redis_error(error, doing, self._options, record=record))

    def ask(self, asked: Callable[[], T], doing: str) -> T:
        """Return the result of `asked`, which is retried until the budget is spent. Raises RheosError
        then."""
        while True:
            try:
                given = asked()
            except (OSError, client().RedisError) as error:
                self.spend(error, doing)
            else:
                self.restore()
                return given

    def restore(self) -> None:
        """Reset the budget after a success."""
        self._patience.restore()


def check_reachable(options: RedisOptions, retry_for_ms: int, doing: str) -> None:
    """Raise a RheosError if the server is not reachable."""
    connection = RedisConnection(options)
    patience = RedisPatience(retry_for_ms, options, lambda: None)
    try:
        patience.ask(lambda: connection.ask(command("PING")), doing)
    finally:
        connection.close()
