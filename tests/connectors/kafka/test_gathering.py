"""The thread that reads ahead makes few large chunks if messages arrive singly, and `close` does not
wait long for it."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.kafka.client_options import ClientOptions
from rheos.connectors.kafka.consumer import _FEW_BYTES, _GATHER_S, TopicConsumer
from rheos.connectors.kafka.decoding import MessageDecoding
from rheos.connectors.kafka.partition import PartitionSplit, RecordChunk
from tests.connectors.ports import Probe

ROWS = pa.schema([("row", pa.int64())])


class Reading:
    """Consumer whose thread is not started, and the waiting times that it requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(TopicConsumer, "_run", lambda self: None)
        self.probe = Probe()
        self.waits: list[float] = []
        self.consumer = TopicConsumer(
            ClientOptions.of("localhost:9092"),
            MessageDecoding.of(rh.formats.json(), ROWS, (), "fail"),
            group=None,
            read_committed=True,
            now=None,
            bounded=False,
            ctx=self.probe.context(),
        )
        monkeypatch.setattr(self.consumer._lock, "wait", self.waits.append)
        self.reader = self.consumer.open(PartitionSplit("t", 0, "", 0, 0), None)
        (self.feed,) = self.consumer._new

    def decoded(self, rows: int) -> None:
        """Add this number of decoded bytes."""
        batch = pa.RecordBatch.from_pydict({"row": list(range(rows))}, schema=ROWS)
        chunk = RecordChunk.of(batch, np.arange(rows), [], rows)
        self.consumer._ahead_bytes += chunk.size_bytes
        self.feed.chunks.append(chunk)

    def waited(self) -> list[float]:
        """Return how long the thread waits before it continues to read."""
        self.waits.clear()
        self.consumer._gather()
        return self.waits


def test_while_a_small_chunk_is_buffered_the_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    assert reading.waited() == []
    reading.decoded(3)
    assert reading.waited() == [_GATHER_S]
    polled: Any = reading.reader.poll(10)
    assert polled.num_rows == 3
    assert reading.waited() == []


def test_with_a_large_buffer_the_thread_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    reading.decoded(_FEW_BYTES // 8)
    assert reading.waited() == []


def test_a_closing_consumer_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    reading.decoded(3)
    reading.consumer.close()
    assert reading.waited() == []


def test_close_does_not_wait_for_a_blocked_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    confirmed = threading.Event()
    reading = Reading(monkeypatch)
    thread = threading.Thread(target=confirmed.wait, args=(10,), daemon=True)
    thread.start()
    monkeypatch.setattr(reading.consumer, "_thread", thread)
    monkeypatch.setattr("rheos.connectors.kafka.consumer._END_WITHIN_S", 0)
    reading.consumer.close()
    assert thread.is_alive()
    confirmed.set()
    thread.join()
