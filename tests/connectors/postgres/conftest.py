"""Fixtures of the tests of PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connectors.postgres.databases import Database, new_database


@pytest.fixture(scope="module")
def database(postgres_server: Any) -> Database:
    """Create an empty database for the tests of a file."""
    return new_database(postgres_server)
