"""Address of a MariaDB server, login, and sessions whose calls end within Rheos's own limit."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import unquote

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.mysql.registration import CONNECTOR
from rheos.connectors.urls import url_parts
from rheos.core.errors import ConfigurationError, ProgramError, RheosError, UnavailableError
from rheos.core.redaction import without

T = TypeVar("T")

STATEMENT = OutsideCall(
    server="MariaDB",
    call="source: connect, and each statement",
    limit_s=15.0,
    limit="starts over while the server answers on a second connection",
    then="the connection is cut, and the source repeats its work on another one from its position",
)
STREAM = OutsideCall(
    server="MariaDB",
    call="source: the next event of the binlog",
    limit_s=15.0,
    limit="an idle server sends a heartbeat ten times a second",
    then="the connection is closed, and the log is read from the source's position on another one",
)
HEARTBEAT_S = 0.1
_ALIVE_S = 5.0
_URL = 'write url="mysql://user:password@host:3306/database"'
_SETTINGS = "SET time_zone = '+00:00', sql_mode = '', net_write_timeout = 600"
_TLS_OPTIONS = ("ssl_ca", "ssl_cert", "ssl_key")
_OPTIONS = (*_TLS_OPTIONS, "ssl_verify_identity")

_REFUSED = frozenset((1044, 1045, 1049, 1130, 1142, 1143, 1227, 1251, 1524, 1698))
_HINTS: Mapping[int, str] = {
    1049: "create the database, or correct its name in url=",
    1142: "grant the missing permission to the user",
    1143: "grant the missing permission to the user",
    1227: "GRANT REPLICATION SLAVE, BINLOG MONITOR, SELECT ON *.* TO the user",
    1054: "check whether the table was altered while the job ran",
    1146: "check whether the table was dropped while the job ran",
}
_PASSING = frozenset((1040, 1053, 1152, 1158, 1159, 1160, 1161, 1205, 1213, 1290, 1317, 1927, 1969))
"""Codes of the server that a later try may not get: too many connections, a shutdown, a lost client, a
deadlock."""
_FIRST_OF_CLIENT = 2000


def client() -> ModuleType:
    """Return the module of the client. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()


@dataclass(frozen=True, repr=False)
class ServerLogin:
    """Address of the server, and login. They are sent to the workers with the program, including the
    password."""

    host: str
    port: int
    user: str
    password: str
    database: str
    options: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, url: str, options: Mapping[str, object] | None = None) -> ServerLogin:
        """Create a login from a user's arguments. Raises ProgramError, which shows no value."""
        parts = url_parts(url, ("mysql", "mariadb"), "a MariaDB", _URL)
        database = unquote(parts.path.strip("/"))
        if not parts.hostname or not parts.username or not database or "/" in database:
            raise ProgramError("url= lacks the host, the user or the database", hint=_URL)
        if parts.query:
            raise ProgramError(
                "url= has parameters after '?'", hint='write them as options={"ssl_ca": ...}'
            )
        for name in options or {}:
            if name not in _OPTIONS:
                raise ProgramError(
                    f"options= has the unknown option {name!r}",
                    hint=f"the options are {', '.join(_OPTIONS)}",
                )
        return cls(
            parts.hostname,
            parts.port or 3306,
            unquote(parts.username),
            unquote(parts.password or ""),
            database,
            tuple(sorted((options or {}).items())),
        )

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"

    def __repr__(self) -> str:
        return f"ServerLogin({str(self)!r}, user=***, password=***)"

    def redact(self, text: str) -> str:
        """Return the string with `***` in place of the password."""
        return without(text, {self.password} if self.password else set())

    def connected(self, read_timeout_s: float | None) -> Any:
        """Open a connection of the client. Raises its errors.

        Args:
            read_timeout_s: Limit for each answer; None if the caller has its own.
        """
        pymysql = client()
        numbers = pymysql.constants.FIELD_TYPE
        whole = (
            numbers.TINY,
            numbers.SHORT,
            numbers.INT24,
            numbers.LONG,
            numbers.LONGLONG,
            numbers.YEAR,
        )
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=self.database,
            charset="utf8mb4",
            autocommit=True,
            init_command=_SETTINGS,
            connect_timeout=10,
            read_timeout=read_timeout_s,
            write_timeout=STATEMENT.limit_s,
            local_infile=False,
            # Other values stay in the form in which the server prints them.
            conv={
                **dict.fromkeys(whole, int),
                **dict.fromkeys((numbers.FLOAT, numbers.DOUBLE), float),
                int: pymysql.converters.escape_int,
            },
            **dict(self.options),
        )


