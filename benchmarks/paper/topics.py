"""Topics that an experiment reads: filled as fast as the client takes records, and counted."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.paper.committed import make_topics

_OPTIONS = {
    "linger.ms": 20,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1_000_000,
}


def fill(brokers: str, topic: str, partitions: int, chunks: Iterable[list[bytes]]) -> int:
    """Makes a topic, and writes the values in turns to its partitions, the last of all to partition 0.
    Gives how many there are. Raises RuntimeError where the broker has another number in the end."""
    make_topics(brokers, {topic: partitions})
    producer = Producer({"bootstrap.servers": brokers, **_OPTIONS})
    sent = 0
    for values in chunks:
        for partition in range(min(partitions, len(values))):
            # Backwards from the last, so that it is partition 0's, whatever their number.
            part = values[len(values) - 1 - partition :: -partitions][::-1]
            queued = producer.produce_batch(topic, [{"value": v} for v in part], partition=partition)
            if queued != len(part):
                raise RuntimeError(f"{topic}: the client took {queued} of {len(part)} records")
        sent += len(values)
        producer.flush()
    found = count(brokers, topic, partitions)
    if found != sent:
        raise RuntimeError(f"{topic}: {found} of {sent} records are there")
    return sent


def count(brokers: str, topic: str, partitions: int) -> int:
    """How many records a topic has."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "count"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition(topic, number), 10)
        for number in range(partitions)
    ]
    consumer.close()
    return sum(last - first for first, last in ends)
