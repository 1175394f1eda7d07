"""Topics whose records replace each other: a value is an upsert, and its absence a deletion."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.kafka.records import RecordEncoder
from rheos.connectors.kafka.upsert_decoding import UpsertDecoding
from rheos.connectors.kafka.upserts import sink, source
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.formats.contract import Decoded

VALUES = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("part", pa.string(), nullable=False),
        ("n", pa.int64()),
    ]
)


def decoded(upserts: UpsertDecoding, *records: tuple[Any, Any]) -> Decoded:
    keys = [None if key is None else str(key).encode() for key, _ in records]
    values = [None if value is None else json.dumps(value).encode() for _, value in records]
    decoder = rh.formats.json().decoder(VALUES)
    payloads = pa.array(values, pa.binary())
    return upserts.decode(payloads, lambda at: pa.array([keys[i] for i in at], pa.binary()), decoder)


def row(id: int, part: str | None, n: int | None, op: str) -> dict[str, Any]:
    return {"id": id, "part": part, "n": n, "op": op}


def test_a_record_without_a_value_deletes_the_row_of_its_key() -> None:
    found = decoded(
        UpsertDecoding(("id",), None),
        (1, {"id": 1, "part": "a", "n": 5}),
        (1, None),
        (2, {"id": 2, "part": "a"}),
        ("two", None),
        (None, None),
        (3, {"id": 3, "part": None}),
        (2, None),
    )
    assert found.rows.to_pylist() == [
        row(1, "a", 5, "update_after"),
        row(1, None, None, "delete"),
        row(2, "a", None, "update_after"),
        row(2, None, None, "delete"),
    ]
    assert found.origin is not None
    assert found.origin.tolist() == [0, 1, 2, 6]
    assert [each.at for each in found.bad] == [3, 4, 5]


def test_a_key_of_several_columns_has_a_format() -> None:
    upserts = UpsertDecoding(("part", "id"), rh.formats.json())
    found = decoded(upserts, ('{"id": 1, "part": "a"}', None), ('{"id": 1}', None), (None, None))
    assert found.rows.to_pylist() == [row(1, "a", None, "delete")]
    assert ["part" in found.bad[0].error, found.bad[1].error] == [
        True,
        "a record without a value needs a key",
    ]


BROKERS = "localhost:1"


def test_written_keys_are_those_that_are_read() -> None:
    made = sink("t", brokers=BROKERS, key_columns=("id", "part"), key_format=rh.formats.json())
    taking = made.of_changes(("part", "id"), "gone")
    rows = pa.RecordBatch.from_pylist(
        [{"id": 1, "part": "a", "gone": False}, {"id": 2, "part": "b", "gone": True}],
        pa.schema([("id", pa.int64()), ("part", pa.string()), ("gone", pa.bool_())]),
    )
    taking.validate(rows.schema)
    encoder = RecordEncoder(taking.target.layout, rows.schema, partitions=1, max_bytes=0)
    encoded = encoder.encode(rows)
    assert encoded.column("key").to_pylist() == [b'{"id":1,"part":"a"}', b'{"id":2,"part":"b"}']
    assert encoded.column("value").to_pylist() == [b'{"id":1,"part":"a"}', None]


def test_a_table_of_upserts_is_declared_in_sql() -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(
        """
        CREATE TABLE t (id BIGINT, part STRING, n BIGINT, PRIMARY KEY (id, part) NOT ENFORCED)
        WITH ('connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' =
            'localhost:1', 'key.format' = 'json', 'value.format' = 'json');
        CREATE TABLE out (part STRING, n BIGINT) WITH ('connector' = 'collect');
        INSERT INTO out SELECT part, SUM(n) AS n FROM t GROUP BY part;
        """
    )
    assert "the keys of a table by id, part" in env.explain()


def test_wrong_tables_of_upserts_are_refused() -> None:
    at: dict[str, Any] = {"brokers": BROKERS, "schema": VALUES}
    with pytest.raises(ProgramError, match="needs a PRIMARY KEY"):
        source("t", key_columns=(), **at)
    with pytest.raises(ProgramError, match="2 columns, which need a format"):
        sink("t", brokers=BROKERS, key_columns=("a", "b"))
    with pytest.raises(ProgramError, match="so they are no upserts"):
        source("t", key_columns=("id",), format=rh.formats.debezium_json(), **at)
    with pytest.raises(SchemaError, match="named 'op'"):
        source("t", brokers=BROKERS, key_columns=("op",), schema=pa.schema([("op", pa.string())]))
