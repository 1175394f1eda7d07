"""Queues of a real server as a source: when messages are acknowledged, and that none is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError, InputError
from tests.connectors.ports import Probe
from tests.connectors.rabbitmq.conftest import Queues
from tests.waiting import wait_for

SCHEMA = pa.schema([pa.field("n", pa.int64())])
JSON: dict[str, Any] = {"format": rh.formats.json(), "schema": SCHEMA}
pytestmark = pytest.mark.slow  # A server takes some 15 s of processor time to start.


class Running:
    """The only subtask of a source of one queue."""

    def __init__(self, source: Any, position: bytes | None = None) -> None:
        self.probe = Probe()
        ctx = self.probe.context()
        self.client = ctx.client = source.client(ctx)
        [self.split] = source.splits()
        self.reader = source.open(self.split, position, ctx)

    def rows(self, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        until_s = time.monotonic() + 60
        while len(found) < count:
            assert time.monotonic() < until_s, found
            polled = self.reader.poll(count - len(found))
            if isinstance(polled, pa.RecordBatch):
                found += polled.to_pylist()
            else:
                time.sleep(0.002)
        return found

    def checkpoint(self) -> bytes:
        """Complete a checkpoint."""
        position: bytes = self.reader.position()
        self.client.completed({self.split.id: position})
        return position


@contextmanager
def running(source: Any, position: bytes | None = None) -> Iterator[Running]:
    job = Running(source, position)
    try:
        yield job
    finally:
        job.reader.close()
        job.client.close()


def values(*numbers: int) -> list[dict[str, int]]:
    return [{"n": n} for n in numbers]


def test_messages_are_acknowledged_when_their_checkpoint_is_complete(
    rabbitmq_server: Any, queues: Queues, prefix: str
) -> None:
    queues.put(prefix, *values(0, 1, 2), b"no JSON", *values(3, 4))
    metadata = {"routing_key": "key", "redelivered": "again"}
    given: dict[str, Any] = {"metadata": metadata, "on_error": "skip", **JSON}
    source = rh.rabbitmq.source(rabbitmq_server.url, queue=prefix, **given)
    with running(source) as job:
        assert job.rows(2) == [{"n": n, "key": prefix, "again": False} for n in (0, 1)]
        position = job.checkpoint()
        assert job.rows(2) == [{"n": n, "key": prefix, "again": False} for n in (2, 3)]
        assert [row["record"] for row in job.probe.rejected] == ["no JSON"]
        assert queues.ready(prefix) == 0
    assert queues.ready(prefix) == 4
    with running(source, position) as job:
        assert job.rows(3) == [{"n": n, "key": prefix, "again": True} for n in (2, 3, 4)]
        job.checkpoint()
    assert queues.ready(prefix) == 0


def test_the_prefetch_bounds_what_is_not_acknowledged(
    rabbitmq_server: Any, queues: Queues, prefix: str
) -> None:
    queues.put(prefix, *values(*range(50)))
    source = rh.rabbitmq.source(rabbitmq_server.url, queue=prefix, prefetch=10, **JSON)
    with running(source) as job:
        for begin in range(0, 50, 10):
            assert job.rows(10) == values(*range(begin, begin + 10))
            assert not isinstance(job.reader.poll(1), pa.RecordBatch)
            job.checkpoint()


@pytest.mark.proves(
    "RabbitMQ",
    faults=["the server is killed while a source reads"],
    slow_because="a server takes some 15 s of processor time to start",
)
def test_a_server_that_is_killed_delivers_again_what_was_not_acknowledged(
    rabbitmq_server: Any, queues: Queues, prefix: str
) -> None:
    queues.put(prefix, *values(*range(100)))
    source = rh.rabbitmq.source(rabbitmq_server.url, queue=prefix, **JSON, retry_for="10m")
    with running(source) as job:
        assert job.rows(50) == values(*range(50))
        job.checkpoint()
        rabbitmq_server.kill()
        rabbitmq_server.start()
        queues.put(prefix, *values(*range(100, 110)))
        found: set[int] = set()
        while not {*range(50, 110)} <= found:
            found |= {row["n"] for row in job.rows(1)}
        job.checkpoint()
        assert job.probe.counts["retries"] >= 1
    wait_for(lambda: queues.ready(prefix) == 0, 30)


def test_what_cannot_be_read_is_an_error(rabbitmq_server: Any, queues: Queues, prefix: str) -> None:
    queues.create(f"{prefix}s", **{"x-queue-type": "stream"})
    cases = [
        (rabbitmq_server.url, f"{prefix}-none", InputError, "NOT_FOUND"),
        (rabbitmq_server.url, f"{prefix}s", InputError, "is a stream"),
        (f"amqp://ada:guess@{rabbitmq_server.address}", prefix, ConfigurationError, "ACCESS_REFUSED"),
    ]
    for url, queue, kind, text in cases:
        with running(rh.rabbitmq.source(url, queue=queue, **JSON)) as job:

            def polled() -> None:
                for _ in range(600):
                    # A consumer of a stream receives what is put after it has begun.
                    queues.put(f"{prefix}s", *values(1))
                    job.reader.poll(1)
                    time.sleep(0.1)

            with pytest.raises(kind, match=text):
                polled()
    queues.delete(f"{prefix}s")
