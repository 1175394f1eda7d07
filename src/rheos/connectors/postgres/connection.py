"""Options to connect to a PostgreSQL server through libpq. Options that may be secret are never
shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, TypeAlias

from rheos.connectors.postgres.errors import postgres_error
from rheos.connectors.postgres.registration import CONNECTOR
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.errors import ProgramError
from rheos.core.redaction import without

Row: TypeAlias = tuple[Any, ...]

_SENT_BYTES = 1 << 20
"""Maximum size of the data that is passed to the client at once."""
_SHOWN = ("host", "port", "dbname")
_URL = 'write url="postgresql://user:password@host:5432/database"'
_OWNED: Mapping[str, str] = {
    "replication": "leave it out",
    "client_encoding": "leave it out: text is UTF-8",
    "service": "write the values of the service: workers may not have the service file",
}
_DEFAULTS: Mapping[str, str] = {
    "application_name": "rheos",
    "connect_timeout": "10",
    # If the server's machine is lost, the client notices it within half a minute.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
}
_SETTINGS = (
    "SET TimeZone TO 'UTC'; SET DateStyle TO ISO; SET IntervalStyle TO postgres; "
    "SET bytea_output TO hex; SET standard_conforming_strings TO on; SET extra_float_digits TO 1; "
    "SET client_encoding TO UTF8; "
    # The server drops a client that is lost, and so releases the locks of its transactions.
    "SET tcp_keepalives_idle TO 10; SET tcp_keepalives_interval TO 5; SET tcp_keepalives_count TO 4; "
    "SET tcp_user_timeout TO 30000; "
    # Commits of a checkpoint must survive a crash of the server. Stronger settings are kept.
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') = 'off'"
)
"""Statements that fix three things: the string form of values, that a commit is on disk when it
returns, and how soon the server notices that a client is gone."""


def client() -> ModuleType:
    """Return the module of PostgreSQL's client. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()


@cache
def _connections() -> Any:
    """Return a connection class without psycopg's warning about unclosed connections: an abandoned call
    cannot close its connection."""

    class Connection(client().Connection):  # type: ignore[misc]
        def __del__(self) -> None:
            self.close()

    return Connection


@dataclass(frozen=True, repr=False)
class ServerOptions:
    """Address of the server, and login. They are sent to the workers with the program, including
    secrets."""

    parameters: tuple[tuple[str, str], ...]
    """Parameters of libpq, by name."""

    @classmethod
    def of(cls, url: str, options: Mapping[str, object] | None = None) -> ServerOptions:
        """Create options from a user's arguments. Raises ProgramError, which shows no value."""
        psycopg = client()
        from psycopg.conninfo import conninfo_to_dict

        if not isinstance(url, str) or not url.strip():
            raise ProgramError("url= does not name a server", hint=_URL)
        if options is not None and not isinstance(options, Mapping):
            raise ProgramError(
                f"options= must be a dict, not a {type(options).__name__}",
                hint='write options={"sslmode": "verify-full", ...}',
            )
        for name in options or {}:
            if name in _OWNED:
                raise ProgramError(f"the option {name!r} is set by Rheos", hint=_OWNED[name])
        try:
            known = conninfo_to_dict(url, **{str(k): str(v) for k, v in (options or {}).items()})
        except psycopg.Error:
            # libpq's message contains a part of the URL, which may be a part of the password.
            raise ProgramError("libpq cannot parse url= or options=", hint=_URL) from None
        for name in known:
            if name in _OWNED:
                raise ProgramError(f"the parameter {name!r} is set by Rheos", hint=_OWNED[name])
        return cls(tuple(sorted((name, str(value)) for name, value in known.items())))

    def __str__(self) -> str:
        known = dict(self.parameters)
        port = f":{known['port']}" if "port" in known else ""
        return f"{known.get('host', 'localhost')}{port}/{known.get('dbname', '')}"

    def datasets(self, table: str) -> Sequence[Dataset]:
        """Return the name of a table, "name" or "schema.name", for catalogs."""
        known = dict(self.parameters)
        address = f"{known.get('host', 'localhost')}:{known.get('port', '5432')}"
        named = table if "." in table else f"public.{table}"
        return server_datasets("postgres", address, [f"{known.get('dbname', '')}.{named}".lstrip(".")])

    def __repr__(self) -> str:
        names = "".join(f", {name}=***" for name, _ in self.parameters if name not in _SHOWN)
        return f"ServerOptions({str(self)!r}{names})"

    def redact(self, text: str) -> str:
        """Return the string with `***` in place of secret values."""
        return without(text, {value for name, value in self.parameters if "password" in name and value})

    def connect(self, doing: str, **own: str) -> ServerSession:
        """Open a connection. Raises a RheosError that begins with `doing`; it is an UnavailableError if
        the server is unreachable."""
        psycopg = client()
        try:
            connection = _connections().connect(
                autocommit=True,
                prepare_threshold=None,  # poolers do not support prepared statements
                **{**_DEFAULTS, **dict(self.parameters), **own},
            )
            session = ServerSession(connection)
            session.run(_SETTINGS)
        except psycopg.Error as error:
            raise postgres_error(error, doing, self) from None
        return session


class ServerSession:
    """A connection. Its methods raise psycopg's errors."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.progressed: Callable[[], None] = lambda: None
        """Called while data is sent, each time the connection has accepted more of it."""

    @property
    def is_open(self) -> bool:
        return not self.connection.closed and not self.connection.broken

    def run(self, sql: str, values: Sequence[object] | None = None) -> int:
        """Execute a statement; return the number of affected rows."""
        count: int = self.connection.execute(sql.encode(), values).rowcount
        return count

    def rows(self, sql: str, values: Sequence[object] | None = None) -> list[Row]:
        found: list[Row] = self.connection.execute(sql.encode(), values).fetchall()
        return found

    @contextmanager
    def transaction(self, *, rolled_back: bool = False) -> Iterator[None]:
        with self.connection.transaction(force_rollback=rolled_back):
            yield

    def copy_in(self, sql: str, parts: Iterable[Any]) -> None:
        """Execute COPY ... FROM STDIN with the given buffers."""
        with self.connection.cursor() as cursor, cursor.copy(sql.encode()) as copy:
            for part in parts:
                rest = memoryview(part)
                while rest:
                    copy.write(rest[:_SENT_BYTES])
                    rest = rest[_SENT_BYTES:]
                    self.progressed()

    def close(self) -> None:
        self.connection.close()


def quoted(name: str) -> str:
    """Quote an identifier for SQL."""
    return '"' + name.replace('"', '""') + '"'


def listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))
