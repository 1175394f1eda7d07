"""Client of the real server, and streams of single tests."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import pytest

from rheos.connectors.nats.client_options import NatsOptions
from rheos.connectors.nats.session import NatsConnection, NatsSession
from rheos.connectors.nats.stream_pull import StreamMessage, StreamPull
from rheos.core.errors import UnavailableError

T = TypeVar("T")


class Streams:
    """A client that waits for each answer."""

    def __init__(self, url: str) -> None:
        self._session = NatsSession(NatsOptions.of(url), "a test's stream")

    def _call(self, work: Callable[[NatsConnection], Awaitable[T]]) -> T:
        try:
            return self._session.call(work)
        except UnavailableError:  # The server was restarted since the last call.
            return self._session.call(work)

    def create(self, name: str, subjects: Sequence[str] = (), **config: Any) -> None:
        """Create a stream. By default it stores all subjects that begin with its name."""
        stored = list(subjects or [f"{name}.>"])

        async def work(on: NatsConnection) -> None:
            await on.stream_api.add_stream(name=name, subjects=stored, **config)

        self._call(work)

    def delete(self, name: str) -> None:
        self._call(lambda on: on.stream_api.delete_stream(name))

    def purge(self, name: str, before: int) -> None:
        """Remove the messages before a sequence number."""
        self._call(lambda on: on.stream_api.purge_stream(name, seq=before))

    def put(self, subject: str, *payloads: Any) -> None:
        """Publish payloads: bytes, or values that become JSON."""

        async def work(on: NatsConnection) -> None:
            for payload in payloads:
                body = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
                await on.stream_api.publish(subject, body)

        self._call(work)

    def messages(self, name: str) -> list[tuple[str, Any]]:
        """Return the subjects of a stream's messages, and their payloads of JSON."""
        found = self.payloads(name)
        return [(subject, msgspec.json.decode(payload)) for subject, payload in found]

    def payloads(self, name: str) -> list[tuple[str, bytes]]:
        """Return the subjects of a stream's messages, and their payloads."""

        async def work(on: NatsConnection) -> list[tuple[str, bytes]]:
            pull = StreamPull(name, None, 0, waits=False)
            await pull.open(on)
            found: list[StreamMessage] = []
            while not await pull.is_exhausted(on):
                found += await pull.take(on)
            await pull.close(on)
            return [(each.subject, each.payload) for each in found]

        return self._call(work)

    def close(self) -> None:
        self._session.close()


@pytest.fixture
def prefix() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def streams(nats_server: Any) -> Iterator[Streams]:
    client = Streams(nats_server.url)
    yield client
    client.close()
