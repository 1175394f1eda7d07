"""Order in which a table's blocks and its log are read.

block 1 ── log up to block 2's place ── block 2 ── ... ── last block ── log from there on

Each block is exact as of its place in the log. Of the log before that place, only changes of keys that
were emitted are read: the block contains the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec
import pyarrow as pa

from rheos.connectors.chunk_buffer import BufferedChunk, ChunkBuffer
from rheos.connectors.mysql.binlog_events import LoggedEvent, MalformedEventError
from rheos.connectors.mysql.binlog_position import BinlogPosition, Key, LogPlace
from rheos.connectors.mysql.binlog_translation import BinlogTranslation
from rheos.connectors.mysql.snapshot_blocks import TableBlock
from rheos.connectors.mysql.table_rows import TableRows, snapshot_batch
from rheos.connectors.schema_changes import SchemaChange

CHUNK_ROWS = 8192
_CHUNK_BYTES = 4 << 20
_GIVE_EVERY_S = 0.1
_PROGRESS_EVERY_S = 1.0


class EventStream(Protocol):
    """Events of the log from a place on."""

    def next(self) -> LoggedEvent:
        """Wait for the next event, and return it. An idle server sends heartbeats."""

    def close(self) -> None:
        """End the stream."""


class LogServer(Protocol):
    """Server of a table and of its log. Its methods raise UnavailableError."""

    def checked(self, at: BinlogPosition) -> BinlogPosition:
        """Check that the log continues a position."""

    def block(self, upto: Key | None) -> TableBlock:
        """Read the block of rows after a key."""

    def stream(self, place: LogPlace) -> EventStream:
        """Open a stream of the events after a place."""

    def close(self) -> None:
        """Close connections. A later call opens them again."""


@dataclass
class _Log:
    """A stream with its translation."""

    stream: EventStream
    translation: BinlogTranslation


class LogReading:
    """Reading of a table and of its log into a buffer.

    Args:
        of: the rows. server: the server.
        buffer: where the rows go.
        at: position to begin at.
        end: place in the log at which the source ends; None if it never ends.
        now_s: clock, by which collected changes are given.
    """

    def __init__(
        self,
        of: TableRows,
        server: LogServer,
        buffer: ChunkBuffer,
        at: BinlogPosition,
        end: LogPlace | None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now_s = now_s
        self._of = of
        self._server = server
        self._buffer = buffer
        self._end = end
        self.at = at
        """Position up to which everything was given."""
        self.awaited: SchemaChange | None = None
        """Change of the table for which the program must start again, at this position."""
        self._progress = at
        """Last position that was given with a chunk."""
        self._progress_at_s = 0.0

    @property
    def is_finished(self) -> bool:
        """Whether the end of the source was reached."""
        at = self.at
        return self._end is not None and not at.in_snapshot and at.place.order >= self._end.order

    def read_on(self) -> None:
        """Read from the current position until the end, or until the buffer is closed.

        Raises:
            UnavailableError: The server is unreachable; a later call continues.
            MalformedEventError: The log cannot be read.
        """
        self.at = self._server.checked(self.at)
        log: _Log | None = None
        try:
            while self.at.in_snapshot and self._buffer.wait_until_room():
                block = self._server.block(self.at.upto)
                if not self.at.place.file:
                    self.at = msgspec.structs.replace(self.at, place=block.place)
                if self.at.place.order < block.place.order:
                    log = log or self._opened()
                    if not self._follow(log, block.place):
                        return
                if self.at.place.order != block.place.order:
                    raise MalformedEventError(f"no transaction ends at {block.place}")
                self._give_block(block)
                if log is not None:
                    log.translation.emitted(self.at)
            self._server.close()
            if not self._buffer.is_closing and not self.is_finished:
                self._follow(log := log or self._opened(), self._end)
        finally:
            if log is not None:
                log.stream.close()
            self._server.close()

    def _opened(self) -> _Log:
        return _Log(self._server.stream(self.at.place), BinlogTranslation(self._of, self.at))

    def _follow(self, log: _Log, end: LogPlace | None) -> bool:
        """Read the changes of the log up to a place. Returns False if the buffer was closed, or if the
        program must start again."""
        translation, given_at_s = log.translation, self._now_s()
        while end is None or translation.place.order < end.order:
            if not self._buffer.wait_until_room():
                return False
            event = log.stream.next()
            if translation.divides(event):
                self._give_changes(translation)
            translation.take(event)
            if translation.awaited is not None:
                self._give_changes(translation)
                self.awaited = translation.awaited
                return False
            is_full = translation.rows >= CHUNK_ROWS or translation.size_bytes >= _CHUNK_BYTES
            if is_full or self._now_s() - given_at_s >= _GIVE_EVERY_S:
                self._give_changes(translation)
                given_at_s = self._now_s()
        self._give_changes(translation)
        return True

    def _give_changes(self, translation: BinlogTranslation) -> None:
        position = translation.position()
        if translation.rows:
            run, after = translation.taken()
            chunk = BufferedChunk(run.batch(), lambda row: after[row - 1], position)
        elif position != self._progress and self._now_s() >= self._progress_at_s:
            # Later events are changes of other tables: a restart need not read them again.
            chunk = BufferedChunk(_no_rows(self._of), lambda row: position, position)
        else:
            self.at = position
            return
        self._buffer.give(chunk)
        self._progress_at_s = self._now_s() + _PROGRESS_EVERY_S
        self.at = self._progress = position

    def _give_block(self, block: TableBlock) -> None:
        """Give a block of the snapshot. The log was read up to its place."""
        of, before = self._of, self.at

        def at(row: int) -> BinlogPosition:
            return msgspec.structs.replace(before, upto=of.key_of(block.rows[row - 1]))

        if block.is_last:
            after = msgspec.structs.replace(before, in_snapshot=False, upto=None)
        else:
            after = at(len(block.rows))
        rows = snapshot_batch(of, block.rows, block.place, time.time_ns() // 1000)
        self._buffer.give(BufferedChunk(rows, at, after))
        self.at = self._progress = after


def _no_rows(of: TableRows) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], of.schema())
