"""The sink in real jobs: workers and the broker are killed, and readers find each row once."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from tests.connectors.kafka.topics import new_topic, values
from tests.waiting import wait_for

pytestmark = pytest.mark.spark

ROWS = 3_000


def seen(brokers: str, topic: str) -> list[int]:
    return sorted(json.loads(value or b"")["n"] for value in values(brokers, topic))


@pytest.mark.proves(
    "Kafka",
    faults=["workers and the broker are killed while a job runs"],
    slow_because="every run has simulated jobs with crashes at the same broker",
)
@pytest.mark.slow  # Every run has simulated jobs with crashes at the same broker, and kills of it.
@pytest.mark.parametrize("broker_too", [False, True])
def test_killed_workers_and_brokers_neither_lose_nor_duplicate_rows(
    spark: Any, kafka_broker: Any, tmp_path: Path, broker_too: bool
) -> None:
    topic = new_topic(kafka_broker.address, 2)
    pids = str(tmp_path)

    def numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
        Path(pids, str(os.getpid())).touch()
        return batch

    env = rh.Environment(2, runtime="continuous", spark=spark, checkpoint_interval="200ms")
    made = rh.generator(
        lambda block: {"n": block.index() * 2 + block.split}, count=ROWS, splits=2, rate_per_s=1_000
    )
    numbers = env.from_source(made).map_batches(numbered, returns=pa.schema([("n", pa.int64())]))
    numbers.sink_to(rh.kafka.sink(topic, brokers=kafka_broker.address), name="out")
    job = env.execute_async("numbers")
    wait_for(lambda: len(values(kafka_broker.address, topic)) > ROWS // 10)
    os.kill(int(next(tmp_path.iterdir()).name), signal.SIGKILL)
    wait_for(lambda: job.status().attempt > 1)
    if broker_too:
        kafka_broker.kill()
        kafka_broker.start()
    result = job.wait(400)
    assert result.status.restarts >= 1
    assert seen(kafka_broker.address, topic) == list(range(ROWS))
    [out] = [operator for operator in result.status.operators if operator.name == "out"]
    assert {"retries", "brokers_away"} <= set(out.counters)


def test_a_batch_job_writes_all_its_rows_once(spark: Any, kafka_broker: Any, tmp_path: Path) -> None:
    topic = new_topic(kafka_broker.address, 2)
    env = rh.Environment(2, runtime="batch", spark=spark, checkpoint_dir=str(tmp_path))
    numbers = env.from_source(
        rh.generator(lambda b: {"n": b.index() * 2 + b.split}, count=100, splits=2)
    )
    numbers.sink_to(rh.kafka.sink(topic, brokers=kafka_broker.address, key="n"))
    env.execute("batch")
    assert seen(kafka_broker.address, topic) == list(range(100))
    # All that is left is the note of how the job has ended.
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["driver.json"]
