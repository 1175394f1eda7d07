"""Rows of messages that a broker has numbered, for readers with a `ChunkBuffer`.

A position is the number of the last message whose rows were all returned. Numbers may have gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.connectors.chunk_buffer import BufferedChunk, BufferReader, ChunkBuffer, EncodedPosition
from rheos.core.connectors.contract import ReaderContext, RowPlaces
from rheos.core.connectors.rejected_records import (
    SKIPPED,
    BadRecord,
    OnError,
    bad_record,
    rejected_rows,
)
from rheos.core.formats.contract import Decoded
from rheos.core.protocol.elements import Batch

Numbers = npt.NDArray[Any]
"""Numbers of messages: an array of int64, or of Python's integers if they may have more bits."""
_MOST_BITS = 63


def _stored(number: int | None) -> int | str | None:
    """Return a number for a position. MessagePack has integers of 64 bits."""
    if number is None or number.bit_length() <= _MOST_BITS:
        return number
    return str(number)


class MessagePosition(msgspec.Struct, frozen=True, array_like=True):
    """Position of a reader of messages."""

    after: int = 0
    """Number of the last message that was returned completely; 0 before the first one."""
    rows: int = 0
    """Number of rows of the next message that were already returned."""
    partly: int | None = None
    """Number of the next message, if some of its rows were already returned."""

    def encode(self) -> bytes:
        return msgspec.msgpack.encode((_stored(self.after), self.rows, _stored(self.partly)))

    @classmethod
    def decode(cls, position: bytes) -> MessagePosition:
        """Decode a position of a checkpoint."""
        # Long numbers were stored as strings.
        return msgspec.convert(msgspec.msgpack.decode(position), cls, strict=False)


@dataclass(frozen=True)
class MessageChunk(BufferedChunk):
    """Rows of consecutive messages."""

    numbers: Numbers = field(kw_only=True)
    """Number of each message."""
    origin: npt.NDArray[np.int64] = field(kw_only=True)
    """Index in `numbers` of the message that contains each row."""
    bad: Sequence[tuple[int, BadRecord]] = field(kw_only=True)
    """Rejected messages, by their index in `numbers`."""


def message_chunk(
    name: str,
    numbers: Numbers,
    decoded: Decoded,
    rows: Batch,
    before: MessagePosition,
    on_error: OnError,
) -> MessageChunk:
    """Return a chunk of messages.

    Args:
        name: name of the stream, for errors.
        numbers: ascending numbers of the messages, of which there is at least one.
        decoded: what their payloads were decoded to.
        rows: the decoded rows, with further columns.
        before: position before the first message. Rows of it that were returned are left out.
        on_error: what to do with a message that was not decoded.

    Returns:
        The chunk.

    Raises:
        InputError: A message could not be decoded, and `on_error` is "fail".
    """
    bad = [(each.at, BadRecord.of(each)) for each in decoded.bad]
    if bad and on_error == "fail":
        raise bad_record(f"{name}@{numbers[bad[0][0]]}", bad[0][1])
    origin = np.arange(len(numbers)) if decoded.origin is None else decoded.origin
    dropped = 0
    if before.partly == numbers[0]:
        dropped = min(before.rows, int(np.searchsorted(origin, 0, side="right")))
        rows, origin = rows.slice(dropped), origin[dropped:]

    def at(row: int) -> MessagePosition:
        message = int(origin[row])
        returned = row - int(np.searchsorted(origin, message)) + (dropped if message == 0 else 0)
        after = before.after if message == 0 else int(numbers[message - 1])
        return MessagePosition(after, returned, int(numbers[message]) if returned else None)

    after = MessagePosition(int(numbers[-1]))
    return MessageChunk(rows, at, after, numbers=numbers, origin=origin, bad=bad)


def progress_chunk(schema: pa.Schema, after: int) -> BufferedChunk:
    """Return a chunk without rows, for messages up to a number that are not for the source."""
    position = MessagePosition(after)
    rows = pa.RecordBatch.from_pylist([], schema)
    return BufferedChunk(rows, lambda row: position, position)


class MessageReader(BufferReader):
    """Reader that rejects bad messages together with the rows around them.

    Args:
        name: name of the stream, the first column of rejected records.
        unit: unit of the numbers, such as `sequence`.
        rejected: columns of rejected records: the stream, the number, and the record.
        shown: converts a number for places and rejected records.
    """

    def __init__(
        self,
        buffer: ChunkBuffer,
        position: EncodedPosition,
        ctx: ReaderContext,
        name: str,
        unit: str,
        rejected: pa.Schema,
        shown: Callable[[int], int | str] = int,
    ) -> None:
        super().__init__(buffer, position)
        self._ctx = ctx
        self._name = name
        self._unit = unit
        self._rejected = rejected
        self._shown = shown
        self._given: Sequence[int] = ()

    def places(self) -> RowPlaces:
        return RowPlaces(self._unit, [self._shown(number) for number in self._given])

    def _returns(self, chunk: BufferedChunk, begin: int, end: int) -> None:
        self._given = ()
        if not isinstance(chunk, MessageChunk):
            return
        self._given = chunk.numbers[chunk.origin[begin:end]].tolist()
        if chunk.bad:
            first = 0 if begin == 0 else int(chunk.origin[begin])
            last = len(chunk.numbers) if end == chunk.rows.num_rows else int(chunk.origin[end])
            bad = [each for each in chunk.bad if first <= each[0] < last]
            if bad:
                place: list[Sequence[Any]] = [
                    [self._name] * len(bad),
                    [self._shown(chunk.numbers[at]) for at, _ in bad],
                ]
                self._ctx.count(SKIPPED, len(bad))
                records = [record for _, record in bad]
                self._ctx.reject(rejected_rows(self._rejected, place, records))
