"""State of one partition: its buffered rows, and the reader that emits them. A queue of chunks connects
the thread that reads ahead to the mailbox.

A position is the offset of the next record, and the number of its rows that were already returned: a
payload may contain several rows (Arrow), and a batch may end between them. Offsets have gaps where
records were compacted, and at transaction markers. So positions are never computed by counting rows;
each is an offset that the broker has sent.
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
from rheos.core.connectors.rejected_records import SKIPPED, BadRecord, rejected_rows, rejected_schema
from rheos.core.protocol.elements import Batch

if TYPE_CHECKING:
    from rheos.connectors.kafka.consumer import TopicConsumer

REJECTED = rejected_schema(
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
)
_ROW_BYTES = 64
"""Minimum size of a row, with its offset and its share of the overhead."""


class PartitionSplit(msgspec.Struct, frozen=True, array_like=True):
    """Payload of a split."""

    topic: str
    partition: int
    topic_id: str
    first: int
    """Offset of the first record available when the partition was discovered."""
    start: int
    end: int | None = None
    """Exclusive end offset."""

    @property
    def id(self) -> str:
        return f"{self.topic}/{self.partition}"


class Position(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    rows: int = 0
    """Number of rows of the record at `offset` that were already returned."""

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, position: bytes) -> Position:
        return msgspec.msgpack.decode(position, type=Position)


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Consecutive decoded records of one partition."""

    rows: Batch
    offsets: npt.NDArray[np.int64]
    """Offset of the record of each row."""
    bad: Sequence[tuple[int, BadRecord]]
    """Rejected records with their offsets."""
    after: int
    """Offset after the last record."""
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
        """Concatenate consecutive chunks."""
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
    """State of a partition that the reading thread and the mailbox share."""

    def __init__(self, split: PartitionSplit, start: int, now: int | None = None) -> None:
        """Create the state. `now` is the offset at which a run as of now stops."""
        self.split = split
        self.end = min((end for end in (split.end, now) if end is not None), default=None)
        """Exclusive end offset; None if the partition is read without end."""
        self.next = start
        """Smallest offset that was not read yet. Only the thread uses it."""
        self.finished = self.end is not None and start >= self.end
        """Whether no chunk will be added any more."""
        self.high: int | None = None
        """Offset after the partition's last record, as last reported by the broker. Set by the
        thread."""
        self.paused = False
        self.chunks: deque[RecordChunk] = deque()

    @property
    def goes_on(self) -> bool:
        """Return whether a later run has to read more of this partition."""
        return self.split.end != self.end

    @property
    def partition(self) -> Partition:
        return self.split.topic, self.split.partition


class PartitionReader(SplitReader):
    """Reader that returns the chunks of one partition."""

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
        """Offsets of the rows that `poll` returned last."""

    def poll(self, max_rows: int) -> Polled:
        self._consumer.report()
        chunk = self._chunk
        if chunk is None:
            # Must be read before the chunks: a finished partition gets no more of them.
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
        """Return the buffered rows as one chunk of up to a batch: a reader that lags gets large
        batches, and catches up."""
        waiting = self._feed.chunks
        taken = [waiting.popleft()]
        rows = taken[0].rows.num_rows
        while waiting and rows + waiting[0].rows.num_rows <= max_rows:
            taken.append(waiting.popleft())
            rows += taken[-1].rows.num_rows
        return RecordChunk.joined(taken)

    def _given_before(self, chunk: RecordChunk) -> int:
        """Return how many of the chunk's first rows were already returned before a restore."""
        rows = self._position.rows
        return min(rows, int(np.searchsorted(chunk.offsets, self._position.offset, side="right")))

    def _reject(self, chunk: RecordChunk, before: int) -> None:
        """Reject the bad records before the offset that were not rejected yet. They are rejected
        together with the rows around them, so that positions cover both."""
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
        # A finished partition gets no more chunks.
        return self._feed.finished and not self._feed.chunks and self._chunk is None

    def lag_rows(self) -> int | None:
        """Return the lag in offsets, some of which may have no record."""
        high, end = self._feed.high, self._feed.split.end
        if high is None:
            return None
        return max((high if end is None else min(high, end)) - self._position.offset, 0)

    def close(self) -> None:
        self._consumer.leave(self._feed)
