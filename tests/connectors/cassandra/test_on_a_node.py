"""The sink on a real Cassandra: it keeps the connector contract, and checks its table against the
stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.cassandra.sink import CassandraSink
from rheos.core.errors import ConfigurationError, SchemaError
from rheos.testing import check_sink
from rheos.testing.servers import CassandraNode
from tests.connectors.cassandra.test_sink import SCHEMA, Writing
from tests.ops.servers.listening import listening_at

pytestmark = [
    pytest.mark.slow,
    pytest.mark.proves("Cassandra", slow_because="a node takes some 15 s of processor time to start"),
]

KINDS = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "text",
    pa.binary(): "blob",
    pa.date32(): "date",
    pa.decimal128(38, 18): "decimal",
}


@pytest.fixture(scope="module")
def cql(cassandra_node: CassandraNode) -> Iterator[Any]:
    """Execute a statement, and return its rows as dicts."""
    from cassandra.cluster import Cluster
    from cassandra.query import dict_factory

    host, port = cassandra_node.address.split(":")
    with Cluster([host], port=int(port), protocol_version=4) as cluster, cluster.connect() as session:
        session.row_factory = dict_factory
        session.execute(
            "CREATE KEYSPACE kit WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        yield session.execute


@dataclass(frozen=True)
class WithoutTimes(CassandraSink):
    """Columns of the test kit have microseconds, which Cassandra does not support."""

    def validate(self, schema: pa.Schema) -> None:
        super().validate(schema)
        if any(pa.types.is_timestamp(field.type) for field in schema):
            raise SchemaError("a timestamp")


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Convert the client's dates to plain ones."""
    return {name: value.date() if hasattr(value, "date") else value for name, value in row.items()}


def test_the_sink_keeps_the_contract(cassandra_node: CassandraNode, cql: Any) -> None:
    def make(name: str, schema: pa.Schema) -> Any:
        table = name.replace("-", "_")
        columns = ", ".join(f'"{field.name}" {KINDS[field.type]}' for field in schema)
        cql(f'CREATE TABLE kit.{table} ({columns}, PRIMARY KEY ("n"))')
        made = rh.cassandra.sink(f"kit.{table}", hosts=cassandra_node.address)
        sink = WithoutTimes(**{field.name: getattr(made, field.name) for field in fields(made)})
        return sink, lambda: map(plain, cql(f"SELECT * FROM kit.{table}"))

    assert set(check_sink(make)) == {
        "bool", "int8", "int16", "int32", "int64", "float32", "float64", "string", "binary", "date",
        "decimal",
    }  # fmt: skip


def test_rows_are_replaced_and_deleted(cassandra_node: CassandraNode, cql: Any) -> None:
    cql('CREATE TABLE kit."Counts" ("id" text PRIMARY KEY, "n" bigint, other int)')
    sink = rh.cassandra.sink("kit.Counts", hosts=cassandra_node.address, delete="gone", ttl="1h")
    schema = SCHEMA.append(pa.field("gone", pa.bool_()))
    for _ in range(2):
        job = Writing(sink, schema)
        job.write(*({"id": f"{n % 700}", "n": n, "gone": False} for n in range(5000)))
        job.write({"id": "7", "n": 0, "gone": True}, {"id": "8", "n": None, "gone": False})
        job.writer.close()
    found = {row["id"]: row["n"] for row in cql('SELECT "id", "n" FROM kit."Counts"')}
    wanted: dict[str, int | None] = {f"{n % 700}": n for n in range(5000) if n % 700 != 7}
    assert found == {**wanted, "8": None}
    (left,) = cql('SELECT ttl("n") AS left FROM kit."Counts" WHERE "id" = \'9\'')
    assert 3000 < left["left"] <= 3600


def test_missing_and_unfit_tables_are_refused(cassandra_node: CassandraNode, cql: Any) -> None:
    cql("CREATE TABLE kit.narrow (id int PRIMARY KEY)")

    def prepared(table: str) -> Any:
        sink = rh.cassandra.sink(table, hosts=cassandra_node.address)
        return sink.prepared(SCHEMA, ("job", "sink"))

    with pytest.raises(ConfigurationError, match="the keyspace 'shop' does not exist at"):
        prepared("shop.counts")
    with pytest.raises(ConfigurationError, match=r"the table kit\.counts does not exist at"):
        prepared("kit.counts")
    with pytest.raises(SchemaError, match="column 'id' is string, and int in kit"):
        prepared("kit.narrow")


def test_the_node_listens_on_loopback_only(cassandra_node: CassandraNode) -> None:
    listening = listening_at(cassandra_node)
    assert len(listening) == 2  # For clients, and for other nodes.
    assert all(address == "127.0.0.1" for address in listening)
