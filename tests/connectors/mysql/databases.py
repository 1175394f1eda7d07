"""Databases of single tests on the real server, and readers of their changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rheos.core.connectors.capabilities import stop_reason
from rheos.core.connectors.contract import EndOfSplit
from rheos.testing.connector_kit.reading import SplitReading

PATIENCE_S = 120.0
_numbers = itertools.count()


@dataclass(frozen=True)
class Database:
    server: Any
    name: str

    @property
    def url(self) -> str:
        return f"{self.server.url.rpartition('/')[0]}/{self.name}"

    @property
    def password(self) -> str:
        password: str = self.server.url.split(":")[2].split("@")[0]
        return password

    @contextmanager
    def session(self) -> Iterator[Any]:
        """Open a connection in which each statement is a transaction, and invalid dates are allowed."""
        import pymysql

        session = pymysql.connect(
            host="127.0.0.1",
            port=int(self.server.address.split(":")[1]),
            user="rheos",
            password=self.password,
            database=self.name,
            autocommit=True,
            charset="utf8mb4",
            init_command="SET sql_mode = '', time_zone = '+00:00'",
        )
        try:
            yield session
        finally:
            session.close()

    def run(self, *statements: str) -> None:
        with self.session() as session:
            for statement in statements:
                session.cursor().execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.session() as session, session.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())


def new_database(server: Any) -> Database:
    made = Database(server, f"test_{next(_numbers)}")
    Database(server, "rheos").run(f"CREATE DATABASE {made.name}")
    return made


class Reading:
    """Reader of the table's only split, from a position on."""

    def __init__(self, source: Any, position: bytes | None = None) -> None:
        [split] = source.splits()
        self._reading = SplitReading(source, split, position, PATIENCE_S)

    def take(self, count: int) -> list[dict[str, Any]]:
        """Return the next rows."""
        rows: list[dict[str, Any]] = []
        while len(rows) < count:
            polled = self._reading.poll(count - len(rows))
            assert not isinstance(polled, EndOfSplit), rows
            rows += polled.to_pylist()
        return rows

    def rest(self) -> list[dict[str, Any]]:
        """Return the rows up to the end."""
        rows: list[dict[str, Any]] = []
        while not isinstance(polled := self._reading.poll(1000), EndOfSplit):
            rows += polled.to_pylist()
        return rows

    def stopped(self) -> tuple[str, bytes]:
        """Wait until the reader stops the job; return the reason, and the position to continue at."""
        assert self.rest() == []
        reason = stop_reason(self._reading.reader)
        assert reason is not None
        return reason, self.position

    @property
    def position(self) -> bytes:
        return self._reading.reader.position()

    def close(self) -> None:
        self._reading.close()


@contextmanager
def reading(source: Any, position: bytes | None = None) -> Iterator[Reading]:
    opened = Reading(source, position)
    try:
        yield opened
    finally:
        opened.close()
