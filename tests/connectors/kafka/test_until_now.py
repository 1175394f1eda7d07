"""Runs of a job that read what the topic contains now; each continues the previous one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.api.overrides import Overrides, applied
from rheos.connectors.kafka.client_options import ClientOptions
from rheos.connectors.kafka.producing import Producing
from tests.connectors.kafka.topics import fence, new_topic, values

pytestmark = pytest.mark.spark


@dataclass
class Number:
    n: int


def write(brokers: str, topic: str, numbers: range) -> None:
    """Write in a transaction, so that the topic ends with its marker, which is not a record."""
    producing = Producing(ClientOptions.of(brokers), topic, transactional_id=topic)
    fence(producing)
    producing.client.begin_transaction()
    payloads = [json.dumps({"n": n}).encode() for n in numbers]
    producing.produce(pa.RecordBatch.from_pydict({"value": pa.array(payloads)}))
    producing.client.commit_transaction()
    producing.close()


def test_each_run_reads_the_records_since_the_last_and_ends(
    spark: Any, kafka_broker: Any, tmp_path: Path
) -> None:
    brokers = kafka_broker.address
    read, written = new_topic(brokers, 2), new_topic(brokers, 1)

    def run() -> list[int]:
        env = rh.Environment(2, runtime="continuous", spark=spark, checkpoint_dir=str(tmp_path))
        source = rh.kafka.source(read, brokers=brokers, schema=Number, format=rh.formats.json())
        numbers = env.from_source(source, uid="numbers")
        sums = numbers.key_by("n").running(times=rh.agg.count()).uid("times")
        sums.sink_to(rh.kafka.sink(written, brokers=brokers), uid="out")
        with applied(Overrides(until_now=True)):
            env.execute("numbers")
        found = [json.loads(value or b"") for value in values(brokers, written)]
        assert all(each["times"] == 1 for each in found)
        return sorted(each["n"] for each in found)

    write(brokers, read, range(10))
    assert run() == list(range(10))
    assert run() == list(range(10))
    write(brokers, read, range(10, 15))
    assert run() == list(range(15))
