"""Kafka, MQTT, RabbitMQ, NATS and Redis, with messages of 100 bytes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa

import rheos as rh
from benchmarks.connector_rates.driving import WrittenSink, read
from benchmarks.connector_rates.measuring import Case
from rheos.testing import servers

SCHEMA = pa.schema([pa.field("value", pa.binary(), nullable=False)])
AT_ONCE = 1_000
"""Number of messages that the client libraries have under way."""


def messages(records: int) -> list[bytes]:
    """Return messages of 100 bytes."""
    return [b"%08d" % n + b"x" * 92 for n in range(records)]


def table(payloads: list[bytes]) -> pa.Table:
    """Return the rows of messages."""
    return pa.table([pa.array(payloads, pa.binary())], schema=SCHEMA)


# --- Kafka
# ----------------------------------------------------------------------------------------------


@contextmanager
def kafka(records: int, folder: Path) -> Iterator[list[Case]]:
    """Read a topic of four partitions, and write one at least once and exactly once."""
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    payloads = messages(records)
    with servers.KafkaBroker() as broker, ExitStack() as opened:
        address = {"bootstrap.servers": broker.address}
        topics = [NewTopic(name, 4, 1) for name in ("read", "client", "once", "written")]
        admin = AdminClient(address)
        for made in admin.create_topics(topics).values():
            made.result()

        def produce(topic: str) -> None:
            failed: list[Any] = []

            def delivered(error: Any, message: Any) -> None:
                if error is not None:
                    failed.append(error)

            producer = Producer({**address, "linger.ms": 5, "queue.buffering.max.messages": 2_000_000})
            for number, payload in enumerate(payloads):
                producer.produce(topic, payload, on_delivery=delivered)
                if not number % AT_ONCE:
                    producer.poll(0)
            producer.flush()
            assert not failed

        def consume() -> None:
            settings = {"group.id": "client", "enable.auto.commit": False}
            consumer = Consumer({**address, **settings, "queued.min.messages": 200_000})
            consumer.assign([TopicPartition("read", number, 0) for number in range(4)])
            taken = 0
            while taken < records:
                found = consumer.consume(16_384, 0.05)
                taken += sum(message.error() is None for message in found)
            consumer.close()

        def sink(topic: str, guarantee: Any) -> Callable[[], None]:
            made = rh.kafka.sink(
                topic, brokers=broker.address, format=rh.formats.raw(), guarantee=guarantee
            )
            ours = WrittenSink(made, SCHEMA, folder)
            opened.callback(ours.close)
            return partial(ours.write, table(payloads))

        produce("read")
        source = rh.kafka.source("read", brokers=broker.address, format=rh.formats.raw(), end="latest")
        library, write = "confluent-kafka", partial(produce, "client")
        least, exactly = sink("written", "at_least_once"), sink("once", "exactly_once")
        yield [
            Case("`kafka` source", library, records, lambda: read(source, records), consume),
            Case("`kafka` sink, at least once", library, records, least, write),
            Case("`kafka` sink, exactly once", library, records, exactly, write),
        ]


# --- MQTT
# -----------------------------------------------------------------------------------------------


class PahoClient:
    """The client paho-mqtt with its thread, and a persistent session."""

    def __init__(self, address: str, name: str) -> None:
        from paho.mqtt import client
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        self._client = client.Client(
            client.CallbackAPIVersion.VERSION2, client_id=name, protocol=client.MQTTv5
        )
        self._client.max_inflight_messages_set(AT_ONCE)
        self._client.max_queued_messages_set(0)
        self._client.on_subscribe = lambda *given: self._subscribed.set()
        self._client.on_message = self._on_message
        self._subscribed = threading.Event()
        self._has_all = threading.Event()
        self._taken = 0
        self._wanted = 0
        session = Properties(PacketTypes.CONNECT)
        session.SessionExpiryInterval = 3600
        host, port = address.split(":")
        self._client.connect(host, int(port), clean_start=False, properties=session)
        self._client.loop_start()

    def subscribe(self, topic: str) -> None:
        """Let the session store the messages of a topic."""
        self._client.subscribe(topic, qos=1)
        assert self._subscribed.wait(60)

    def publish(self, topic: str, payloads: list[bytes]) -> None:
        """Publish messages, and wait until all are acknowledged."""
        sent = [self._client.publish(topic, payload, qos=1) for payload in payloads]
        for each in sent:
            each.wait_for_publish(60)

    def take(self, records: int) -> None:
        """Wait until this number of messages has arrived."""
        self._wanted = records
        assert self._taken >= records or self._has_all.wait(120)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _on_message(self, client: Any, given: Any, message: Any) -> None:
        self._taken += 1
        if self._taken == self._wanted:
            self._has_all.set()


@contextmanager
def mqtt(records: int, folder: Path) -> Iterator[list[Case]]:
    """Read the messages that a session has stored, and publish with QoS 1."""
    records //= 5  # The client library publishes few at a time.
    payloads = messages(records)
    settings = {"autosave_interval": 0}
    with servers.MosquittoServer(settings=settings) as broker, ExitStack() as opened:
        publisher = PahoClient(broker.address, "publisher")
        opened.callback(publisher.close)
        numbers = count()
        current: list[str] = []

        def fill() -> None:
            name = f"session-{next(numbers)}"
            session = PahoClient(broker.address, name)
            session.subscribe(f"topics/{name}")
            session.close()
            publisher.publish(f"topics/{name}", payloads)
            current[:] = [name]

        def ours() -> None:
            source = rh.mqtt.source(
                broker.url,
                topic=f"topics/{current[0]}",
                client_id=current[0],
                format=rh.formats.raw(),
            )
            read(source, records)

        def theirs() -> None:
            client = PahoClient(broker.address, current[0])
            client.take(records)
            client.close()

        sink = rh.mqtt.sink(broker.url, topic="written", format=rh.formats.raw())
        written = WrittenSink(sink, SCHEMA, folder)
        opened.callback(written.close)
        rows = table(payloads)
        yield [
            Case("`mqtt` source", "paho-mqtt", records, ours, theirs, fill),
            Case(
                "`mqtt` sink",
                "paho-mqtt",
                records,
                lambda: written.write(rows),
                lambda: publisher.publish("written", payloads),
            ),
        ]


# --- RabbitMQ
# -------------------------------------------------------------------------------------------


@contextmanager
def rabbitmq(records: int, folder: Path) -> Iterator[list[Case]]:
    """Read a queue with acknowledgements, and publish persistent messages with confirmations."""
    import pika

    payloads = messages(records)
    with servers.RabbitmqServer() as server, ExitStack() as opened:
        parameters = pika.URLParameters(server.url)

        @contextmanager
        def channel() -> Iterator[Any]:
            connection = pika.BlockingConnection(parameters)
            try:
                yield connection.channel()
            finally:
                connection.close()

        def publish(queue: str) -> None:
            """Publish with confirmations of many messages, which the blocking client lacks."""
            with PikaPublisher(parameters) as publisher:
                publisher.publish(queue, payloads)

        def purge() -> None:
            with channel() as on:
                on.queue_purge("written")

        def fill() -> None:
            with channel() as on:
                on.queue_purge("read")
            publish("read")

        def consume() -> None:
            with channel() as on:
                on.basic_qos(prefetch_count=10_000)
                for taken, (method, _, _) in enumerate(on.consume("read"), 1):
                    if not taken % AT_ONCE or taken == records:
                        on.basic_ack(method.delivery_tag, multiple=True)
                    if taken == records:
                        break

        with channel() as on:
            for queue in ("read", "written"):
                on.queue_declare(queue, durable=True)
        source = rh.rabbitmq.source(server.url, queue="read", format=rh.formats.raw())
        sink = rh.rabbitmq.sink(server.url, routing_key="written", format=rh.formats.raw())
        written = WrittenSink(sink, SCHEMA, folder)
        opened.callback(written.close)
        rows = table(payloads)
        yield [
            Case("`rabbitmq` source", "pika", records, lambda: read(source, records), consume, fill),
            Case(
                "`rabbitmq` sink",
                "pika",
                records,
                lambda: written.write(rows),
                lambda: publish("written"),
                purge,
            ),
        ]


class PikaPublisher:
    """pika's client with callbacks in a loop of its own, and confirmations."""

    def __init__(self, parameters: Any) -> None:
        self._parameters = parameters

    def __enter__(self) -> PikaPublisher:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def publish(self, queue: str, payloads: list[bytes]) -> None:
        """Publish messages, and return when all are confirmed."""
        import pika

        properties = pika.BasicProperties(delivery_mode=2)
        unconfirmed = dict.fromkeys(range(1, len(payloads) + 1))

        def on_confirmed(frame: Any) -> None:
            tag = frame.method.delivery_tag
            tags = takewhile(lambda each: each <= tag, unconfirmed) if frame.method.multiple else [tag]
            for each in list(tags):
                unconfirmed.pop(each, None)
            if not unconfirmed:
                connection.close()

        def on_channel(channel: Any) -> None:
            channel.confirm_delivery(on_confirmed)
            for payload in payloads:
                channel.basic_publish("", queue, payload, properties)

        connection = pika.SelectConnection(
            self._parameters,
            on_open_callback=lambda on: on.channel(on_open_callback=on_channel),
            on_close_callback=lambda on, error: on.ioloop.stop(),
        )
        connection.ioloop.start()


