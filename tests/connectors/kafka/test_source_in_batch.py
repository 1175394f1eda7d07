"""A topic with an end is read by Spark, a task for each partition."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.testing.servers import KafkaBroker
from tests.connectors.kafka.reading import Topic


@pytest.mark.spark
def test_a_topic_is_read_in_batch(kafka_broker: KafkaBroker, spark: Any) -> None:
    topic = Topic(kafka_broker.address, 3)
    topic.write({p: [b'{"user": %d}' % (n % 7) for n in range(p, 300, 3)] for p in range(3)})
    env = rh.Environment(parallelism=2, runtime="batch")
    orders = env.from_source(
        rh.kafka.source(
            topic.name,
            brokers=topic.address,
            schema=pa.schema([("user", pa.int64())]),
            format=rh.formats.json(),
            metadata=["timestamp"],
            end="latest",
        ),
        watermark=rh.Watermark.bounded_out_of_orderness("1s", on="timestamp"),
    )
    window = rh.Tumbling("1000 days")
    orders.key_by("user").window(window).aggregate(n=rh.agg.count()).collect("counts")
    found = env.execute("orders").collected["counts"].to_pylist()
    counted: Counter[int] = Counter()
    for row in found:
        counted[row["user"]] += row["n"]
    assert counted == Counter(n % 7 for n in range(300))
