"""Split reader that reads a file in chunks on the I/O executor, one chunk ahead.

A decoder turns a file into chunks; `ChunkReader` is the split reader around it. In a chunk, *raw* rows
are those of the file (lines, Parquet rows), of which some may be rejected. A position always refers to
a raw row, so a restored reader repeats neither rows nor rejected rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.connectors.replay import Pacer
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    RowPlaces,
    SplitReader,
)
from rheos.core.connectors.rejected_records import (
    SKIPPED,
    BadRecord,
    bad_record,
    rejected_rows,
    rejected_schema,
)
from rheos.core.errors import InputError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ports import Completion
from rheos.core.times import TimeColumn

REJECTED = rejected_schema(
    pa.field("file", pa.string(), nullable=False), pa.field("line", pa.int64(), nullable=False)
)
"""Columns of the side output of rejected rows. `line` counts from 1; in Parquet it is the row."""


class BadRow(NamedTuple):
    raw: int
    """Index of the row among the raw rows of its chunk."""
    line: int
    record: BadRecord


@dataclass(frozen=True)
class Chunk:
    batch: Batch
    """Rows that fit the schema."""
    good: npt.NDArray[np.int64] | None
    """Index among the raw rows of each row of `batch`; None if no row was rejected."""
    raw_rows: int
    rejected: Sequence[BadRow]
    """Rejected rows in the order of the file."""
    position: Callable[[int], bytes]
    """Function that returns the position before a raw row, or the position at the chunk's end."""
    line: Callable[[int], int]
    """Function that returns the line number of a raw row, counted from 1 over the file."""

    def raw_after(self, rows: int) -> int:
        """Return the number of raw rows up to the first `rows` good ones, inclusive."""
        if rows == self.batch.num_rows:
            return self.raw_rows
        return rows if self.good is None else int(self.good[rows])

    def whole_raw_rows(self, begin: int, rows: int) -> int:
        """Return how many rows from `begin` to hand out, about `rows`, so that none of a raw row are
        left: a position is between two raw rows.
        """
        end = begin + rows
        if self.good is None or end >= self.batch.num_rows or self.good[end - 1] != self.good[end]:
            return rows
        first, after = map(int, np.searchsorted(self.good, [self.good[end], self.good[end] + 1]))
        return (first if first > begin else after) - begin


class ChunkDecoder(ABC):
    """Reads a file from a position on. Calls run one at a time, on the I/O executor."""

    counts: str = "line"
    """Unit that `Chunk.line` counts."""

    @abstractmethod
    def read(self) -> Chunk | None:
        """Return the next chunk, or None at the end. Raises InputError."""

    @abstractmethod
    def close(self) -> None:
        """Close the file. Called on any thread; may wait for a `read` that is still running."""


class EndedReader(SplitReader):
    """Reader of a split that has no rows to return."""

    def __init__(self, position: bytes) -> None:
        self._position = position

    def poll(self, max_rows: int) -> Polled:
        return EndOfSplit()

    def position(self) -> bytes:
        return self._position


class ChunkReader(SplitReader):
    """Reader that returns the rows of a decoder's chunks. With a replay, each row waits until it is
    due."""

    def __init__(
        self,
        path: str,
        decoder: ChunkDecoder,
        start: bytes,
        ctx: ReaderContext,
        replay_on: TimeColumn | None = None,
        speed: Completion[float] | None = None,
    ) -> None:
        self._path = path
        self._decoder = decoder
        self._position = start
        self._ctx = ctx
        self._replay_on = replay_on
        self._speed = speed
        self._pacer: Pacer | None = None
        self._coming: Completion[Chunk | None] | None = None
        self._chunk: Chunk | None = None
        self._row = 0
        self._rejected = 0
        self._given: tuple[Chunk, int, int] | None = None
        """Chunk whose rows `poll` returned last, and the range of these rows."""

    def poll(self, max_rows: int) -> Polled:
        if self._speed is not None and self._pacer is None:
            if not self._speed.done():
                return Pending()
            self._pacer = Pacer(self._ctx.clock, self._speed.result())
        while True:
            if self._chunk is None:
                if self._coming is None:
                    self._coming = self._ctx.io.submit(self._decoder.read)
                if not self._coming.done():
                    return Pending()
                chunk = self._coming.result()
                self._coming = None
                if chunk is None:
                    return EndOfSplit()
                self._take(chunk)
            assert self._chunk is not None
            left = self._chunk.batch.num_rows - self._row
            if left:
                return self._hand_out(self._chunk, min(left, max_rows))
            self._advance(self._chunk, 0)
            self._chunk = None

    def _take(self, chunk: Chunk) -> None:
        self._chunk, self._row, self._rejected = chunk, 0, 0
        self._coming = self._ctx.io.submit(self._decoder.read)
        if self._pacer is not None and self._replay_on is not None:
            on = self._replay_on
            self._pacer.load(on.timestamps(chunk.batch.column(on.name)))

    def _hand_out(self, chunk: Chunk, rows: int) -> Polled:
        if self._pacer is not None:
            due, wait_us = self._pacer.due(self._row)
            if not due:
                return Pending(wait_us)
            rows = min(rows, due)
        rows = chunk.whole_raw_rows(self._row, rows)
        batch = chunk.batch.slice(self._row, rows)
        self._given = chunk, self._row, self._row + rows
        self._advance(chunk, rows)
        return batch

    def _advance(self, chunk: Chunk, rows: int) -> None:
        """Move the position by `rows` good rows, and emit the rejected rows before it."""
        self._row += rows
        raw = chunk.raw_after(self._row)
        self._position = chunk.position(raw)
        end = self._rejected
        while end < len(chunk.rejected) and chunk.rejected[end].raw < raw:
            end += 1
        if end > self._rejected:
            bad = chunk.rejected[self._rejected : end]
            self._rejected = end
            self._ctx.count(SKIPPED, len(bad))
            place: list[list[Any]] = [[self._path] * len(bad), [row.line for row in bad]]
            self._ctx.reject(rejected_rows(REJECTED, place, [row.record for row in bad]))

    def position(self) -> bytes:
        return self._position

    def places(self) -> RowPlaces | None:
        if self._given is None:
            return None
        chunk, begin, end = self._given
        raw = range(begin, end) if chunk.good is None else chunk.good[begin:end].tolist()
        return RowPlaces(self._decoder.counts, [chunk.line(row) for row in raw])

    def close(self) -> None:
        self._decoder.close()


def bad_row(path: str, row: BadRow, place: str = "") -> InputError:
    """Return the error for a row that does not fit the schema, for sources that do not skip bad
    rows."""
    record = row.record._replace(error=row.record.error + place)
    return bad_record(f"{path}:{row.line}", record)
