"""What writers do beside a broker: room for what is staged, and marks of streams that are idle."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.kafka.client_options import ClientOptions
from rheos.connectors.kafka.marks import Mark
from rheos.connectors.kafka.records import RecordLayout
from rheos.connectors.kafka.staged_epochs import StagedEpoch, decode_epoch
from rheos.connectors.kafka.transactions import Transactions
from rheos.connectors.kafka.writers import ExactlyOnceWriter, Target
from rheos.protocol.ids import CheckpointId
from tests.connectors.ports import ManualClock, batch_of, sink_context

SCHEMA = pa.schema({"n": pa.int64()})
DAY_US = 24 * 3600 * 1_000_000


def test_who_stages_waits_while_a_commit_runs_and_too_much_is_staged_behind_it() -> None:
    transactions = Transactions("w", "t", ClientOptions.of("b:9092"))
    transactions.wait_for_room(1000, ahead_bytes=10)  # None runs: the next is begun by who would wait.
    first = StagedEpoch("w", "t", 1, 7, 0, records=1, size_bytes=300, checksums=b"")
    transactions._begin([first])
    transactions.wait_for_room(310, ahead_bytes=10)
    transactions.wait_for_room(600, ahead_bytes=10)  # As much as is committed may be staged beside it.
    order, waiting = [], threading.Event()

    class Watched(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            waiting.set()
            return super().wait(timeout)

    transactions._committing = Watched()

    def stage() -> None:
        transactions.wait_for_room(601, ahead_bytes=10)
        order.append("room")

    staging = threading.Thread(target=stage)
    staging.start()
    assert waiting.wait(60)
    order.append("committed")
    transactions._end()
    staging.join(60)
    assert order == ["committed", "room"]
    second = msgspec.structs.replace(first, checkpoint=8, size_bytes=5)
    transactions._begin([first, second])  # The first is listed again, and counts once.
    assert (transactions._taken_bytes, transactions._under_way_bytes) == (305, 5)


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
