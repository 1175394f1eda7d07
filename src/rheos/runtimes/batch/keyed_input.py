"""Shuffled rows in *generations*: whole keys, enough of them to make a batch worth processing.

Rows arrive sorted by the hash of their key, and by event time within it, so that all rows of a key are
adjacent. (Two keys with one hash form one run, which does no harm.) After the last row of a generation,
all of its keys have ended: the operator fires what is left and forgets them. So memory holds the state
of one generation, or of one key that is larger than a generation.

    hash   1 1 1 2 2 3 | 4 4 4 4 4 4 | 4 4 4 4 4 | 4 4 5 5 6 6
           generation  | a large key, in pieces          | generation
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from rheos.core.protocol.elements import TS, Batch
from rheos.core.protocol.state_config import MIB
from rheos.runtimes.batch.layout import HASH

ROWS_AT_ONCE = 1 << 19
_BYTES_AT_ONCE = 32 * MIB


class BatchBuffer:
    """A buffer that concatenates batches up to a number of rows or bytes."""

    def __init__(self, rows_at_once: int = ROWS_AT_ONCE, bytes_at_once: int = _BYTES_AT_ONCE) -> None:
        self._rows_at_once = rows_at_once
        self._bytes_at_once = bytes_at_once
        self._batches: list[Batch] = []
        self._rows = self._size_bytes = 0

    def add(self, batch: Batch) -> bool:
        """Add a batch. Return whether the buffer is full."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._size_bytes += batch.nbytes
        return self._rows >= self._rows_at_once or self._size_bytes >= self._bytes_at_once

    def __bool__(self) -> bool:
        return bool(self._batches)

    def take(self) -> list[Batch]:
        taken, self._batches = self._batches, []
        self._rows = self._size_bytes = 0
        return taken


BATCHES = 4
"""Approximate number of batches (of the job's `batch_rows`) in a generation."""

_BYTES = 64 * MIB
"""Maximum size in bytes of a generation. Wide rows make smaller generations."""


@dataclass(frozen=True, slots=True)
class Feed:
    """The next input of the operator."""

    rows: pa.RecordBatch
    """Hashed rows, possibly none."""
    until_ms: int | None
    """Watermark after the rows, if more rows of these keys may follow and have event time. A session
    that ends where the next row begins may still accept that row, so the watermark leaves it open."""
    ends: bool
    """Whether all keys so far have ended."""


class Generations:
    """A divider of sorted rows into generations."""

    def __init__(self, timed: bool, generation_rows: int) -> None:
        """Begin without rows. `timed` is whether rows have event time."""
        self._timed = timed
        self._most = self._enough = generation_rows
        self._waiting: list[pa.RecordBatch] = []
        self._count = 0
        self._large: int | None = None
        """Hash of the large key of which some pieces were fed."""

    def take(self, rows: pa.RecordBatch) -> Iterator[Feed]:
        """Take sorted rows, and yield the input that is complete."""
        if rows.num_rows:
            self._enough = min(self._most, max(_BYTES * rows.num_rows // rows.nbytes, 2))
        for begin in range(0, rows.num_rows, self._enough):
            self._waiting.append(rows.slice(begin, self._enough))
            self._count += self._waiting[-1].num_rows
            if self._count >= self._enough:
                yield from self._cut()

    def end(self) -> Iterator[Feed]:
        """Yield the remaining input. Called after the last row."""
        if self._waiting:
            rows, begin = self._take_waiting(), 0
            if self._large is not None:
                begin = self._end_of_large(rows)
                yield Feed(rows.slice(0, begin), None, ends=True)
            yield Feed(rows.slice(begin), None, ends=True)

    def _cut(self) -> Iterator[Feed]:
        rows = self._take_waiting()
        hashes = rows.column(HASH).to_numpy()
        begin = 0
        if self._large is not None:
            begin = self._end_of_large(rows)
            if begin < len(hashes):
                yield Feed(rows.slice(0, begin), None, ends=True)
                self._large = None
            else:
                begin = 0
        if len(hashes) - begin >= self._enough:
            last = int(hashes.searchsorted(hashes[-1], side="left"))
            if last > begin:
                yield Feed(rows.slice(begin, last - begin), None, ends=True)
                begin = last
            else:
                # Keep the last row back, so that the key's end is fed together with a row.
                last = len(hashes) - 1
                self._large = int(hashes[-1])
                until_ms = rows.column(TS)[last].as_py() - 2 if self._timed else None
                yield Feed(rows.slice(begin, last - begin), until_ms, ends=False)
                begin = last
        left = rows.slice(begin)
        if begin > left.num_rows:
            # Copy: a slice would keep all rows in memory.
            left = pa.concat_batches([left, left.slice(0, 0)])
        self._waiting, self._count = [left], left.num_rows

    def _end_of_large(self, rows: pa.RecordBatch) -> int:
        """Return the number of leading rows that have the large key."""
        return int(rows.column(HASH).to_numpy().searchsorted(self._large, side="right"))

    def _take_waiting(self) -> pa.RecordBatch:
        waiting, self._waiting, self._count = self._waiting, [], 0
        return waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
