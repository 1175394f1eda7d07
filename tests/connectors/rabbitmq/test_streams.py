"""Streams of a real server as a source: positions are offsets, and no message is read twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.contract import SplitReader
from rheos.core.errors import InputError
from tests.connectors.ports import Probe
from tests.connectors.rabbitmq.conftest import Queues
from tests.waiting import wait_for

SCHEMA = pa.schema([pa.field("n", pa.int64())])
JSON: dict[str, Any] = {"format": rh.formats.json(), "schema": SCHEMA}
pytestmark = pytest.mark.slow  # A server takes some 15 s of processor time to start.


@pytest.fixture
def stream(queues: Queues, prefix: str) -> Iterator[str]:
    name = f"{prefix}-stream"
    queues.create(name, **{"x-queue-type": "stream"})
    yield name
    queues.delete(name)


@contextmanager
def opened(source: Any, probe: Probe, position: bytes | None = None) -> Iterator[SplitReader]:
    [split] = source.splits()
    reader = source.open(split, position, probe.context())
    try:
        yield reader
    finally:
        reader.close()


def rows(reader: SplitReader, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    until_s = time.monotonic() + 120
    while len(found) < count:
        assert time.monotonic() < until_s, found
        polled = reader.poll(count - len(found))
        if isinstance(polled, pa.RecordBatch):
            found += polled.to_pylist()
        else:
            time.sleep(0.002)
    return found


def values(*numbers: int) -> list[dict[str, int]]:
    return [{"n": n} for n in numbers]


def test_a_reader_continues_at_its_offset(rabbitmq_server: Any, queues: Queues, stream: str) -> None:
    queues.put(stream, *values(0, 1, 2), b"no JSON", *values(4, 5))
    metadata = {"offset": "at", "routing_key": "key"}
    given: dict[str, Any] = {"metadata": metadata, "on_error": "skip", **JSON}
    source = rh.rabbitmq.source(rabbitmq_server.url, stream=stream, **given)
    probe = Probe()
    with opened(source, probe) as reader:
        before = reader.position()
        assert rows(reader, 2) == [{"n": n, "at": n, "key": stream} for n in (0, 1)]
        position = reader.position()
        assert [row["n"] for row in rows(reader, 3)] == [2, 4, 5]
        assert [(row["stream"], row["offset"]) for row in probe.rejected] == [(stream, 3)]
    with opened(source, Probe(), position) as reader:
        assert [row["n"] for row in rows(reader, 3)] == [2, 4, 5]
        queues.put(stream, *values(6))
        assert rows(reader, 1) == [{"n": 6, "at": 6, "key": stream}]
    for start, first in ((4, 4), (datetime(1970, 1, 2, tzinfo=UTC), 0)):
        later = rh.rabbitmq.source(rabbitmq_server.url, stream=stream, start=start, **given)
        for begin in (None, before):
            with opened(later, Probe(), begin) as reader:
                assert rows(reader, 1)[0]["n"] == first


def is_loaded(queues: Queues, stream: str) -> bool:
    """Return whether a server that was restarted has loaded the stream."""
    from pika.exceptions import ChannelClosedByBroker

    try:
        queues.ready(stream)
    except ChannelClosedByBroker:
        return False
    return True


@pytest.mark.proves(
    "RabbitMQ",
    faults=["the server is killed while a source reads a stream"],
    slow_because="a server takes some 15 s of processor time to start",
)
def test_no_message_is_read_twice_when_the_server_is_killed(
    rabbitmq_server: Any, queues: Queues, stream: str
) -> None:
    queues.put(stream, *values(*range(100)))
    source = rh.rabbitmq.source(
        rabbitmq_server.url, stream=stream, prefetch=30, retry_for="10m", **JSON
    )
    probe = Probe()
    with opened(source, probe) as reader:
        assert rows(reader, 50) == values(*range(50))
        rabbitmq_server.kill()
        rabbitmq_server.start()
        wait_for(lambda: is_loaded(queues, stream), 120)
        queues.put(stream, *values(*range(100, 110)))
        assert rows(reader, 60) == values(*range(50, 110))
    assert probe.counts["retries"] >= 1


@pytest.mark.parametrize("on_removed", ["fail", "continue"])
def test_removed_messages_are_named(
    rabbitmq_server: Any, queues: Queues, prefix: str, on_removed: Any
) -> None:
    name, small = f"{prefix}-small", {"x-queue-type": "stream", "x-max-length-bytes": 20_000}
    queues.create(name, **small, **{"x-stream-max-segment-size-bytes": 10_000})
    queues.put(name, *values(0, 1))
    source = rh.rabbitmq.source(rabbitmq_server.url, stream=name, on_removed=on_removed, **JSON)
    with opened(source, Probe()) as reader:
        assert rows(reader, 1) == values(0)
        position = reader.position()
    queues.put(name, *({"n": n, "text": "x" * 1000} for n in range(2, 300)))
    probe = Probe()
    with opened(source, probe, position) as reader:
        if on_removed == "continue":
            assert rows(reader, 1)[0]["n"] > 1
            assert probe.counts == {"removed": 1}
        else:
            with pytest.raises(InputError, match="has removed the messages 1 to"):
                rows(reader, 1)
    queues.delete(name)


def test_a_queue_is_not_a_stream(rabbitmq_server: Any, queues: Queues, prefix: str) -> None:
    queues.put(prefix, *values(1))
    source = rh.rabbitmq.source(rabbitmq_server.url, stream=prefix, **JSON)
    with opened(source, Probe()) as reader, pytest.raises(InputError):
        rows(reader, 1)
