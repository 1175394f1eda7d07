"""Extreme values, ids and names in a real OpenSearch: each is kept exactly, or refused with its row."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import urllib3

import rheos as rh
from rheos.core.errors import InputError
from rheos.core.protocol.ids import CheckpointId
from rheos.testing.servers import OpenSearchNode
from tests.connectors.ports import sink_context

pytestmark = [
    pytest.mark.slow,
    pytest.mark.proves(
        "OpenSearch",
        faults=["extreme values and names"],
        slow_because="a node takes some 15 s of processor time to start",
    ),
]


def write(url: str, index: str, rows: pa.RecordBatch, **more: Any) -> dict[str, int]:
    """Write rows; return the sink's counters."""
    sink = rh.opensearch.sink(url, index=index, id="id", retry_for="3s", **more)
    sink.validate(rows.schema)
    counts: dict[str, int] = {}
    ctx = sink_context(rows.schema)
    ctx.count = lambda name, by: counts.__setitem__(name, counts.get(name, 0) + by)
    writer = sink.prepared(rows.schema, ("job", "sink")).open(ctx)
    try:
        writer.write(rows)
        writer.prepare(CheckpointId(1))
    finally:
        writer.close()
    return counts


def documents(url: str, index: str) -> dict[str, Any]:
    """Return documents by id, with numbers as stored strings."""
    urllib3.request("POST", f"{url}/{index}/_refresh")
    answer = urllib3.request("GET", f"{url}/{index}/_search?size=100")
    found = json.loads(answer.data, parse_float=str, parse_int=str)
    return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}


TEXTS = ["", "\0", "\U0010ffff", "x" * 40_000, "\u2028", '"}\n{"index":{}}\n', "null", "2026-01-01"]
VALUES: dict[str, tuple[pa.Array, list[Any]]] = {
    "int64": (pa.array([-(1 << 63), (1 << 53) + 1]), ["-9223372036854775808", "9007199254740993"]),
    "uint64": (pa.array([(1 << 64) - 1], pa.uint64()), ["18446744073709551615"]),
    "float64": (
        pa.array([float("nan"), float("-inf"), -0.0, 5e-324, 1.7976931348623157e308]),
        [None, None, "-0.0", "5e-324", "1.7976931348623157e+308"],
    ),
    "text": (pa.array(TEXTS), TEXTS),
    "decimal": (pa.array([Decimal(f"-{'9' * 38}")], pa.decimal128(38, 0)), [f"-{'9' * 38}"]),
    "timestamp": (
        pa.array([-62_135_596_800_001, 253_402_300_800_000]).cast(pa.timestamp("ms", "UTC")),
        ["0000-12-31T23:59:59.999Z", "+10000-01-01T00:00:00.000Z"],
    ),
    "list": (pa.array([[], [None, 1]], pa.list_(pa.int64())), [[], [None, "1"]]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_extremes_are_kept_exactly(opensearch_node: OpenSearchNode, kind: str) -> None:
    values, wanted = VALUES[kind]
    index = f"extremes-{kind}"
    # What is indexed is a matter of the mapping; what is kept is not.
    urllib3.request("PUT", f"{opensearch_node.url}/{index}", json={"mappings": {"dynamic": False}})
    ids = pa.array(range(len(values)))
    write(opensearch_node.url, index, pa.record_batch([ids, values], names=["id", "v"]))
    found = documents(opensearch_node.url, index)
    assert {int(id): found[id]["v"] for id in found} == dict(enumerate(wanted))


@pytest.mark.parametrize(
    "id",
    ["a/b", "..", " ", "\0", "_id", "💥" * 128, "%2F", "?a=b", "\n", '"}', "_create", "a,b", "*"],
)
def test_documents_may_have_any_id(opensearch_node: OpenSearchNode, id: str) -> None:
    url, schema = opensearch_node.url, pa.schema({"id": pa.string(), "gone": pa.bool_()})
    for gone, left in ((False, {id: {"id": id}}), (True, {})):
        row = pa.RecordBatch.from_pylist([{"id": id, "gone": gone}], schema)
        write(url, "ids", row, delete="gone")
        assert documents(url, "ids") == left


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".", "cannot contain only the character"),
        ("a..b", "makes object resolution ambiguous"),
        ("_id", "is a metadata field"),
        ("id.x", "can't merge a non object mapping"),
        ("a b", None),
        ("_x", None),
        ("ü\n💥", None),
    ],
)
def test_fields_may_have_any_name(opensearch_node: OpenSearchNode, name: str, why: str | None) -> None:
    url, index = opensearch_node.url, f"names-{name.encode().hex()}"
    row = pa.record_batch([pa.array([1]), pa.array([7])], names=["id", name])
    if why is None:
        write(url, index, row)
        assert documents(url, index) == {"1": {"id": "1", name: "7"}}
        return
    with pytest.raises(InputError, match=why) as raised:
        write(url, index, row)
    assert (raised.value.record or "").startswith("{'id': 1")
    assert write(url, index, row, on_error="skip") == {"rejected": 1}


def test_a_too_large_document_does_not_affect_others(opensearch_node: OpenSearchNode) -> None:
    schema = pa.schema({"id": pa.string(), "s": pa.string()})
    rows = [{"id": "a", "s": ""}, {"id": "b", "s": "x" * (101 << 20)}, {"id": "c", "s": ""}]
    batch = pa.RecordBatch.from_pylist(rows, schema)
    with pytest.raises(InputError, match="status 413") as raised:
        write(opensearch_node.url, "large", batch)
    assert (raised.value.record or "").startswith("{'id': 'b'")
    assert write(opensearch_node.url, "large", batch, on_error="skip") == {"rejected": 1}
    assert set(documents(opensearch_node.url, "large")) == {"a", "c"}
