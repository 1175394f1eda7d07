"""Fixtures of the tests of MariaDB."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connectors.mysql.databases import Database, new_database


@pytest.fixture
def database(mariadb_server: Any) -> Database:
    """Create an empty database for a test."""
    return new_database(mariadb_server)
