"""Topics as a source and as a sink keep the contract of connectors."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.testing import check_sink, check_source
from tests.connectors.kafka.reading import Topic
from tests.connectors.kafka.topics import new_topic, values

SCHEMA = pa.schema({"n": pa.int64(), "text": pa.string()})


def test_the_source_keeps_the_contract(kafka_broker: Any) -> None:
    topic = Topic(kafka_broker.address, partitions=2)
    rows = [{"n": n, "text": f"line {n}"} for n in range(20)]
    payloads = [json.dumps(row).encode() for row in rows]
    payloads.insert(5, b"no JSON")
    topic.write({0: payloads[:11], 1: payloads[11:]})
    source = rh.kafka.source(
        topic.name,
        brokers=kafka_broker.address,
        schema=SCHEMA,
        format=rh.formats.json(),
        end="latest",
        on_error="skip",
    )
    read = check_source(source, positions=3, max_rows=(1, 7))
    assert [row for of_split in read.values() for row in of_split] == rows


@pytest.mark.slow  # test_sink.py looks at the same, one by one, in every run.
def test_the_sink_keeps_the_contract(kafka_broker: Any) -> None:
    address = kafka_broker.address

    def make(name: str, schema: pa.Schema) -> Any:
        topic = new_topic(address)
        sink = rh.kafka.sink(topic, brokers=address, format=rh.formats.arrow(rows_per_payload=1))

        def seen() -> list[dict[str, Any]]:
            decoder = rh.formats.arrow().decoder(schema)
            decoded = decoder.decode(pa.array(values(address, topic), pa.binary()))
            assert not decoded.bad
            rows: list[dict[str, Any]] = decoded.rows.to_pylist()
            return rows

        return sink, seen

    check_sink(make)
