"""Fixtures of the tests of SQL databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.mysql.databases import new_database as new_mariadb
from tests.connectors.postgres.databases import new_database as new_postgres
from tests.connectors.sql_database.databases import TestDatabase


@contextmanager
def opened(url: str, folder: Path) -> Iterator[TestDatabase]:
    database = TestDatabase(url, str(folder))
    yield database
    for writer in database.writers:
        writer.close()


@pytest.fixture(params=["sqlite", "mariadb", "postgres"])
def database(request: Any, tmp_path: Path) -> Iterator[TestDatabase]:
    """Create an empty database for a test."""
    match request.param:
        case "sqlite":
            url = f"sqlite:///{tmp_path}/test.db"
        case "mariadb":
            url = new_mariadb(request.getfixturevalue("mariadb_server")).url
        case _:
            url = new_postgres(request.getfixturevalue("postgres_server")).url
    with opened(url, tmp_path) as database:
        yield database


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[TestDatabase]:
    """Create an empty database of SQLite."""
    with opened(f"sqlite:///{tmp_path}/test.db", tmp_path) as database:
        yield database


@pytest.fixture
def mariadb(mariadb_server: Any, tmp_path: Path) -> Iterator[TestDatabase]:
    """Create an empty database of MariaDB."""
    with opened(new_mariadb(mariadb_server).url, tmp_path) as database:
        yield database
