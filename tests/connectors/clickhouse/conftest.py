"""Tables of single tests, and a client that is not Rheos's own."""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from rheos.connectors.clickhouse.target_table import TableName, creation

WINDOW = "SETTINGS non_replicated_deduplication_window = 1000"
CURRENT = "version UInt64 DEFAULT toUnixTimestamp64Micro(now64(6))"


class Tables:
    """Client of a server, and a prefix for the names of its tables."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._prefix = f"t{uuid.uuid4().hex[:10]}"
        self._made: list[str] = []

    def _asked(self, query: str) -> bytes:
        with urllib.request.urlopen(self.url, query.encode(), timeout=60) as answer:
            content: bytes = answer.read()
            return content

    def run(self, query: str) -> str:
        return self._asked(query).decode()

    def create(self, columns: str, engine: str) -> str:
        """Create a table, and return its name."""
        name = f"default.{self._prefix}{len(self._made)}"
        self.run(f"CREATE TABLE {name} ({columns}) ENGINE = {engine}")
        self._made.append(name)
        return name

    def adopted(self, schema: pa.Schema) -> str:
        """Create a table as the sink's advice tells, and return its name."""
        name = f"default.{self._prefix}{len(self._made)}"
        self.run(creation(TableName.of(name), schema, (), None))
        self._made.append(name)
        return name

    def appended(self, columns: str) -> str:
        """Create a table to which rows are appended."""
        return self.create(columns, f"MergeTree ORDER BY () {WINDOW}")

    def replacing(self, columns: str, key: str) -> str:
        """Create a table of current rows, in which rows can be deleted."""
        columns = f"{columns}, {CURRENT}, deleted UInt8"
        return self.create(columns, f"ReplacingMergeTree(version, deleted) ORDER BY ({key}) {WINDOW}")

    def rows(self, table: str, columns: str = "*", order: str = "ALL") -> list[dict[str, Any]]:
        final = " FINAL" if "Replacing" in self.run(f"SHOW CREATE TABLE {table}") else ""
        query = f"SELECT {columns} FROM {table}{final} ORDER BY {order}"
        return [json.loads(line) for line in self.run(f"{query} FORMAT JSONEachRow").splitlines()]

    def typed_rows(self, table: str, schema: pa.Schema) -> list[dict[str, Any]]:
        """Return rows with values of a schema's types."""
        query = (
            f"SELECT * FROM {table} FORMAT ArrowStream SETTINGS output_format_arrow_string_as_string=0"
        )
        found = pa.ipc.open_stream(self._asked(query)).read_all()
        return found.select(schema.names).cast(schema).to_pylist()

    def drop(self) -> None:
        for name in self._made:
            self.run(f"DROP TABLE {name}")


@pytest.fixture
def tables(clickhouse_server: Any) -> Iterator[Tables]:
    found = Tables(clickhouse_server.url)
    yield found
    found.drop()
