"""Positions in a shard, with the time up to which its records were read.

A stream drops records when they are as old as its retention, and no request reports that. So a position
has the time before which every record was read: if that is longer ago than the retention, records may
have been dropped before they were read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from rheos.connectors.message_chunks import MessageChunk, MessagePosition


@dataclass(frozen=True)
class ShardPosition:
    """Position of a reader of a shard."""

    at: MessagePosition
    read_ms: int = 0
    """Records that the service stored before this time were read; 0 if nothing was requested yet."""

    def encode(self) -> bytes:
        return msgspec.msgpack.encode((self.at.encode(), self.read_ms))

    @classmethod
    def decode(cls, position: bytes) -> ShardPosition:
        """Decode a position of a checkpoint."""
        at, read_ms = msgspec.msgpack.decode(position, type=tuple[bytes, int])
        return cls(MessagePosition.decode(at), read_ms)


def timed_chunk(chunk: MessageChunk, before_ms: int, after_ms: int) -> MessageChunk:
    """Return a chunk whose positions have times.

    Args:
        chunk: Rows of a shard.
        before_ms: Time up to which was read before the chunk.
        after_ms: Time up to which was read with all of its rows.

    Returns:
        The same rows with positions of shards.
    """
    at, after = chunk.at, chunk.after
    assert isinstance(after, MessagePosition), "it has positions of messages"

    def timed(row: int) -> ShardPosition:
        found = at(row)
        assert isinstance(found, MessagePosition), "it has positions of messages"
        return ShardPosition(found, before_ms)

    return replace(chunk, at=timed, after=ShardPosition(after, after_ms))
