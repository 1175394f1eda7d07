"""The sink on a real OpenSearch: it keeps the contract of connectors, and refusals are as expected."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import urllib3

import rheos as rh
from rheos.core.errors import InputError
from rheos.testing import check_sink
from rheos.testing.servers import OpenSearchNode
from tests.connectors.opensearch.test_sink import SCHEMA, Writing
from tests.ops.servers.listening import listening_at

pytestmark = [
    pytest.mark.slow,
    pytest.mark.proves("OpenSearch", slow_because="a node takes some 15 s of processor time to start"),
]


class Hit(msgspec.Struct):
    _source: msgspec.Raw


class Hits(msgspec.Struct):
    hits: list[Hit]


class Found(msgspec.Struct):
    hits: Hits


def sources(url: str, index: str) -> list[bytes]:
    urllib3.request("POST", f"{url}/{index}/_refresh")
    answer = urllib3.request("GET", f"{url}/{index}/_search?size=1000&ignore_unavailable=true")
    return [bytes(hit._source) for hit in msgspec.json.decode(answer.data, type=Found).hits.hits]


def documents(url: str, index: str) -> list[Any]:
    return sorted(map(json.loads, sources(url, index)), key=str)


def test_the_sink_keeps_the_contract(opensearch_node: OpenSearchNode) -> None:
    url = opensearch_node.url

    def make(name: str, schema: pa.Schema) -> Any:
        # It keeps documents as they are: what each field may be is a matter of its mapping.
        urllib3.request("PUT", f"{url}/{name}", json={"mappings": {"dynamic": False}})
        sink = rh.opensearch.sink(url, index=name, id="n")

        def seen() -> list[dict[str, Any]]:
            decoded = (
                rh.formats.json().decoder(schema).decode(pa.array(sources(url, name), pa.binary()))
            )
            assert not decoded.bad
            rows: list[dict[str, Any]] = decoded.rows.to_pylist()
            return rows

        return sink, seen

    assert "bool" in " ".join(check_sink(make))


def test_rows_that_are_written_again_replace_themselves(opensearch_node: OpenSearchNode) -> None:
    url = opensearch_node.url
    schema = SCHEMA.append(pa.field("gone", pa.bool_()))
    sink = rh.opensearch.sink(url, index="again", id="id", version="n", delete="gone")
    for _ in range(2):
        job = Writing(sink.prepared(schema, ("job", "sink")), schema)
        job.write({"id": "a", "n": 1, "gone": False}, {"id": "b", "n": 5, "gone": False})
        job.write({"id": "a", "n": 2, "gone": False}, {"id": "b", "n": 6, "gone": True})
        job.writer.close()
    # What came again was stale but for the last of each.
    assert job.counts == {"stale": 2}
    assert documents(url, "again") == [{"id": "a", "n": 2}]


def test_a_refusal_by_the_mapping_has_its_reason(opensearch_node: OpenSearchNode) -> None:
    mapping = {"mappings": {"properties": {"n": {"type": "boolean"}}}}
    urllib3.request("PUT", f"{opensearch_node.url}/mapped", json=mapping)
    sink = rh.opensearch.sink(opensearch_node.url, index="mapped", id="id")
    with pytest.raises(InputError) as raised:
        Writing(sink).write(("a", 1))
    assert raised.value.what.startswith(
        "document 'a' is refused by the index 'mapped': status 400, mapper_parsing_exception, "
        "failed to parse field [n] of type [boolean]"
    )
    assert raised.value.record == "{'id': 'a', 'n': 1}"


def test_the_node_listens_on_loopback_only(opensearch_node: OpenSearchNode) -> None:
    listening = listening_at(opensearch_node)
    assert len(listening) == 2  # For clients, and for other nodes.
    assert all(address == "127.0.0.1" for address in listening)
