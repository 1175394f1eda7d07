"""What writers do beside a broker: room for what is staged, and marks of streams that are idle."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.kafka.client_options import ClientOptions
from rheos.connectors.kafka.marks import Mark
from rheos.connectors.kafka.records import RecordLayout
from rheos.connectors.kafka.staged_epochs import decode_epoch
from rheos.connectors.kafka.transactions import Transactions
from rheos.connectors.kafka.writers import ExactlyOnceWriter, Target
from rheos.protocol.ids import CheckpointId
from tests.connectors.ports import ManualClock, batch_of, sink_context

SCHEMA = pa.schema({"n": pa.int64()})
DAY_US = 24 * 3600 * 1_000_000


def test_who_stages_waits_while_a_commit_runs_and_too_much_is_left() -> None:
    transactions = Transactions("w", "t", ClientOptions.of("b:9092"))
    transactions.wait_for_room(1000, at_most_bytes=10)  # No commit runs: the next is begun by who asks.
    transactions._move(committing=True)
    transactions.wait_for_room(10, at_most_bytes=10)

    waiting, order = threading.Event(), []

    class Watched(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            waiting.set()
            return super().wait(timeout)

    transactions._moved = Watched()

    def stage() -> None:
        transactions.wait_for_room(1000, at_most_bytes=10)
        order.append("room")

    staging = threading.Thread(target=stage)
    staging.start()
    assert waiting.wait(60)
    transactions._move(committing=True, settled_bytes=900)
    order.append("100 bytes are left")
    transactions._move(committing=True, settled_bytes=90)
    staging.join(60)
    assert order == ["100 bytes are left", "room"]


def test_an_idle_writer_makes_its_mark_again_each_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Mark, "create", lambda self: None)
    layout = RecordLayout(rh.formats.json())
    target = Target("t", ClientOptions.of("b:9092"), layout, "rheos", "fail", 1, 0, str(tmp_path))
    ctx: Any = sink_context(SCHEMA)
    clock = ManualClock()
    ctx.clock = clock
    writer = ExactlyOnceWriter(target, ctx)

    def staged(checkpoint: int) -> list[int]:
        return [decode_epoch(each).records for each in writer.prepare(CheckpointId(checkpoint))]

    assert staged(1) == []
    clock.us += DAY_US
    assert staged(2) == [0]
    assert staged(3) == []
    writer.write(batch_of(SCHEMA, {"n": 1}))
    assert staged(4) == [1]
    clock.us += DAY_US - 1_000_000
    assert staged(5) == []
    writer.close()


def test_what_writers_know_is_shown_without_credentials() -> None:
    options = ClientOptions.of("b:9092", {"sasl.password": "hunter2"})
    folder = "s3://key:secret@bucket/job"
    target = Target("t", options, RecordLayout(rh.formats.json()), "rheos", "fail", folder=folder)
    sink = rh.kafka.KafkaSink(target, "exactly_once")
    for shown in (repr(sink), repr(sink.committer()), sink.describe()):
        assert "hunter2" not in shown
        assert "secret" not in shown
