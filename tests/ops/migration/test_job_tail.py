"""A job runs from a savepoint up to the offsets that a query has reached: with a real broker."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import rheos as rh
from rheos.core.operators.source_split import SPLITS
from rheos.ops.migration.job_tail import run_job_tail
from rheos.ops.migration.positions import KafkaOffsets, split_rows
from rheos.ops.migration.spark_checkpoint import SparkCheckpoint
from rheos.ops.savepoints.bootstrap import NewSavepoint
from rheos.testing.servers import KafkaBroker

reading_of_topics: Any = import_module("tests.connectors.kafka.reading")


def test_a_job_reads_only_what_the_query_has_read(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    topic = reading_of_topics.Topic(kafka_broker.address, 2)
    topic.write({partition: [b"%d" % number for number in range(6)] for partition in (0, 1)})
    env = rh.Environment()
    source = rh.kafka.source(topic.name, brokers=topic.address)
    env.from_source(source, uid="orders").sink_to(rh.collect_sink(), name="out")
    plan = env.plan()
    begin = KafkaOffsets({(topic.name, 0): 1, (topic.name, 1): 4})
    new = NewSavepoint(None, plan).with_table("orders", SPLITS, split_rows(source, begin, None))
    savepoint = new.write(str(tmp_path / "savepoint"))
    reached = KafkaOffsets({(topic.name, 0): 3, (topic.name, 1): 5})
    end = SparkCheckpoint("", 1, [reached], 0, 0, has_state=False)
    tail = run_job_tail(plan, savepoint, end)
    (output,) = tail.outputs.values()
    assert sorted(output.rows.column("value").to_pylist()) == [b"1", b"2", b"4"]
    assert list(tail.rows_read.values()) == [3]
