"""How fast the Kafka source reads a topic, against the client's own consumer on the same topic.

The client's consumer takes the messages and looks at none of them: what it manages is the limit. The
source is one subtask's: its thread consumes and decodes, this one takes the batches. They are measured
in turns, each reads the whole topic, and the medians are printed: records per second, and the processor
time of the process per record, which counts where the machine is shared. The broker is a real one on
this machine, and shares its cores.

usage: kafka_source.py [--records 1000000] [--rounds 3] [--partitions 4]
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable, Iterable

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import rheos as rh
from rheos.core.connectors.contract import EndOfSplit, ReaderContext, Source
from rheos.runtimes.host.io import InlineIo, SystemClock
from rheos.testing.servers import KafkaBroker

TOPIC = "events"
BATCH_ROWS = 16_384
SCHEMA = pa.schema(
    [
        ("user", pa.int64()),
        ("at", pa.int64()),
        ("kind", pa.string()),
        ("price", pa.float64()),
        ("note", pa.string()),
    ]
)


def event(n: int) -> str:
    return (
        f'{{"user": {n % 10_000}, "at": {1_700_000_000_000 + n}, "kind": "click", '
        f'"price": {n % 97}.25, "note": "{"x" * 110}"}}'
    )


def fill(brokers: str, topic: str, partitions: int, messages: Iterable[str | bytes]) -> int:
    """Makes the topic and writes the messages to its partitions in turn, and returns how many."""
    admin = AdminClient({"bootstrap.servers": brokers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 50, "batch.size": 1_000_000})
    written = 0
    for message in messages:
        while True:
            try:
                producer.produce(topic, message, str(written % 1000), partition=written % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        written += 1
        if written % 1000 == 0:
            producer.poll(0)
    producer.flush()
    return written


def by_the_client(brokers: str, topic: str, records: int, partitions: Iterable[int]) -> int:
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "client",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "queued.min.messages": 200_000,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    taken = 0
    while taken < records:
        messages = consumer.consume(BATCH_ROWS, 0.05)
        # Each is looked at for an error, as whoever uses it must.
        taken += len(messages) - sum(
            message.error().code() == KafkaError._PARTITION_EOF
            for message in messages
            if message.error() is not None
        )
    consumer.close()
    return taken


def by_the_source(source: Source) -> int:
    woken = threading.Event()
    ctx = ReaderContext(SystemClock(), InlineIo(), lambda name, by: None, lambda batch: None, woken.set)
    ctx.client = source.client(ctx)
    readers = [source.open(split, None, ctx) for split in source.splits()]
    unread = list(readers)
    taken = 0
    while unread:
        woken.clear()
        has_read = False
        for reader in list(unread):
            polled = reader.poll(BATCH_ROWS)
            if isinstance(polled, EndOfSplit):
                unread.remove(reader)
            elif isinstance(polled, pa.RecordBatch):
                taken += polled.num_rows
                has_read = True
        if unread and not has_read:
            woken.wait(1)
    for reader in readers:
        reader.close()
    assert ctx.client is not None
    ctx.client.close()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=4)
    given = parser.parse_args()
    with KafkaBroker() as broker:
        fill(broker.address, TOPIC, given.partitions, map(event, range(given.records)))
        size = len(event(given.records - 1))
        print(f"{given.records:,} events of {size} bytes in {given.partitions} partitions", flush=True)
        read = {"brokers": broker.address, "end": "latest"}
        raw = rh.kafka.source(TOPIC, **read)
        beside = rh.kafka.source(TOPIC, metadata=["key", "timestamp", "offset"], **read)
        json = rh.kafka.source(TOPIC, schema=SCHEMA, format=rh.formats.json(), **read)
        ways: dict[str, Callable[[], int]] = {
            "client": lambda: by_the_client(
                broker.address, TOPIC, given.records, range(given.partitions)
            ),
            "raw": lambda: by_the_source(raw),
            "raw, with key, timestamp, offset": lambda: by_the_source(beside),
            "json": lambda: by_the_source(json),
        }
        rates: dict[str, list[float]] = {name: [] for name in ways}
        costs: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(given.rounds):
            for name, way in ways.items():
                began_s, cpu_s = time.perf_counter(), time.process_time()
                taken = way()
                assert taken == given.records, (name, taken)
                rates[name].append(taken / (time.perf_counter() - began_s))
                costs[name].append((time.process_time() - cpu_s) / taken * 1e6)
    limit = statistics.median(rates["client"])
    for name in ways:
        rate, cost = statistics.median(rates[name]), statistics.median(costs[name])
        print(f"{name:34} {rate:>12,.0f}/s {rate / limit:>6.0%} of the client {cost:>7.2f} us CPU each")


if __name__ == "__main__":
    main()
