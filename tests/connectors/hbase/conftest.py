"""Tables of single tests, in a client that is not Rheos's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest


class Tables:
    """Client of a gateway, which makes tables."""

    def __init__(self, address: str) -> None:
        self.gateway = address
        self._made: list[str] = []

    def connected(self) -> Any:
        host, _, port = self.gateway.partition(":")
        client: Any = pytest.importorskip("happybase")
        return client.Connection(host, int(port), timeout=60_000)

    def new(self, *families: str) -> str:
        """Return the name of a new table; by default with the family `cf`."""
        name = f"t{uuid.uuid4().hex[:12]}"
        connection = self.connected()
        connection.create_table(name, {each: {} for each in families or ("cf",)})
        connection.close()
        self._made.append(name)
        return name

    def put(self, name: str, rows: Mapping[bytes, Mapping[str, bytes]]) -> None:
        connection = self.connected()
        with connection.table(name).batch() as batch:
            for key, cells in rows.items():
                batch.put(key, {cell.encode(): value for cell, value in cells.items()})
        connection.close()

    def rows(self, name: str) -> dict[bytes, dict[str, bytes]]:
        connection = self.connected()
        found = {
            key: {cell.decode(): value for cell, value in cells.items()}
            for key, cells in connection.table(name).scan()
        }
        connection.close()
        return found

    def close(self) -> None:
        connection = self.connected()
        for name in self._made:
            connection.delete_table(name, disable=True)
        connection.close()


@pytest.fixture
def tables(hbase_server: Any) -> Iterator[Tables]:
    found = Tables(hbase_server.address)
    yield found
    found.close()
