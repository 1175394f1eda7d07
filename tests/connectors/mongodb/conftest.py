"""Collections of single tests, in a client that is not Rheos's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest


class Collections:
    """Client of a server, which makes names of collections."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: Any = pytest.importorskip("pymongo").MongoClient(url, tz_aware=True)
        self.database = self.client.get_default_database()
        self._made: list[str] = []

    def new(self) -> str:
        """Return the name of a new collection."""
        self._made.append(f"t{uuid.uuid4().hex[:12]}")
        return self._made[-1]

    def __getitem__(self, name: str) -> Any:
        return self.database[name]

    def documents(self, name: str) -> list[dict[str, Any]]:
        return list(self.database[name].find().sort("_id"))

    def close(self) -> None:
        for name in self._made:
            self.database.drop_collection(name)
        self.client.close()


@pytest.fixture
def collections(mongodb_server: Any) -> Iterator[Collections]:
    found = Collections(mongodb_server.url)
    yield found
    found.close()
