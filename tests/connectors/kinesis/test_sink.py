"""The sink on a stream in memory: requests, refused records, and the order of keys."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import InputError, ProgramError, UnavailableError
from rheos.core.protocol.ids import CheckpointId
from rheos.testing import Faults, check_sink, simulate
from tests.connectors.kinesis.streams import MemoryStream, refused
from tests.connectors.ports import batch_of, sink_context

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
THROTTLED = "ProvisionedThroughputExceededException"


def sink_of(**given: Any) -> Any:
    return rh.kinesis.sink("orders", format=rh.formats.json(), region="eu-central-1", **given)


def rows(*numbers: int) -> pa.RecordBatch:
    return batch_of(SCHEMA, *({"k": f"k{n % 3}", "n": n} for n in numbers))


def write(sink: Any, *batches: pa.RecordBatch) -> None:
    sink.validate(SCHEMA)
    writer = sink.prepared(SCHEMA, ("job", "sink")).open(sink_context(SCHEMA))
    for batch in batches:
        writer.write(batch)
    assert writer.prepare(CheckpointId(1)) == []
    writer.close()


def test_the_sink_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    from rheos.connectors.aws.client_options import AwsOptions

    made: dict[str, MemoryStream] = {}

    def client(options: AwsOptions) -> MemoryStream:
        return made[str(options.region)]

    monkeypatch.setattr(AwsOptions, "client", client)

    def make(name: str, schema: pa.Schema) -> Any:
        region = f"r-{len(made)}"
        made[region] = stream = MemoryStream(1)

        def seen() -> list[dict[str, Any]]:
            payloads = [each["Data"] for shard in stream.shards.values() for each in shard.records]
            decoder = rh.formats.json().decoder(schema)
            return decoder.decode(pa.array(payloads, pa.binary())).rows.to_pylist()

        return rh.kinesis.sink("orders", format=rh.formats.json(), region=region), seen

    check_sink(make, rows=pa.table({"n": list(range(8))}))


def test_only_refused_records_are_sent_again(stream: MemoryStream) -> None:
    stream.faults["put"] += [{"k1": THROTTLED}, {"k1": "InternalFailure"}]
    write(sink_of(partition_key="{k}", value="n"), rows(*range(1200)))
    assert sorted(row["n"] for row in stream.payloads()) == [*range(1200)]
    assert max(map(len, stream.requests)) == 500


def test_the_order_of_a_key_is_kept(stream: MemoryStream) -> None:
    """Records of a key that follow a refused one are not sent with it."""
    stream.faults["put"] += [{"k1": THROTTLED}, {"k1": THROTTLED, "k0": THROTTLED}]
    write(sink_of(partition_key="{k}", keep_order=True), rows(*range(12)))
    for shard in stream.shards.values():
        for key in ("k0", "k1", "k2"):
            found = [json.loads(each["Data"]) for each in shard.records if each["PartitionKey"] == key]
            assert [row["n"] for row in found] in ([], [n for n in range(12) if f"k{n % 3}" == key])
    assert len(stream.payloads()) == 12


def test_requests_are_bounded(stream: MemoryStream) -> None:
    large = batch_of(SCHEMA, *({"k": "x" * 900_000, "n": n} for n in range(8)))
    write(sink_of(), large)
    assert sorted(row["n"] for row in stream.payloads()) == [*range(8)]


def test_records_that_are_never_stored_are_errors(stream: MemoryStream) -> None:
    stream.faults["put"].append(refused("ValidationException"))
    with pytest.raises(InputError, match="ValidationException") as raised:
        write(sink_of(), rows(1))
    assert raised.value.record is not None
    stream.faults["put"].append({"k1": "AccessDenied"})
    with pytest.raises(InputError, match="AccessDenied") as raised:
        write(sink_of(partition_key="{k}"), rows(0, 1))
    assert "k1" in str(raised.value.record)
    stream.faults["put"] += [{"k0": THROTTLED}] * 3
    with pytest.raises(UnavailableError, match="number of shards"):
        write(sink_of(partition_key="{k}", retry_for="0s"), rows(0))
    with pytest.raises(InputError, match="cannot be a part of the partition_key"):
        write(sink_of(partition_key="{k}"), batch_of(SCHEMA, {"k": "", "n": 1}))
    for given in ({"partition_key": ""}, {"keep_order": True}, {"value": []}):
        with pytest.raises(ProgramError):
            sink_of(**given)


@pytest.mark.slow
def test_rows_arrive_after_any_crash(stream: MemoryStream) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        found = env.from_source(rh.collection([{"k": f"k{n % 3}", "n": n} for n in range(60)]))
        found.sink_to(sink_of(partition_key="{k}"))
        return found

    stream.faults["put"] += [{"k1": THROTTLED}, refused("InternalFailure", status=500)]
    done = simulate(build, seed=1, faults=Faults(crash_slot=40.0, commit_error=0.2), parallelism=2)
    assert done.crashes > 0
    assert {row["n"] for row in stream.payloads()} == {*range(60)}
