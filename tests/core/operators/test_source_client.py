"""Client shared by the readers of one subtask: created once, closed last, notified of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import rheos as rh
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    Source,
    SourceClient,
    Split,
    SplitReader,
)
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.source import SourceOperator, SourceSpec
from rheos.core.operators.source_client import NOTICES_FAILED
from rheos.core.protocol.ids import CheckpointId
from rheos.testing import Faults, simulate
from tests.connectors.ports import HeldIo
from tests.core.operators.contexts import context

SCHEMA = pa.schema([("topic", pa.string()), ("n", pa.int64())])

STORY: list[Any] = []
"""What has happened to the clients of a test, in order."""


class Client(SourceClient):
    """Client that has the rows of all partitions, as a consumer does, and records its notifications."""

    def __init__(self, ctx: ReaderContext, topics: Mapping[str, int]) -> None:
        self.ctx = ctx
        self.left = dict(topics)
        self.fails = False

    def completed(self, positions: Mapping[str, bytes]) -> None:
        if self.fails:
            raise OSError("no broker")
        STORY.append({id: int(position) for id, position in positions.items()})

    def close(self) -> None:
        STORY.append("client closed")


class Topics(Source):
    """Splits with this number of rows each; a client returns them one by one."""

    schema = SCHEMA
    bounded = True

    def __init__(self, **topics: int) -> None:
        self.topics = topics

    def splits(self) -> Sequence[Split]:
        return [Split(name) for name in self.topics]

    def client(self, ctx: ReaderContext) -> SourceClient:
        assert ctx.client is None
        STORY.append("client made")
        return Client(ctx, self.topics)

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        assert isinstance(ctx.client, Client)
        STORY.append(f"{split.id} opened")
        return Reader(ctx.client, split.id, int(position or 0))


class Reader(SplitReader):
    def __init__(self, client: Client, topic: str, row: int) -> None:
        self.client, self.topic, self.row = client, topic, row

    def poll(self, max_rows: int) -> Polled:
        if self.row == self.client.left[self.topic]:
            return EndOfSplit()
        self.row += 1
        return pa.RecordBatch.from_pydict({"topic": [self.topic], "n": [self.row]}, schema=SCHEMA)

    def position(self) -> bytes:
        return b"%d" % self.row

    def close(self) -> None:
        STORY.append(f"{self.topic} closed")


def opened(source: Source, io: Any) -> SourceOperator:
    STORY.clear()
    ctx = context(SCHEMA, {MAIN: SCHEMA})
    ctx.io = io
    made = SourceOperator(ctx, SourceSpec(source, None), source.splits())
    made.open({})
    return made


def test_the_readers_of_a_subtask_share_a_client_from_the_first_to_the_last() -> None:
    op = opened(Topics(a=1, b=2), HeldIo())
    assert STORY == []
    op.poll(10)
    assert STORY == ["client made", "a opened", "b opened"]
    op.poll(10)
    op.close()
    assert STORY[3:] == ["a closed", "b closed", "client closed"]


def test_a_subtask_without_splits_makes_no_client() -> None:
    op = opened(Topics(), HeldIo())
    op.poll(10)
    op.close()
    assert STORY == []


def test_a_client_is_notified_of_positions_outside_the_mailbox() -> None:
    io = HeldIo()
    op = opened(Topics(a=5, b=5), io)
    op.poll(10)
    op.snapshot(CheckpointId(1))
    op.poll(10)
    op.completed(CheckpointId(1))
    assert STORY == ["client made", "a opened", "b opened"], "not in the mailbox"
    io.run()
    assert STORY[3:] == [{"a": 1, "b": 1}]


def test_notifications_are_sent_one_at_a_time_and_only_the_newest() -> None:
    io = HeldIo()
    op = opened(Topics(a=9), io)
    for checkpoint in range(1, 5):
        op.poll(10)
        op.snapshot(CheckpointId(checkpoint))
    op.completed(CheckpointId(1))
    op.completed(CheckpointId(2))
    op.completed(CheckpointId(4))
    assert len(io.held) == 1
    io.run()
    op.poll(10)
    io.run()
    assert STORY[2:] == [{"a": 1}, {"a": 4}]


def test_a_failed_notification_is_counted_and_the_next_is_sent() -> None:
    io = HeldIo()
    op = opened(Topics(a=9), io)
    for checkpoint, fails in ((1, True), (2, False)):
        op.poll(10)
        op._client.client.fails = fails  # type: ignore[union-attr]
        op.snapshot(CheckpointId(checkpoint))
        op.completed(CheckpointId(checkpoint))
        io.run()
    assert STORY[2:] == [{"a": 2}]
    assert op.ctx.counters == {NOTICES_FAILED: 1}


def test_a_pending_notification_is_sent_before_the_client_is_closed() -> None:
    op = opened(Topics(a=9), HeldIo())
    op.poll(10)
    op.snapshot(CheckpointId(1))
    op.completed(CheckpointId(1))  # Its executor is closed, and never begins it.
    op.close()
    assert STORY[2:] == ["a closed", {"a": 1}, "client closed"]


def test_nothing_is_kept_of_aborted_checkpoints() -> None:
    op = opened(Topics(a=9), HeldIo())
    op.poll(10)
    for checkpoint in range(1, 8):
        op.snapshot(CheckpointId(checkpoint))
    op.completed(CheckpointId(7))
    assert op._client is not None
    assert not op._client._held


def test_a_reader_wakes_the_mailbox_from_any_thread() -> None:
    io = HeldIo()

    class Waking(Topics):
        def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
            ctx.wake()
            return super().open(split, position, ctx)

    opened(Waking(a=1), io).poll(10)
    assert io.woken == 1


def test_each_part_of_a_hybrid_has_its_client() -> None:
    io = HeldIo()
    op = opened(rh.hybrid(Topics(a=1), Topics(b=2)), io)
    while STORY[-1:] != ["b opened"]:
        op.poll(10)
    op.snapshot(CheckpointId(1))
    op.completed(CheckpointId(1))
    io.run()
    op.close()
    made = ["client made", "a opened", "a closed", "client made", "b opened"]
    assert STORY[:5] == made
    assert sorted(STORY[5:7], key=str) == [{"a": 1}, {"b": 1}]
    assert STORY[7:] == ["b closed", "client closed", "client closed"]


def test_a_hybrid_passes_known_splits_to_each_part() -> None:
    class Latest(Topics):
        """Source that begins unknown splits at the earliest row, and known ones where they were."""

        def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
            return [Split(split.id, known.get(split.id, b"earliest")) for split in splits]

    source = rh.hybrid(Topics(a=1), Latest(b=1, c=1))
    of_b = source.splits()[1]
    resumed = source.resumed(source.splits(), {of_b.id: of_b.payload})
    assert [(split.id, split.phase) for split in resumed] == [("0/a", 0), ("1/b", 1), ("1/c", 1)]
    assert resumed[1] == of_b
    assert resumed[2].payload != source.splits()[2].payload


def test_notifications_are_only_about_checkpoints_in_the_log() -> None:
    """Check that at the end, the client knows all positions of the final checkpoint."""
    STORY.clear()
    done = simulate(
        lambda env: {"rows": env.from_source(Slow(a=40, b=30, c=20)).select("topic", "n")},
        parallelism=2,
        faults=Faults(crash_slot=2.0, until_us=800_000),
    )
    assert done.rows["rows"].num_rows == 90
    notices = [entry for entry in STORY if isinstance(entry, dict)]
    assert len(notices) > 2
    for topic, rows in {"a": 40, "b": 30, "c": 20}.items():
        seen = [notice[topic] for notice in notices if topic in notice]
        assert seen == sorted(seen)
        assert seen[-1] == rows


class Slow(Topics):
    """Source that emits a row each 20 ms."""

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        assert isinstance(ctx.client, Client)
        return SlowReader(ctx.client, split.id, int(position or 0))


class SlowReader(Reader):
    next_us = 0

    def poll(self, max_rows: int) -> Polled:
        now_us = self.client.ctx.clock.monotonic_us()
        if now_us < self.next_us:
            return Pending(self.next_us - now_us)
        self.next_us = now_us + 20_000
        return super().poll(max_rows)
