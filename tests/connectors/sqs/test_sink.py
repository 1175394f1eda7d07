"""The sink on a queue in memory: requests, refused messages, the order of groups, and repeated rows."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import InputError, ProgramError, UnavailableError
from rheos.core.protocol.ids import CheckpointId
from rheos.testing import Faults, check_sink, simulate
from tests.connectors.ports import batch_of, sink_context
from tests.connectors.sqs.queues import MemoryQueue, refused

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


def sink_of(queue: str = "orders", **given: Any) -> Any:
    return rh.sqs.sink(queue, **{"format": rh.formats.json(), "region": "eu-central-1", **given})


def rows(*numbers: int) -> pa.RecordBatch:
    return batch_of(SCHEMA, *({"k": f"k{n % 3}", "n": n} for n in numbers))


def write(sink: Any, *batches: pa.RecordBatch) -> None:
    sink.validate(SCHEMA)
    writer = sink.prepared(SCHEMA, ("job", "sink")).open(sink_context(SCHEMA))
    for batch in batches:
        writer.write(batch)
    assert writer.prepare(CheckpointId(1)) == []
    writer.close()


EACH = [pytest.param("at_least_once", marks=pytest.mark.slow), "effectively_once"]


@pytest.mark.parametrize("delivery", EACH)
def test_the_sink_keeps_the_contract(monkeypatch: pytest.MonkeyPatch, delivery: Any) -> None:
    from rheos.connectors.aws.client_options import AwsOptions

    made: dict[str, MemoryQueue] = {}

    def client(options: AwsOptions) -> MemoryQueue:
        return made[str(options.region)]

    monkeypatch.setattr(AwsOptions, "client", client)

    def make(name: str, schema: pa.Schema) -> Any:
        region = f"r-{len(made)}"
        made[region] = queue = MemoryQueue()

        def seen() -> list[dict[str, Any]]:
            payloads = [each.body.encode() for each in queue.sent]
            decoder = rh.formats.json().decoder(schema)
            return decoder.decode(pa.array(payloads, pa.binary())).rows.to_pylist()

        return sink_of("orders.fifo", group="g", delivery=delivery, region=region), seen

    check_sink(make, rows=pa.table({"n": list(range(8))}))


def test_only_refused_messages_are_sent_again(queue: MemoryQueue) -> None:
    queue.faults["send"] += [{3: ("InternalError", False)}, {0: ("RequestThrottled", True)}]
    write(sink_of(value="n", attributes=["k", "n"]), rows(*range(35)))
    assert sorted(row["n"] for row in queue.payloads()) == [*range(35)]
    assert max(map(len, queue.requests)) == 10
    [one] = [each for each in queue.sent if json.loads(each.body) == {"n": 7}]
    assert one.attributes == {
        "k": {"DataType": "String", "StringValue": "k1"},
        "n": {"DataType": "Number", "StringValue": "7"},
    }


@pytest.mark.parametrize("keep_order", [True, False])
def test_a_group_keeps_its_order(queue: MemoryQueue, keep_order: bool) -> None:
    queue.faults["send"] += [{1: ("InternalError", False)}] * 2
    write(sink_of("orders.fifo", group="{k}", keep_order=keep_order), rows(*range(12)))
    of = {
        f"k{k}": [json.loads(each.body)["n"] for each in queue.sent if each.group == f"k{k}"]
        for k in range(3)
    }
    assert sorted(n for found in of.values() for n in found) == [*range(12)]
    in_order = all(found == sorted(found) for found in of.values())
    assert in_order == keep_order


def test_messages_that_are_never_accepted_are_errors(queue: MemoryQueue) -> None:
    queue.faults["send"].append(refused("InvalidMessageContents"))
    with pytest.raises(InputError, match="InvalidMessageContents") as raised:
        write(sink_of(), rows(1))
    assert raised.value.record is not None
    queue.faults["send"].append({1: ("InvalidParameterValue", True)})
    with pytest.raises(InputError, match="InvalidParameterValue") as raised:
        write(sink_of(), rows(0, 1))
    assert "k1" in str(raised.value.record)
    queue.faults["send"] += [{0: ("InternalError", False)}] * 3
    with pytest.raises(UnavailableError):
        write(sink_of(retry_for="0s"), rows(0))
    with pytest.raises(InputError, match="part of the group"):
        write(sink_of("orders.fifo", group="{k}"), batch_of(SCHEMA, {"k": "a b", "n": 1}))
    with pytest.raises(InputError, match="NonExistentQueue"):
        write(sink_of("none"), rows(1))
    queue.sent.clear()
    bad = batch_of(SCHEMA, {"k": "\x01", "n": 1})
    text = {"format": rh.formats.csv(), "value": ["k", "n"]}
    with pytest.raises(InputError, match="base64"):
        write(sink_of(**text), bad)
    write(sink_of(encoding="base64", **text), bad)
    assert b"\x01" in base64.b64decode(queue.sent[0].body)


def test_repeated_rows_have_the_same_ids(queue: MemoryQueue) -> None:
    sink = sink_of("orders.fifo", group="{k}", deduplication="{k}-{n}")
    for _ in range(2):
        write(sink, rows(*range(6)))
    assert len(queue.sent) == 6


@pytest.mark.parametrize("delivery", EACH)
def test_rows_arrive_after_any_crash(queue: MemoryQueue, delivery: Any) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        found = env.from_source(rh.collection([{"k": f"k{n % 3}", "n": n} for n in range(60)]))
        found.sink_to(sink_of("orders.fifo", group="{k}", delivery=delivery))
        return found

    queue.faults["send"] += [{}, {1: ("InternalError", False)}, refused("ServiceUnavailable"), {}, {}]
    done = simulate(build, seed=1, faults=Faults(crash_slot=40.0, commit_error=0.2), parallelism=2)
    assert done.crashes > 0
    found = sorted(row["n"] for row in queue.payloads())
    assert {*found} == {*range(60)}
    assert (found == [*range(60)]) or delivery == "at_least_once"


@pytest.mark.parametrize(
    "given",
    [
        {"queue": "orders.fifo"},
        {"group": "g"},
        {"deduplication": "{n}"},
        {"delivery": "effectively_once"},
        {"delivery": "exactly_once"},
        {"queue": "orders.fifo", "group": "g", "deduplication": "{n}", "delivery": "effectively_once"},
        {"queue": "orders.fifo", "group": "a b"},
        {"attributes": ["k", "k"]},
        {"attributes": [f"c{n}" for n in range(11)]},
        {"encoding": "hex"},
    ],
    ids=str,
)
def test_wrong_arguments_of_the_sink_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ProgramError):
        sink_of(**given)