# --- NATS
# -----------------------------------------------------------------------------------------------


@contextmanager
def nats(records: int, folder: Path) -> Iterator[list[Case]]:
    """Read a stream from its first message, and publish with acknowledgements."""
    import nats as library
    from nats.js.api import AckPolicy, ConsumerConfig

    payloads = messages(records)
    with servers.NatsServer() as server, ExitStack() as opened:

        async def publish(subject: str) -> None:
            client = await library.connect(server.url)
            stream = client.jetstream()
            for begin in range(0, records, AT_ONCE):
                await asyncio.gather(
                    *(stream.publish(subject, each) for each in payloads[begin : begin + AT_ONCE])
                )
            await client.close()

        async def consume() -> None:
            client = await library.connect(server.url)
            config = ConsumerConfig(ack_policy=AckPolicy.NONE)
            pull = await client.jetstream().pull_subscribe("read.all", stream="READ", config=config)
            taken = 0
            while taken < records:
                taken += len(await pull.fetch(AT_ONCE, timeout=60))
            await client.close()

        async def create() -> None:
            client = await library.connect(server.url)
            for name in ("READ", "WRITTEN"):
                await client.jetstream().add_stream(name=name, subjects=[f"{name.lower()}.>"])
            await client.close()

        asyncio.run(create())
        asyncio.run(publish("read.all"))
        source = rh.nats.source(server.url, stream="READ", format=rh.formats.raw(), end="latest")
        sink = rh.nats.sink(server.url, subject="written.all", format=rh.formats.raw())
        written = WrittenSink(sink, SCHEMA, folder)
        opened.callback(written.close)
        rows = table(payloads)
        yield [
            Case(
                "`nats` source",
                "nats-py",
                records,
                lambda: read(source, records),
                lambda: asyncio.run(consume()),
            ),
            Case(
                "`nats` sink",
                "nats-py",
                records,
                lambda: written.write(rows),
                lambda: asyncio.run(publish("written.all")),
            ),
        ]


