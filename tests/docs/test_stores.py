"""The programs of docs/stores.md: against stand-ins, and on real nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rheos.connectors.cassandra.columns import CqlColumn
from tests.connectors.cassandra.test_on_a_node import cql
from tests.connectors.cassandra.test_sink import Session, session
from tests.connectors.opensearch.stand_in import StandIn
from tests.connectors.opensearch.test_on_a_node import documents
from tests.docs.walks import steps

__all__ = ["cql", "session"]

PAGE = Path(__file__).parents[2] / "docs" / "stores.md"
COUNTS = {"home": 3, "about": 2}


def run(file: str, written: str, address: str) -> None:
    [code] = [step.code for step in steps(PAGE) if step.file == file]
    assert written in code
    exec(compile(code.replace(written, address), file, "exec"), {})


def test_counts_become_documents() -> None:
    with StandIn([]) as server:
        run("opensearch.py", "http://localhost:9200", server.url)
    lines = [line for request in server.requests for line in request]
    ids, rows = [line["index"]["_id"] for line in lines[::2]], lines[1::2]
    assert ids == [row["page"] for row in rows]
    assert {row["page"]: row["visits"] for row in rows} == COUNTS


def test_counts_become_rows(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [CqlColumn("page", "text"), CqlColumn("visits", "bigint")]
    monkeypatch.setattr(session, "describe", lambda keyspace, table: (columns, ["page"]))
    run("cassandra.py", "localhost:9042", "localhost:9042")
    written = [values for statements in session.written for _, values in statements]
    assert dict(written) == COUNTS


@pytest.mark.slow
@pytest.mark.proves("OpenSearch", slow_because="a node takes some 15 s of processor time to start")
def test_a_real_node_has_the_documents(opensearch_node: Any) -> None:
    run("opensearch.py", "http://localhost:9200", opensearch_node.url)
    rows = documents(opensearch_node.url, "pages")
    assert {row["page"]: row["visits"] for row in rows} == COUNTS


@pytest.mark.slow
@pytest.mark.proves("Cassandra", slow_because="a node takes some 15 s of processor time to start")
def test_a_real_node_has_the_rows(cassandra_node: Any, cql: Any) -> None:
    cql("CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    cql("CREATE TABLE shop.counts (page text PRIMARY KEY, visits bigint)")
    run("cassandra.py", "localhost:9042", cassandra_node.address)
    assert {row["page"]: row["visits"] for row in cql("SELECT * FROM shop.counts")} == COUNTS
