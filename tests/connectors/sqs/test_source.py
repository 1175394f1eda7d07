"""A queue in memory as a source: when messages are deleted, and that none is lost."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.sqs.held_messages import HeldMessages
from rheos.core.errors import InputError, ProgramError, UnavailableError
from tests.connectors.ports import Probe
from tests.connectors.sqs.queues import MemoryQueue, refused
from tests.waiting import wait_for

SCHEMA = pa.schema([pa.field("n", pa.int64())])
JSON: dict[str, Any] = {"format": rh.formats.json(), "schema": SCHEMA}


class Running:
    """The only subtask of a source with one consumer."""

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


def source_of(**given: Any) -> Any:
    return rh.sqs.source("orders", region="eu-central-1", **{**JSON, **given})


def values(*numbers: int) -> list[dict[str, int]]:
    return [{"n": n} for n in numbers]


def test_messages_are_deleted_when_their_checkpoint_is_complete(queue: MemoryQueue) -> None:
    queue.put(*values(0, 1, 2), "no JSON", *values(3, 4))
    with running(source_of(on_error="skip")) as job:
        assert job.rows(2) == values(0, 1)
        position = job.checkpoint()
        assert job.rows(2) == values(2, 3)
        assert [row["record"] for row in job.probe.rejected] == ["no JSON"]
        wait_for(lambda: len(queue.messages) == 4, 30)
        assert queue.visible() == 0
    # Messages that are not deleted are visible at once.
    assert queue.visible() == 4
    with running(source_of(on_error="skip", metadata={"receive_count": "times"}), position) as job:
        assert job.rows(3) == [{"n": n, "times": 2} for n in (2, 3, 4)]
        job.checkpoint()
        queue.faults["delete"] += [{0: ("InternalError", False)}, {0: ("Denied", True)}]
    assert len(queue.messages) <= 1


def test_messages_stay_hidden_until_their_checkpoint(queue: MemoryQueue) -> None:
    queue.put(*values(*range(12)))
    source = source_of()
    source = replace(source, of=replace(source.of, hidden_s=1))
    with running(source) as job:
        assert job.rows(12) == values(*range(12))
        time.sleep(2.2)
        assert queue.visible() == 0
        # A message that was delivered again is not new while it is held.
        queue.show_all()
        queue.put({"n": 12})
        assert job.rows(1) == values(12)
        assert {each.deliveries for each in queue.messages.values()} == {1, 2}
        job.checkpoint()
        wait_for(lambda: not queue.messages, 30)


def test_the_number_of_messages_in_flight_is_bounded(queue: MemoryQueue) -> None:
    queue.put(*values(*range(40)))
    with running(source_of(in_flight=15)) as job:
        for begin in range(0, 40, 15):
            rows = values(*range(begin, min(begin + 15, 40)))
            assert job.rows(len(rows)) == rows
            assert queue.visible() == max(25 - begin, 0)
            job.checkpoint()


def test_fields_become_columns(queue: MemoryQueue) -> None:
    attributes = {"country": {"DataType": "String", "StringValue": "uk"}}
    queue.put({"n": 1}, attributes=attributes, group="g")
    queue.put({"n": 2})
    metadata = {"attribute.country": "country", "group": "group", "message_id": "id", "sent": "sent"}
    with running(source_of(metadata=metadata)) as job:
        first, second = job.rows(2)
    assert (first["country"], first["group"], first["id"]) == ("uk", "g", "m1")
    assert first["sent"].year == 2023
    assert (second["country"], second["group"]) == (None, None)
    queue.messages.clear()
    queue.put(base64.b64encode(b'{"n": 3}').decode(), "{}")
    with running(source_of(encoding="base64", on_error="skip")) as job:
        assert job.rows(1) == values(3)


def test_throttled_requests_are_retried(queue: MemoryQueue) -> None:
    queue.put(*values(1, 2))
    queue.faults["receive"] += [refused("OverLimit"), refused("RequestThrottled")]
    queue.faults["url"] += [refused("ServiceUnavailable")]
    with running(source_of()) as job:
        assert job.rows(2) == values(1, 2)
        assert job.probe.counts["retries"] == 3
    queue.faults["receive"] += [refused("OverLimit")] * 3
    with running(source_of(retry_for="0s")) as job, pytest.raises(UnavailableError, match="OverLimit"):
        job.rows(1)
    with running(rh.sqs.source("none", **JSON)) as job, pytest.raises(InputError, match="NonExistent"):
        job.rows(1)


def test_held_messages_are_extended_in_time() -> None:
    held = HeldMessages(10.0)
    assert held.is_new("a", "a1", 1, 0.0)
    assert held.is_new("b", "b1", 2, 3.0)
    assert held.due(4.0) == []
    assert [each.id for each in held.due(5.0)] == ["a"]
    held.extended(held.due(5.0), 5.0)
    assert [each.id for each in held.due(8.0)] == ["b"]
    assert not held.is_new("b", "b2", 3, 9.0)
    assert [(each.id, each.receipt) for each in held.taken_to(3)] == [("a", "a1"), ("b", "b2")]
    assert len(held) == 0
    held.forget(["a"])
    assert held.is_new("a", "a3", 4, 20.0)


@pytest.mark.parametrize(
    "given",
    [
        {"queue": ""},
        {"queue": "q" * 81},
        {"consumers": 0},
        {"in_flight": 100_001},
        {"visibility": "9s"},
        {"visibility": "13h"},
        {"encoding": "hex"},
        {"metadata": {"offset": "o"}},
        {"options": {"password": "x"}},
    ],
    ids=str,
)
def test_wrong_arguments_of_the_source_are_refused(given: dict[str, Any]) -> None:
    fine = {"queue": "orders", **JSON}
    rh.sqs.source(**fine)
    with pytest.raises(ProgramError):
        rh.sqs.source(**{**fine, **given})