# --- Redis
# ----------------------------------------------------------------------------------------------


@contextmanager
def redis(records: int, folder: Path) -> Iterator[list[Case]]:
    """Read a stream, and write keys."""
    import redis as library

    payloads = messages(records)
    with servers.RedisServer() as server, ExitStack() as opened:
        client = library.Redis.from_url(server.url)

        def pipelines(put: Callable[[Any, int, bytes], None]) -> None:
            for begin in range(0, records, AT_ONCE):
                with client.pipeline(transaction=False) as pipeline:
                    for number, payload in enumerate(payloads[begin : begin + AT_ONCE], begin):
                        put(pipeline, number, payload)
                    pipeline.execute()

        def consume() -> None:
            last, taken = b"0-0", 0
            while taken < records:
                [(_, entries)] = client.xread({"read": last}, count=AT_ONCE)
                last, taken = entries[-1][0], taken + len(entries)

        pipelines(lambda on, number, payload: on.xadd("read", {"payload": payload}))
        source = rh.redis.source(server.url, stream="read", format=rh.formats.raw(), end="latest")
        schema = SCHEMA.append(pa.field("id", pa.int64(), nullable=False))
        rows = table(payloads).append_column(schema.field("id"), pa.array(range(records)))
        sink = rh.redis.sink(server.url, key="{id}", value="value", format=rh.formats.raw())
        written = WrittenSink(sink, schema, folder)
        opened.callback(written.close)
        yield [
            Case("`redis` source", "redis-py", records, lambda: read(source, records), consume),
            Case(
                "`redis` sink",
                "redis-py",
                records,
                lambda: written.write(rows),
                lambda: pipelines(lambda on, number, payload: on.set(str(number), payload)),
            ),
        ]


CASES: Mapping[str, Any] = {
    "kafka": kafka,
    "mqtt": mqtt,
    "rabbitmq": rabbitmq,
    "nats": nats,
    "redis": redis,
}
"""Cases of each connector, by its name."""