def server_error(error: Any, doing: str, login: ServerLogin) -> RheosError:
    """Translate an error of the client or of its connection.

    Args:
        error: The error.
        doing: Beginning of the message: "the changes of shop.orders cannot be read".
        login: The login, whose password is redacted.

    Returns:
        An UnavailableError if a later try may succeed; otherwise a ConfigurationError.
    """
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    words = str(error.args[1]) if len(error.args) > 1 else str(error) or type(error).__name__
    what = login.redact(f"{doing}, at {login}: {words}" + (f" ({code})" if code else ""))
    is_tls = isinstance(error, ssl.SSLError) or "certificate" in words.lower()
    if isinstance(error, OSError) and not is_tls:
        code = _FIRST_OF_CLIENT
    if not is_tls and (code in _PASSING or code >= _FIRST_OF_CLIENT or code == 0):
        return UnavailableError(
            what, hint="check that the server is up and reachable. A running job waits for it"
        )
    if code in _REFUSED or is_tls:
        hint = _HINTS.get(code, "check the user and the password in url=, and options=")
        return ConfigurationError(what, hint=hint)
    return ConfigurationError(
        what, hint=_HINTS.get(code, "check the server's settings and the user's permissions")
    )


class WatchedClient:
    """A connection that is opened by its first call, and again after an error. For one calling thread
    at a time."""

    def __init__(self, login: ServerLogin, doing: str) -> None:
        """Create a client.

        Args:
            login: Address of the server, and login.
            doing: Beginning of error messages.
        """
        self._login = login
        self._doing = doing
        self._calls = BoundedCalls()
        self._check = BoundedCalls()
        self._connection: Any = None

    def do(self, work: Callable[[Any], T]) -> T:
        """Return the result of `work`, which is passed the connection. Raises a RheosError.

        If the limit has passed, a second connection checks whether the server answers: if it does, the
        call may take longer.
        """
        held: list[Any] = [self._connection]

        def call(progressed: object) -> T:
            if held[0] is None:
                held[0] = self._login.connected(None)
            return work(held[0])

        doing = f"{self._doing}, at {self._login}"
        try:
            done = self._calls.run(doing, STATEMENT.limit_s, call, alive=self._answers)
        except AbandonedCallError:
            self._connection = None
            if held[0] is not None:
                cut_off(held[0])
            raise
        except (client().err.Error, OSError) as error:
            self._connection = held[0]
            self.close()
            raise server_error(error, self._doing, self._login) from None
        except BaseException:
            self._connection = held[0]
            self.close()
            raise
        self._connection = held[0]
        return done

    def _answers(self) -> bool:
        def ask(progressed: object) -> bool:
            self._login.connected(_ALIVE_S).close()
            return True

        try:
            return self._check.run(self._doing, 2 * _ALIVE_S, ask)
        except Exception:
            return False

    def close(self) -> None:
        """Close the connection. A later call opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # Not `close`, which sends a message and may wait.
            cut_off(connection)
        self._calls.close()
        self._check.close()


def cut_off(connection: Any) -> None:
    """Shut the socket of a connection, also under a call that waits."""
    with suppress(Exception):
        descriptor = connection._sock
        with suppress(OSError):
            descriptor.shutdown(socket.SHUT_RDWR)
        connection._force_close()


def rows_of(connection: Any, sql: str, values: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
    """Execute a statement, and return its rows. With values, each other % is written as %%. Raises the
    client's errors."""
    with connection.cursor() as cursor:
        cursor.execute(sql, None if values is None else tuple(values))
        return list(cursor.fetchall())


def quoted(name: str) -> str:
    """Quote an identifier for SQL."""
    return "`" + name.replace("`", "``") + "`"
