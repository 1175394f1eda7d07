"""Session whose calls end within Rheos's own limit, and which reconnects after a failure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls, Progressed
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.sql_database.address import LIMIT_S, DatabaseAddress, client, cut_off
from rheos.connectors.sql_database.errors import database_error
from rheos.connectors.unreachable_servers import SERVERS_AWAY
from rheos.core.errors import UnavailableError

T = TypeVar("T")

TRANSACTION = OutsideCall(
    server="SQL database",
    call="sink: connect, and each statement",
    limit_s=LIMIT_S,
    limit="starts over with each statement of at most 5,000 rows. Statements wait 10 s for locks",
    then="the connection is cut, and the commit is retried every second until it succeeds; the table "
    "`rheos_ledger` records which epochs the database has",
)
LOOKUP = OutsideCall(
    server="SQL database",
    call="lookup: connect, and each query",
    limit_s=20.0,
    limit="starts over with each query of up to 900 keys",
    then="the connection is cut, and the batch of keys is asked for again, for `retry_for`",
)
SOURCE = OutsideCall(
    server="SQL database",
    call="source: connect, and the query of each block",
    limit_s=LIMIT_S,
    limit="starts over with each block of up to 8,192 rows",
    then="the connection is cut, the attempt fails and restarts, and the source continues after the "
    "last key of its checkpoint",
)


class DatabaseSession:
    """A connection that is opened by its first call, and again after an error. One thread at a time may
    use it."""

    def __init__(
        self,
        address: DatabaseAddress,
        doing: str,
        limits: OutsideCall = TRANSACTION,
        creates: bool = False,
    ) -> None:
        """Create a session.

        Args:
            address: the database, and login.
            doing: beginning of error messages: "the table 't' cannot be written".
            limits: the kind of its calls, with their time limit.
            creates: whether a file of SQLite that does not exist is created.
        """
        self._address = address
        self._creates = creates
        self._doing = doing
        self._limit_s = limits.limit_s
        self._calls = BoundedCalls()
        self._connection: Any = None

    def do(self, work: Callable[[Any, Progressed], T]) -> T:
        """Return the result of `work`, which is passed a connection of SQLAlchemy, and the function
        that restarts the limit. Its transaction is rolled back, unless `work` commits it.

        Raises a RheosError. After an UnavailableError it is unknown whether `work` took effect.
        """
        held: list[Any] = [self._connection]

        def call(progressed: Progressed) -> T:
            if held[0] is None:
                held[0] = self._address.connected(self._creates)
            try:
                result = work(held[0], progressed)
            except BaseException:
                with suppress(Exception):
                    held[0].rollback()
                raise
            held[0].rollback()
            return result

        try:
            done = self._calls.run(
                f"{self._doing}, at {self._address}", self._limit_s, call, lambda: _ended(held)
            )
        except AbandonedCallError as error:
            self._connection = None
            SERVERS_AWAY.failed(self, error.what)
            if held[0] is not None:
                cut_off(held[0], self._address.backend)
            raise
        except (client().exc.SQLAlchemyError, OSError) as raised:
            self._connection = held[0]
            self.close()
            failure = database_error(raised, self._doing, self._address)
            if isinstance(failure, UnavailableError):
                SERVERS_AWAY.failed(self, failure.what)
            raise failure from None
        except BaseException:
            self._connection = held[0]
            self.close()
            raise
        self._connection = held[0]
        SERVERS_AWAY.answered(self)
        return done

    def close(self) -> None:
        """Close the connection. A later call opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.invalidate()  # Not a polite end, which may wait for the server.
                connection.close()
        self._calls.close()


def _ended(held: list[Any]) -> None:
    if held[0] is not None:
        with suppress(Exception):
            held[0].invalidate()
            held[0].close()
