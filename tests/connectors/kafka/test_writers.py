"""Writers without a broker: the limit of what they stage, and marks of idle streams."""

from __future__ import annotations

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
from rheos.core.errors import UnavailableError
from rheos.core.protocol.ids import CheckpointId
from tests.connectors.ports import ManualClock, batch_of, sink_context

SCHEMA = pa.schema({"n": pa.int64()})
DAY_US = 24 * 3600 * 1_000_000


def test_a_writer_has_room_until_too_much_is_staged_beyond_a_pending_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rheos.connectors.kafka.transactions.AHEAD_BYTES", 10)
    transactions = Transactions("w", "t", ClientOptions.of("b:9092"))
    first = StagedEpoch("w", "t", 1, 7, 0, records=1, size_bytes=300, checksums=b"")
    second = msgspec.structs.replace(first, checkpoint=8, size_bytes=5)
    staged: Any = None
    seen: list[tuple[bool, bool]] = []

    def committing(*args: Any) -> None:
        seen.append((transactions.has_room(600), transactions.has_room(601)))

    def away(*args: Any) -> None:
        raise UnavailableError("the broker is away")

    assert transactions.has_room(1000)  # The barrier of a first commit is to come.
    monkeypatch.setattr(transactions, "_commit", away)
    with pytest.raises(UnavailableError):
        transactions.commit([first], staged)
    assert not transactions.has_room(601)  # It is to be retried.
    monkeypatch.setattr(transactions, "_commit", committing)
    transactions.commit([first, second], staged)
    assert seen == [(True, False)]  # A retry of more makes no more room.
    assert transactions.has_room(1000)
    third = msgspec.structs.replace(first, checkpoint=9, size_bytes=7)
    monkeypatch.setattr(transactions, "_commit", away)
    with pytest.raises(UnavailableError):
        transactions.commit([third], staged)
    # All that the retry committed counts as taken: 300 + 5, and then 7.
    assert transactions.has_room(322)
    assert not transactions.has_room(323)


def test_an_idle_writer_renews_its_mark_each_day(
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
    clock.jump_ms = 48 * 3_600_000
    assert staged(1) == []
    clock.jump_ms = -48 * 3_600_000
    clock.us += DAY_US
    assert staged(2) == [0]
    assert staged(3) == []
    writer.write(batch_of(SCHEMA, {"n": 1}))
    assert staged(4) == [1]
    clock.us += DAY_US - 1_000_000
    assert staged(5) == []
    writer.close()


def test_the_repr_of_writers_has_no_credentials() -> None:
    options = ClientOptions.of("b:9092", {"sasl.password": "hunter2"})
    folder = "s3://key:secret@bucket/job"
    target = Target("t", options, RecordLayout(rh.formats.json()), "rheos", "fail", folder=folder)
    sink = rh.kafka.KafkaSink(target, "exactly_once")
    for shown in (repr(sink), repr(sink.committer()), sink.describe()):
        assert "hunter2" not in shown
        assert "secret" not in shown
