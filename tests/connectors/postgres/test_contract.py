"""Tables as a sink and as a source, held to the contract that every connector is held to."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import rheos as rh
from rheos.testing import check_sink
from tests.connectors.postgres.databases import read


def test_the_sink_keeps_the_rules(database: Any) -> None:
    def make(name: str, schema: pa.Schema) -> Any:
        table = name.replace("-", "_")
        sink = rh.postgres.sink(table, url=database.url)
        return sink, lambda: read(database, table)

    taken = check_sink(make)
    assert set(taken) >= {"bool", "int64", "float64", "string", "binary", "timestamp", "decimal"}
