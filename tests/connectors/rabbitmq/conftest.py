"""A client of the real server that is not Rheos's own, and queues of single tests."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
import pytest

T = TypeVar("T")


class Queues:
    """A client that opens a connection for each call: the server may have been restarted."""

    def __init__(self, url: str) -> None:
        self._pika = pytest.importorskip("pika")
        self._url = url

    def _call(self, work: Callable[[Any], T]) -> T:
        connection = self._pika.BlockingConnection(self._pika.URLParameters(self._url))
        try:
            return work(connection.channel())
        finally:
            connection.close()

    def create(self, name: str, **arguments: Any) -> None:
        """Create a durable queue."""
        self._call(lambda on: on.queue_declare(name, durable=True, arguments=arguments))

    def bind(self, exchange: str, queue: str, key: str) -> None:
        """Create an exchange for topics, and bind a queue to it."""

        def work(on: Any) -> None:
            on.exchange_declare(exchange, "topic")
            on.queue_bind(queue, exchange, key)

        self._call(work)

    def delete(self, name: str) -> None:
        self._call(lambda on: on.queue_delete(name))

    def put(self, queue: str, *payloads: Any) -> None:
        """Publish payloads: bytes, or values that become JSON."""

        def work(on: Any) -> None:
            on.confirm_delivery()
            for payload in payloads:
                body = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
                on.basic_publish("", queue, body, self._pika.BasicProperties(delivery_mode=2))

        self._call(work)

    def ready(self, name: str) -> int:
        """Return the number of messages that nobody has received."""
        count: int = self._call(lambda on: on.queue_declare(name, passive=True)).method.message_count
        return count

    def taken(self, name: str) -> list[tuple[str, Any]]:
        """Remove the messages of a queue. Return their routing keys, and their payloads of JSON."""
        return [(key, msgspec.json.decode(payload)) for key, payload in self.payloads(name)]

    def payloads(self, name: str, *, keep: bool = False) -> list[tuple[str, bytes]]:
        """Return the routing keys of a queue's messages, and their payloads."""

        def work(on: Any) -> list[tuple[str, bytes]]:
            found: list[tuple[str, bytes]] = []
            while True:
                method, _, body = on.basic_get(name, auto_ack=not keep)
                if method is None:
                    return found
                found.append((method.routing_key, body))

        return self._call(work)


@pytest.fixture
def prefix() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def queues(rabbitmq_server: Any, prefix: str) -> Iterator[Queues]:
    client = Queues(rabbitmq_server.url)
    client.create(prefix)
    yield client
    client.delete(prefix)
