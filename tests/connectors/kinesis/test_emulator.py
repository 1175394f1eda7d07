"""The source and the sink over the wire, on an emulator that freezes."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from typing import Any

import boto3
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError, InputError
from rheos.testing import Faults, simulate
from tests.connectors.kinesis.test_sink import rows, write
from tests.connectors.kinesis.test_source import numbers, read
from tests.connectors.ports import Probe, batch_of

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
SLOW = "an emulator takes some 6 s of processor time"
AT_ROW: dict[int, Callable[[], None]] = {}
"""Actions by the number of a row: the job runs each once, when it reaches the row."""
pytestmark = pytest.mark.slow


@pytest.fixture
def given(aws_emulator: Any) -> dict[str, Any]:
    return {**aws_emulator.arguments, "format": rh.formats.json()}


@pytest.fixture
def name(aws_emulator: Any) -> str:
    made = f"s{uuid.uuid4().hex[:10]}"
    client_of(aws_emulator).create_stream(StreamName=made, ShardCount=3)
    return made


def client_of(emulator: Any) -> Any:
    given = emulator.arguments
    return boto3.client(
        "kinesis",
        region_name=given["region"],
        endpoint_url=given["endpoint"],
        **given["options"],
    )


def passed(row: Any) -> Any:
    AT_ROW.pop(row.n, lambda: None)()
    return row


def test_rows_are_written_and_read(name: str, given: dict[str, Any]) -> None:
    write(rh.kinesis.sink(name, partition_key="{k}", **given), rows(*range(1200)))
    found = numbers(rh.kinesis.source(name, schema={"n": int}, end="latest", **given))
    assert sorted(found) == [*range(1200)]
    # A position in the middle of a shard.
    source = rh.kinesis.source(name, schema={"n": int}, end="latest", **given)
    found = []
    for split in source.splits():
        reader = source.open(split, None, Probe().context())
        found += [row["n"] for row in read(reader, 100)]
        reader.close()
        reader = source.open(split, reader.position(), Probe().context())
        found += [row["n"] for row in read(reader)]
        reader.close()
    assert sorted(found) == [*range(1200)]
    with pytest.raises(InputError, match="1048576"):
        write(rh.kinesis.sink(name, **given), batch_of(SCHEMA, {"k": "x" * (2 << 20), "n": 1}))
    with pytest.raises(InputError, match="create it first"):
        rh.kinesis.source(f"{name}-none", schema={"n": int}, **given).splits()
    other = {**given, "options": {"profile_name": "unknown"}}
    with pytest.raises(ConfigurationError, match="profile"):
        rh.kinesis.source(name, schema={"n": int}, **other).splits()


@pytest.mark.proves(
    "Kinesis",
    faults=["the server freezes while a job writes", "workers of a simulated job crash"],
    slow_because=SLOW,
)
def test_rows_arrive_after_any_crash(aws_emulator: Any, name: str, given: dict[str, Any]) -> None:
    AT_ROW.update({30: aws_emulator.freeze, 50: aws_emulator.thaw})

    def build(env: rh.Environment) -> rh.DataStream:
        made = [{"k": f"k{n % 3}", "n": n} for n in range(60)]
        found = env.from_source(rh.collection(made, schema=SCHEMA)).map(passed, returns=SCHEMA)
        found.sink_to(rh.kinesis.sink(name, partition_key="{k}", **given))
        return found

    done = simulate(build, seed=1, faults=Faults(crash_slot=40.0, commit_error=0.2), parallelism=2)
    assert done.crashes > 0
    assert not AT_ROW
    source = rh.kinesis.source(name, schema={"n": int}, end="latest", **given)
    assert {*numbers(source)} == {*range(60)}


@pytest.mark.proves("Kinesis", faults=["the server freezes while a source reads"], slow_because=SLOW)
def test_a_frozen_server_is_waited_for(aws_emulator: Any, name: str, given: dict[str, Any]) -> None:
    client = client_of(aws_emulator)
    source = rh.kinesis.source(name, schema={"n": int}, retry_for="10m", **given)
    put = client.put_record(StreamName=name, Data=json.dumps({"n": 1}), PartitionKey="k")
    [split] = [each for each in source.splits() if each.id == put["ShardId"]]
    probe = Probe()
    reader = source.open(split, None, probe.context())
    assert read(reader, 1) == [{"n": 1}]
    aws_emulator.freeze()
    thaw = threading.Timer(12.0, aws_emulator.thaw)  # A request may take 10 s.
    thaw.start()
    thaw.join()
    client.put_record(StreamName=name, Data=json.dumps({"n": 2}), PartitionKey="k")
    assert read(reader, 1) == [{"n": 2}]
    assert probe.counts["retries"] >= 1
    reader.close()
