"""Positions of a reader, over chunks with gaps, several rows per record, and bad records."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from rheos.connectors.kafka.consumer import TopicConsumer
from rheos.connectors.kafka.partition import (
    PartitionFeed,
    PartitionReader,
    PartitionSplit,
    Position,
    RecordChunk,
)
from rheos.core.connectors.contract import EndOfSplit, Pending
from rheos.core.connectors.rejected_records import BadRecord
from tests.connectors.ports import Probe

SPLIT = PartitionSplit("orders", 3, "", 0, 0, None)
OFFSETS = [2, 2, 2, 5, 5, 9, 10, 30]
"""Of the records of eight rows: 3, 4 and 11 to 29 are marks of transactions, or compacted away."""
BAD = [1, 6, 7, 31, 32]


class Consumer:
    """Stand-in for the thread that reads ahead."""

    def __init__(self) -> None:
        self.handed_out: list[RecordChunk] = []

    def taken(self, chunk: RecordChunk) -> None:
        self.handed_out.append(chunk)

    def report(self) -> None:
        pass

    def leave(self, feed: PartitionFeed) -> None:
        feed.finished = True


def chunk(begin: int, end: int, first: int, after: int) -> RecordChunk:
    """Return a chunk of rows begin to end, with the bad records of the offsets first to after."""
    bad = [(offset, BadRecord("x", b"x", "no")) for offset in BAD if first <= offset < after]
    rows = pa.RecordBatch.from_pydict({"row": pa.array(range(begin, end), pa.int64())})
    return RecordChunk.of(rows, np.array(OFFSETS[begin:end], np.int64), bad, after)


def reader(begin: Position, *chunks: RecordChunk) -> tuple[PartitionReader, Probe, PartitionFeed]:
    probe, consumer = Probe(), Consumer()
    feed = PartitionFeed(SPLIT, begin.offset)
    feed.chunks += chunks
    feed.finished = True
    made = PartitionReader(feed, begin, probe.context(), cast("TopicConsumer", consumer))
    return made, probe, feed


def given(reader: PartitionReader, max_rows: int, polls: int | None = None) -> list[int]:
    rows: list[int] = []
    while polls is None or polls > 0:
        polled: Any = reader.poll(max_rows)
        if isinstance(polled, EndOfSplit):
            break
        rows += polled["row"].to_pylist()
        polls = None if polls is None else polls - 1
    return rows


def from_broker(begin: Position) -> list[RecordChunk]:
    """Return the records from an offset on, in chunks that are cut at offset 9."""
    first = int(np.searchsorted(OFFSETS, begin.offset))
    if begin.offset < 9:
        return [chunk(first, 5, begin.offset, 9), chunk(5, 8, 9, 33)]
    return [chunk(first, 8, begin.offset, 33)]


@pytest.mark.parametrize("max_rows", [1, 2, 3, 8])
def test_every_position_resumes_exactly_and_bad_records_come_once(max_rows: int) -> None:
    for polls in range(9):
        first, probe, _ = reader(Position(0), *from_broker(Position(0)))
        head = given(first, max_rows, polls)
        begin = Position.decode(first.position())
        second, later, _ = reader(begin, *from_broker(begin))
        assert head + given(second, max_rows) == list(range(8)), (polls, begin)
        rejected = [row["offset"] for row in probe.rejected + later.rejected]
        assert rejected == BAD, (polls, begin)


def test_a_position_within_a_record_is_its_offset_and_its_rows() -> None:
    made, _, _ = reader(Position(0), chunk(0, 8, 0, 31))
    positions = []
    for _ in range(8):
        given(made, 1, 1)
        positions.append(Position.decode(made.position()))
    assert [(each.offset, each.rows) for each in positions] == [
        (2, 1), (2, 2), (5, 0), (5, 1), (9, 0), (10, 0), (30, 0), (31, 0)
    ]  # fmt: skip


@pytest.mark.parametrize("begin", [Position(0), Position(2, rows=2), Position(5, rows=1), Position(10)])
def test_rows_have_their_offsets_wherever_reading_began(begin: Position) -> None:
    made, _, _ = reader(begin, *from_broker(begin))
    places: list[tuple[int, Any]] = []
    while not isinstance(polled := made.poll(2), EndOfSplit):
        rows: list[int] = cast("Any", polled)["row"].to_pylist()
        assert made.places().unit == "offset"
        places += zip(rows, made.places().of_rows, strict=True)
    assert places == list(enumerate(OFFSETS))[places[0][0] :]


def test_a_compacted_record_does_not_hide_other_rows() -> None:
    made, _, _ = reader(Position(2, rows=1), chunk(3, 8, 2, 31))
    assert given(made, 10) == [3, 4, 5, 6, 7]


def test_a_reader_waits_until_there_is_a_chunk_or_the_end() -> None:
    made, _, feed = reader(Position(0))
    feed.finished = False
    assert isinstance(made.poll(10), Pending)
    feed.finished = True
    assert isinstance(made.poll(10), EndOfSplit)


def test_buffered_rows_are_returned_in_large_batches() -> None:
    chunks = [chunk(0, 3, 0, 5), chunk(3, 5, 5, 9), chunk(5, 8, 9, 33)]
    made, probe, _ = reader(Position(0), *chunks)
    batches: list[list[int]] = []
    while not isinstance(polled := made.poll(6), EndOfSplit):
        batches.append(cast("Any", polled)["row"].to_pylist())
    assert batches == [[0, 1, 2, 3, 4], [5, 6, 7]]
    assert [row["offset"] for row in probe.rejected] == BAD
    taken = cast("Consumer", made._consumer).handed_out
    assert sum(each.size_bytes for each in taken) == sum(each.size_bytes for each in chunks)
