"""Address of a database, and connections to it. Passwords and options are never shown."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from types import ModuleType
from typing import Any, assert_never

from rheos.connectors.sql_database.registration import CONNECTOR
from rheos.core.connectors.datasets import Dataset
from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.redaction import without

_URL = (
    'write url="mysql://user:password@host:3306/shop", "postgresql://...", or "sqlite:////path/shop.db"'
)
LIMIT_S = 60.0
"""Seconds without progress after which a call is abandoned. The drivers' own limits are shorter."""
_ANSWER_S = 50
_LOCK_S = 10


class DatabaseSystem(StrEnum):
    """Database systems whose tables the sink writes."""

    MYSQL = "mysql"
    POSTGRES = "postgresql"
    SQLITE = "sqlite"


_DRIVERS: Mapping[DatabaseSystem, tuple[str, str]] = {
    DatabaseSystem.MYSQL: ("pymysql", "rheos[sqlalchemy,mysql]"),
    DatabaseSystem.POSTGRES: ("psycopg", "rheos[sqlalchemy,postgres]"),
    DatabaseSystem.SQLITE: ("pysqlite", ""),
}
_SCHEMES = {
    "mysql": DatabaseSystem.MYSQL,
    "mariadb": DatabaseSystem.MYSQL,
    "postgresql": DatabaseSystem.POSTGRES,
    "postgres": DatabaseSystem.POSTGRES,
    "sqlite": DatabaseSystem.SQLITE,
}
_SETTINGS: Mapping[DatabaseSystem, tuple[str, ...]] = {
    # Values that do not fit are refused, and zero is not replaced by the next number.
    DatabaseSystem.MYSQL: (
        "SET sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,NO_AUTO_VALUE_ON_ZERO,"
        "NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO'",
        "SET time_zone = '+00:00'",
        f"SET innodb_lock_wait_timeout = {_LOCK_S}",
    ),
    DatabaseSystem.POSTGRES: (
        "SET TimeZone TO 'UTC'",
        f"SET lock_timeout TO '{_LOCK_S}s'",
        f"SET statement_timeout TO '{_ANSWER_S}s'",
        # Commits of a checkpoint must survive a crash of the server. Stronger settings are kept.
        "SELECT set_config('synchronous_commit', 'on', false) "
        "WHERE current_setting('synchronous_commit') = 'off'",
    ),
    DatabaseSystem.SQLITE: (),
}
_CLIENT_OPTIONS: Mapping[DatabaseSystem, Mapping[str, Any]] = {
    DatabaseSystem.MYSQL: {
        "charset": "utf8mb4",
        "connect_timeout": 10,
        "read_timeout": _ANSWER_S,
        "write_timeout": _ANSWER_S,
        "local_infile": False,
    },
    DatabaseSystem.POSTGRES: {
        "application_name": "rheos",
        "connect_timeout": 10,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 4,
        "tcp_user_timeout": 30000,
        "prepare_threshold": None,  # poolers do not support prepared statements
    },
    DatabaseSystem.SQLITE: {"timeout": _LOCK_S, "check_same_thread": False},
}


