"""Tables as a sink and as a source keep the contract of connectors."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import rheos as rh
from rheos.testing import check_sink, check_source
from tests.connectors.postgres.databases import read


def test_the_sink_keeps_the_contract(database: Any) -> None:
    def make(name: str, schema: pa.Schema) -> Any:
        table = name.replace("-", "_")
        sink = rh.postgres.sink(table, url=database.url)
        return sink, lambda: read(database, table)

    taken = check_sink(make)
    assert set(taken) >= {"bool", "int64", "float64", "string", "binary", "timestamp", "decimal"}


def test_the_source_keeps_the_contract(database: Any) -> None:
    database.run(
        "CREATE TABLE letters (id int PRIMARY KEY, t text)",
        "INSERT INTO letters SELECT i, chr(96 + i) FROM generate_series(1, 4) i",
    )
    change = {"url": database.url, "metadata": ["op", "before", "unchanged"]}
    rh.postgres.changes("letters", snapshot=False, **change).splits()  # From here on changes are kept.
    database.run(
        "BEGIN; UPDATE letters SET t = 'z' WHERE id < 3; DELETE FROM letters WHERE id = 4; COMMIT",
        "INSERT INTO letters VALUES (5, 'e')",
    )
    for snapshot, rows in ((True, 4), (False, 4)):
        source = rh.postgres.changes("letters", snapshot=snapshot, end="now", **change)
        read_rows = check_source(source, positions=3, max_rows=(1, 3), patience_s=120)
        assert len(read_rows["rheos_letters"]) == rows
    database.run("SELECT pg_drop_replication_slot('rheos_letters')")
