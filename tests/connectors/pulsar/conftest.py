"""Client of the real server, and topics of single tests."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
import pytest

from rheos.connectors.pulsar.client_options import PulsarOptions, client
from rheos.connectors.pulsar.session import PulsarSession
from rheos.core.errors import UnavailableError

T = TypeVar("T")


class Topics:
    """A client that waits for each answer, and the REST API."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.options = {"token": server.token}
        self._session = PulsarSession(PulsarOptions.of(server.url, self.options), "a test's topic")

    def _call(self, work: Callable[[Any], T]) -> T:
        try:
            return self._session.call(work)
        except UnavailableError:  # The server was restarted since the last call.
            return self._session.call(work)

    def admin(self, method: str, path: str, body: Any = None, *, missing: bool = False) -> None:
        """Call the REST API; `missing` allows that the topic does not exist."""
        request = urllib.request.Request(
            f"{self._server.admin_url}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                "Authorization": f"Bearer {self._server.token}",
            },
        )
        try:
            urllib.request.urlopen(request, timeout=30).close()
        except urllib.error.HTTPError as error:
            with error:
                if not (missing and error.code == 404):
                    raise

    def create(self, name: str, partitions: int, *, method: str = "PUT") -> None:
        """Create a topic with partitions; with the method POST, add partitions."""
        self.admin(method, f"persistent/public/default/{name}/partitions", partitions)

    def put(self, topic: str, *payloads: Any, batches: bool = False, **given: Any) -> None:
        """Publish payloads: bytes, None, or values that become JSON; in one batch if asked."""

        def work(connected: Any) -> None:
            producer = connected.create_producer(
                topic, batching_enabled=batches, batching_max_publish_delay_ms=1000
            )
            results: list[Any] = []
            for payload in payloads:
                is_ready = payload is None or isinstance(payload, bytes)
                body = payload if is_ready else msgspec.json.encode(payload)
                producer.send_async(body, lambda result, _: results.append(result), **given)
            producer.flush()
            producer.close()
            assert {*results} <= {client().Result.Ok}

        self._call(work)

    def messages(self, *topics: str) -> list[Any]:
        """Return all messages of topics or partitions."""

        def work(connected: Any) -> list[Any]:
            found = []
            for topic in topics:
                for partition in connected.get_topic_partitions(topic):
                    reader = connected.create_reader(partition, client().MessageId.earliest)
                    while reader.has_message_available():
                        found.append(reader.read_next(5000))
                    reader.close()
            return found

        return self._call(work)

    def decoded(self, *topics: str) -> list[tuple[Any, Any]]:
        """Return all messages, with their payloads decoded from JSON."""
        return [(each, msgspec.json.decode(each.data())) for each in self.messages(*topics)]

    def payloads(self, *topics: str) -> list[Any]:
        """Return the payloads of all messages, decoded from JSON."""
        return [payload for _, payload in self.decoded(*topics)]

    def close(self) -> None:
        self._session.close()


@pytest.fixture
def prefix() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topics(pulsar_server: Any) -> Iterator[Topics]:
    made = Topics(pulsar_server)
    yield made
    made.close()