def client() -> ModuleType:
    """Return the module of SQLAlchemy. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()


@dataclass(frozen=True, repr=False)
class DatabaseAddress:
    """Address of a database, and login. They are sent to the workers with the program, including
    secrets."""

    url: str
    """URL of SQLAlchemy, with the driver."""
    options: tuple[tuple[str, Any], ...]
    """Further arguments of the driver's `connect`."""

    @classmethod
    def of(cls, url: str, options: Mapping[str, object] | None = None) -> DatabaseAddress:
        """Create an address from a user's arguments. Raises ProgramError, which shows no value."""
        sqlalchemy = client()
        if not isinstance(url, str) or not url.strip():
            raise ProgramError("url= does not name a database", hint=_URL)
        if options is not None and not isinstance(options, Mapping):
            raise ProgramError(
                f"options= must be a dict, not a {type(options).__name__}",
                hint='write options={"ssl_ca": "/etc/ssl/ca.pem"}, with arguments of the driver',
            )
        try:
            parsed = sqlalchemy.make_url(url)
        except (sqlalchemy.exc.ArgumentError, ValueError):
            raise ProgramError("url= is not the URL of a database", hint=_URL) from None
        scheme, _, driver = parsed.drivername.partition("+")
        backend = _SCHEMES.get(scheme)
        if backend is None or driver not in ("", _DRIVERS[backend][0]):
            if scheme == "duckdb":
                raise ProgramError(
                    "url= is for DuckDB, which has a connector of its own",
                    hint='write rh.duckdb.sink("counts", path="shop.duckdb"), or .source, .lookup',
                )
            known = ", ".join(sorted({f"{each}+{_DRIVERS[each][0]}" for each in _SCHEMES.values()}))
            raise ProgramError(
                f"url= is for {parsed.drivername}, which Rheos does not write", hint=f"it has {known}"
            )
        owned = sorted({*parsed.query, *(options or {})} & {*_CLIENT_OPTIONS[backend], "init_command"})
        if owned:
            raise ProgramError(f"the option {owned[0]!r} is set by Rheos", hint="leave it out")
        if backend is DatabaseSystem.SQLITE:
            if parsed.database in (None, "", ":memory:") or parsed.database.startswith("file:"):
                raise ProgramError(
                    "url= names no file of SQLite", hint='write "sqlite:////path/shop.db"'
                )
            parsed = parsed.set(database=os.path.abspath(os.path.expanduser(parsed.database)))
        elif not parsed.host or not parsed.database:
            raise ProgramError("url= lacks the host or the database", hint=_URL)
        parsed = parsed.set(drivername=f"{backend}+{_DRIVERS[backend][0]}")
        return cls(parsed.render_as_string(hide_password=False), tuple(sorted((options or {}).items())))

    @cached_property
    def _parsed(self) -> Any:
        return client().make_url(self.url)

    @property
    def backend(self) -> DatabaseSystem:
        return DatabaseSystem(self._parsed.get_backend_name())

    def __str__(self) -> str:
        parsed = self._parsed
        if self.backend is DatabaseSystem.SQLITE:
            return str(parsed.database)
        port = "" if parsed.port is None else f":{parsed.port}"
        return f"{parsed.host}{port}/{parsed.database}"

    def dataset(self, schema: str | None, table: str) -> Dataset:
        """Return the name of a table for catalogs."""
        parsed = self._parsed
        match self.backend:
            case DatabaseSystem.SQLITE:
                return Dataset(f"sqlite:{parsed.database}", table)
            case DatabaseSystem.MYSQL:
                place = f"mysql://{parsed.host}:{parsed.port or 3306}"
                return Dataset(place, f"{schema or parsed.database}.{table}")
            case DatabaseSystem.POSTGRES:
                place = f"postgres://{parsed.host}:{parsed.port or 5432}"
                return Dataset(place, f"{parsed.database}.{schema or 'public'}.{table}")
            case _:
                assert_never(self.backend)

    def __repr__(self) -> str:
        return f"DatabaseAddress({str(self)!r}, ***)"

    def redact(self, text: str) -> str:
        """Return the string with `***` in place of secret values."""
        secrets = {self._parsed.password, *(str(value) for _, value in self.options)}
        return without(text, {each for each in secrets if each})

    def engine(self) -> Any:
        """Return an engine, which makes no connection yet. Raises ConfigurationError if the driver is
        not installed."""
        sqlalchemy, backend = client(), self.backend
        # Values are passed by position, so that rows are tuples.
        style = {} if backend is DatabaseSystem.SQLITE else {"paramstyle": "format"}
        try:
            return sqlalchemy.create_engine(
                self.url,
                poolclass=sqlalchemy.pool.NullPool,
                connect_args={**_CLIENT_OPTIONS[backend], **dict(self.options)},
                hide_parameters=True,
                **style,
            )
        except ModuleNotFoundError as error:
            driver, install = _DRIVERS[backend]
            raise ConfigurationError(
                f"the driver {driver} cannot be loaded: {error}",
                hint=f"pip install '{install}', on the driver and on every worker",
            ) from None

    def connected(self, creates: bool = True) -> Any:
        """Open a connection with the settings that the sink relies on. Raises SQLAlchemy's errors.

        Args:
            creates: Whether a file of SQLite that does not exist is created. Otherwise it is a
                ConfigurationError.

        Returns:
            The connection.
        """
        if self.backend is DatabaseSystem.SQLITE and not creates and not os.path.exists(str(self)):
            raise ConfigurationError(
                f"the file {self} of SQLite does not exist", hint="correct its path in url="
            )
        try:
            connection = self.engine().connect()
        except TypeError as error:
            raise ProgramError(
                f"the driver does not accept options=: {self.redact(str(error))}",
                hint="pass arguments of the driver's connect",
            ) from None
        for setting in _SETTINGS[self.backend]:
            connection.exec_driver_sql(setting)
        connection.commit()
        return connection


def cut_off(connection: Any, backend: DatabaseSystem) -> None:
    """End the wait of an abandoned call, from another thread."""
    with suppress(Exception):
        raw = connection.connection.driver_connection
        match backend:
            case DatabaseSystem.SQLITE:
                raw.interrupt()
                return
            case DatabaseSystem.POSTGRES:
                descriptor = os.dup(raw.fileno())
            case DatabaseSystem.MYSQL:
                descriptor = os.dup(raw._sock.fileno())
            case _:
                assert_never(backend)
        with socket.socket(fileno=descriptor) as connected:
            connected.shutdown(socket.SHUT_RDWR)
