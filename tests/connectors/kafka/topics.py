"""Topics of single tests on a real broker, and what readers of them see."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rheos.connectors.kafka.producing import Producing
from tests.waiting import wait_for

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_numbers = itertools.count()
WITHIN_S = 60.0
SETTLED_S = 1.0


@dataclass(frozen=True)
class Record:
    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


def make_topic(admin: AdminClient, name: str, partitions: int = 1, **settings: str) -> None:
    """Make the topic, and return once the broker knows it. Settings have `_` for each `.`."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    config = {key.replace("_", "."): value for key, value in settings.items()}
    topic = NewTopic(name, partitions, 1, config=config)
    # A busy broker may drop a request, for whose answer the client waits until its limit.
    for attempt in range(4):
        try:
            admin.create_topics([topic], request_timeout=WITHIN_S / 4)[name].result(WITHIN_S)
            break
        except KafkaException as error:
            code = error.args[0].code()
            if attempt > 0 and code == KafkaError.TOPIC_ALREADY_EXISTS:
                break
            of_client = code < 0
            if not of_client or attempt == 3:
                raise

    # A broker may hear of it a little after the controller has made it.
    def is_there() -> bool:
        found = admin.list_topics(timeout=WITHIN_S).topics.get(name)
        places = [] if found is None else list(found.partitions.values())
        return len(places) == partitions and all(place.error is None for place in places)

    wait_for(is_there)


def new_topic(brokers: str, partitions: int = 1, **settings: str) -> str:
    from confluent_kafka.admin import AdminClient

    name = f"t{os.getpid()}-{next(_numbers)}"
    make_topic(AdminClient({"bootstrap.servers": brokers}), name, partitions, **settings)
    return name


def set_topic(brokers: str, topic: str, name: str, value: str) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": brokers})
    admin.incremental_alter_configs([resource])[resource].result(WITHIN_S)


def read(brokers: str, topic: str, *, committed: bool = True) -> list[Record]:
    """Return all records that readers of the topic see now, by partition.

    The broker ends a transaction in each partition after it has answered the commit. So a partition
    with records after its last visible one is read until `SETTLED_S` after that.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": f"reader-{next(_numbers)}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    found: list[Record] = []
    try:
        partitions = consumer.list_topics(topic, WITHIN_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        deadline = time.monotonic() + WITHIN_S
        open_ends = dict.fromkeys(partitions, deadline)
        """Partitions to read, and the time at which to stop."""
        while open_ends := {p: end for p, end in open_ends.items() if time.monotonic() < end}:
            assert time.monotonic() < deadline, f"{topic}: no end in sight, {len(found)} records so far"
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                partition = TopicPartition(topic, message.partition())
                _, end = consumer.get_watermark_offsets(partition, cached=True)
                waits_s = SETTLED_S if message.offset() < end else 0.0
                open_ends[message.partition()] = time.monotonic() + waits_s
                continue
            found.append(_record(message))
    finally:
        consumer.close()
    return sorted(found, key=lambda record: record.partition)


def _record(message: Any) -> Record:
    return Record(
        message.value(),
        message.key(),
        message.partition(),
        message.timestamp()[1],
        tuple(message.headers() or ()),
    )


def values(brokers: str, topic: str, *, committed: bool = True) -> list[bytes | None]:
    return [record.value for record in read(brokers, topic, committed=committed)]


def fence(producing: Producing) -> None:
    """Fence a name on a broker that was just restarted, as committers do."""

    def fenced() -> bool:
        from confluent_kafka import KafkaException

        with contextlib.suppress(KafkaException):
            producing.fence(WITHIN_S)
            return True
        return False

    wait_for(fenced)
