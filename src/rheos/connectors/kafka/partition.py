"""One partition that is read: what is known of it, its rows that wait, and the reader that hands them
out. Between the thread that reads ahead and the mailbox lies a queue of chunks.

A position is the offset of the record that comes next, and how many of its rows were given already:
a payload may hold several (Arrow), and a batch may end between them. Offsets have holes, where records
were compacted away and where transactions have their marks; so no position is ever counted, each is
an offset that the broker has said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.connectors.kafka.bounds import Partition
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    RowPlaces,
    SplitReader,
)
from rheos.core.connectors.rejected import SKIPPED, BadRecord, rejected_rows, rejected_schema
from rheos.core.protocol.elements import Batch

if TYPE_CHECKING:
    from rheos.connectors.kafka.consumer import TopicConsumer

REJECTED = rejected_schema(
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
)
_ROW_BYTES = 64
"""What a row takes at least, with its offset and its share of what is around it."""


class PartitionSplit(msgspec.Struct, frozen=True, array_like=True):
    """The payload of a split."""

    topic: str
    partition: int
    topic_id: str
    first: int
    """Of the records that were there when it was found."""
    start: int
    end: int | None = None
    """Exclusive."""

    @property
    def id(self) -> str:
        return f"{self.topic}/{self.partition}"


class Position(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    rows: int = 0
    """Of the record at the offset, given already."""

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, position: bytes) -> Position:
        return msgspec.msgpack.decode(position, type=Position)


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Decoded records of one partition, one after the other."""

    rows: Batch
    offsets: npt.NDArray[np.int64]
    """Of each row's record."""
    bad: Sequence[tuple[int, BadRecord]]
    """With their offsets."""
    after: int
    """The offset behind all of them."""
    size_bytes: int

    @classmethod
    def of(
        cls,
        rows: Batch,
        offsets: npt.NDArray[np.int64],
        bad: Sequence[tuple[int, BadRecord]],
        after: int,
    ) -> RecordChunk:
        held: int = rows.nbytes
        return cls(rows, offsets, bad, after, held + _ROW_BYTES * (rows.num_rows + len(bad)))

    @classmethod
    def joined(cls, chunks: Sequence[RecordChunk]) -> RecordChunk:
        """One chunk of those that follow one another."""
        if len(chunks) == 1:
            return chunks[0]
        return cls(
            pa.concat_batches([chunk.rows for chunk in chunks]),
            np.concatenate([chunk.offsets for chunk in chunks]),
            [bad for chunk in chunks for bad in chunk.bad],
            chunks[-1].after,
            sum(chunk.size_bytes for chunk in chunks),
        )


class PartitionFeed:
    """What the reading thread and the mailbox share of a partition."""

    def __init__(self, split: PartitionSplit, start: int, now: int | None = None) -> None:
        """`now` is where a run as of now stops, though the partition goes on."""
        self.split = split
        self.end = min((end for end in (split.end, now) if end is not None), default=None)
        """Nothing from here on is read."""
        self.next = start
        """The least offset that was not read yet. The thread's alone."""
        self.finished = self.end is not None and start >= self.end
        """Nothing will be added to the chunks."""
        self.high: int | None = None
        """The offset behind the last record that the broker has said there is. The thread sets it."""
        self.paused = False
        self.chunks: deque[RecordChunk] = deque()

    @property
    def goes_on(self) -> bool:
        """Whether a later run has something to read of it."""
        return self.split.end != self.end

    @property
    def partition(self) -> Partition:
        return self.split.topic, self.split.partition


class PartitionReader(SplitReader):
    """Hands out the chunks of one partition."""

    def __init__(
        self,
        feed: PartitionFeed,
        begin: Position,
        ctx: ReaderContext,
        consumer: TopicConsumer,
    ) -> None:
        self._feed = feed
        self._ctx = ctx
        self._consumer = consumer
        self._position = begin
        self._chunk: RecordChunk | None = None
        self._row = 0
        self._bad = 0
        self._given = np.empty(0, np.int64)
        """The offsets of the rows that were given last."""

    def poll(self, max_rows: int) -> Polled:
        self._consumer.report()
        chunk = self._chunk
        if chunk is None:
            # Looked at first: what is finished gets no more chunks.
            finished = self._feed.finished
            if not self._feed.chunks:
                return EndOfSplit() if finished and not self._feed.goes_on else Pending()
            chunk = self._chunk = self._next(max_rows)
            self._row, self._bad = self._given_before(chunk), 0
        begin, self._row = self._row, min(self._row + max_rows, chunk.rows.num_rows)
        self._given = chunk.offsets[begin : self._row]
        if self._row < chunk.rows.num_rows:
            offset = int(chunk.offsets[self._row])
            first = int(np.searchsorted(chunk.offsets, offset))
            self._position = Position(offset, self._row - first)
            self._reject(chunk, offset)
        else:
            self._position = Position(chunk.after)
            self._reject(chunk, chunk.after)
            self._chunk = None
            self._consumer.taken(chunk)
        return chunk.rows.slice(begin, self._row - begin)

    def _next(self, max_rows: int) -> RecordChunk:
        """What waits, as one chunk as far as a batch goes: who is behind gets large batches, and
        catches up."""
        waiting = self._feed.chunks
        taken = [waiting.popleft()]
        rows = taken[0].rows.num_rows
        while waiting and rows + waiting[0].rows.num_rows <= max_rows:
            taken.append(waiting.popleft())
            rows += taken[-1].rows.num_rows
        return RecordChunk.joined(taken)

    def _given_before(self, chunk: RecordChunk) -> int:
        """How many of the chunk's first rows were given before a restore."""
        rows = self._position.rows
        return min(rows, int(np.searchsorted(chunk.offsets, self._position.offset, side="right")))

    def _reject(self, chunk: RecordChunk, before: int) -> None:
        """The bad records before the offset that were not given yet: with the rows that they lie among,
        so that a position says of them what it says of rows."""
        bad = []
        while self._bad < len(chunk.bad) and chunk.bad[self._bad][0] < before:
            bad.append(chunk.bad[self._bad])
            self._bad += 1
        if bad:
            topic, partition = self._feed.partition
            place: list[list[Any]] = [
                [topic] * len(bad),
                [partition] * len(bad),
                [offset for offset, _ in bad],
            ]
            self._ctx.count(SKIPPED, len(bad))
            self._ctx.reject(rejected_rows(REJECTED, place, [record for _, record in bad]))

    def position(self) -> bytes:
        return self._position.encode()

    def places(self) -> RowPlaces:
        return RowPlaces("offset", self._given.tolist())

    def has_caught_up(self) -> bool:
        # What is finished gets no more chunks.
        return self._feed.finished and not self._feed.chunks and self._chunk is None

    def lag_rows(self) -> int | None:
        """Offsets, of which some may have no record."""
        high, end = self._feed.high, self._feed.split.end
        if high is None:
            return None
        return max((high if end is None else min(high, end)) - self._position.offset, 0)

    def close(self) -> None:
        self._consumer.leave(self._feed)
