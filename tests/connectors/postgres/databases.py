"""Databases of single tests on the real server, and what readers of them see."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

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

    def run(self, *statements: str) -> None:
        """Execute statements, each in a separate transaction."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as session:
            for statement in statements:
                session.execute(statement.encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as session:
            session.execute("SET TimeZone TO 'UTC'")
            return session.execute(query.encode()).fetchall()


def new_database(server: Any) -> Database:
    made = Database(server, f"test_{next(_numbers)}")
    Database(server, "postgres").run(
        f"CREATE DATABASE {made.name} TEMPLATE template0 STRATEGY file_copy"
    )
    return made


def read(database: Database, table: str) -> list[dict[str, Any]]:
    import psycopg
    from psycopg.rows import dict_row

    with psycopg.connect(database.url, row_factory=dict_row) as session:
        session.execute("SET TimeZone TO 'UTC'")
        return session.execute(f"SELECT * FROM {table}".encode()).fetchall()
