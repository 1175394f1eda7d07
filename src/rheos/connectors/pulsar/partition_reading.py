"""Reading of one partition: a thread with a reader of Pulsar, which acknowledges nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from rheos.connectors.chunk_buffer import ChunkBuffer
from rheos.connectors.message_chunks import MessagePosition, MessageReader
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.pulsar.client_options import PulsarOptions, client
from rheos.connectors.pulsar.messages import REJECTED, decoded_chunk
from rheos.connectors.pulsar.positions import MessageNumber
from rheos.connectors.pulsar.session import LOGGER, PulsarSession
from rheos.connectors.reading_thread import ReadingThread
from rheos.core.connectors.contract import ReaderContext
from rheos.core.errors import InputError

_BATCH = 4096
_BATCH_BYTES = 8 << 20
_IDLE_MS = 500
_AHEAD = 1000
"""Number of messages that the client receives before they are read."""


class PulsarSplit(msgspec.Struct, frozen=True, array_like=True):
    """Payload of a split."""

    partition: str
    """Full name of the partition, or of a topic without partitions."""
    after: str = "0"
    """The source begins after the message of this number, which is longer than 64 bits; 0 for the first
    one."""
    since_ms: int | None = None
    """Time at which it begins instead, if it has no position."""
    end: str | None = None
    """Number of the last message to read; None for a source without an end."""

    @property
    def number(self) -> int:
        """Return the number of the partition; -1 for a topic without partitions."""
        number = self.partition.rpartition("-partition-")[2]
        return int(number) if number.isdecimal() else -1


@dataclass(frozen=True)
class PulsarRows:
    """Configuration of the rows to read. Frozen: it is sent to the workers."""

    options: PulsarOptions
    decoding: PayloadDecoding
    is_compacted: bool
    continues: bool
    """Whether to continue after messages were removed."""
    retry_for_ms: int


class PartitionReading(ReadingThread):
    """Reading of one partition in a thread.

    Args:
        of: the rows.
        split: what to read.
        position: position of a checkpoint; None for a new job.
    """

    def __init__(
        self,
        of: PulsarRows,
        split: PulsarSplit,
        position: MessagePosition | None,
        ctx: ReaderContext,
    ) -> None:
        super().__init__("rheos-pulsar", ctx, of.retry_for_ms, LOGGER)
        self._of = of
        self._split = split
        self._since_ms = split.since_ms if position is None else None
        self._at = MessagePosition(int(split.after)) if position is None else position
        self._decoder = of.decoding.decoder()
        self._session = PulsarSession(
            of.options, f"the topic partition {split.partition!r} cannot be read"
        )
        self._ctx = ctx
        self._reader: Any = None
        self._awaited = 0
        """Number of the message at the position, which a new reader returns first; 0 once it has."""
        self._end = None if split.end is None else int(split.end)
        self._is_finished = self._end is not None and self._at.after >= self._end

    def start(self) -> PulsarReader:
        """Start the thread, and return the reader of its rows."""
        reader = PulsarReader(self, self.buffer, self._at, self._ctx, self._split.partition)
        self.run()
        return reader

    # --- in the thread
    # ------------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        return self._is_finished

    def disconnect(self) -> None:
        self._session.close()

    def read(self) -> None:
        """Read until the end of the source, or until the buffer is closed."""
        session = self._session
        session.call(self._open)
        while not self._is_finished and self.buffer.wait_until_room():
            messages = session.call(self._take)
            self.patience.restore()
            if messages:
                self._give(messages)
            elif self._end is not None:
                self._is_finished = not session.call(lambda _: self._reader.has_message_available())

    def _open(self, connected: Any) -> None:
        """Create the reader. It begins with the message at the position: if that was removed, later
        ones may be missing, too. Compaction removes messages without a loss."""
        after, partition = MessageNumber(self._at.after), self._split.number
        self._awaited = 0 if self._of.is_compacted else int(after)
        self._reader = connected.create_reader(
            self._split.partition,
            after.message_id(partition) if after else client().MessageId.earliest,
            receiver_queue_size=_AHEAD,
            reader_name="rheos",
            is_read_compacted=self._of.is_compacted,
            start_message_id_inclusive=self._awaited > 0,
        )
        if self._since_ms is not None:
            self._reader.seek(self._since_ms)

    def _take(self, connected: Any) -> list[Any]:
        """Return messages in their order; an empty list if none is available now."""
        timeout = client().Timeout
        try:
            found = [self._reader.read_next(_IDLE_MS)]
        except timeout:
            # A reader without a connection waits silently, but this request fails.
            self._reader.has_message_available()
            return []
        size_bytes = 0
        while len(found) < _BATCH and size_bytes < _BATCH_BYTES:
            try:
                found.append(self._reader.read_next(0))
            except timeout:
                break
            size_bytes += len(found[-1].data())
        return found

    def _give(self, messages: list[Any]) -> None:
        if self._awaited:
            messages = self._after_awaited(messages)
        if self._since_ms is not None:
            # Messages of one batch are before and after that time.
            since_ms = self._since_ms
            messages = [each for each in messages if each.publish_timestamp() >= since_ms]
        if messages and self._end is not None:
            end = self._end
            self._is_finished = MessageNumber.of(messages[-1].message_id()) >= end
            messages = [each for each in messages if MessageNumber.of(each.message_id()) <= end]
        if not messages:
            return
        partition = self._split.partition
        chunk = decoded_chunk(self._of.decoding, partition, messages, self._decoder, self._at)
        self.buffer.give(chunk)
        self._at = MessagePosition(int(chunk.numbers[-1]))
        self._since_ms = None

    def _after_awaited(self, messages: list[Any]) -> list[Any]:
        awaited, self._awaited = MessageNumber(self._awaited), 0
        first = MessageNumber.of(messages[0].message_id())
        if first == awaited:
            return messages[1:]
        self.buffer.count("removed")
        if not self._of.continues:
            raise InputError(
                f"the topic partition {self._split.partition!r} has removed the message {awaited}, at "
                f"which the job is, and begins with {first}: messages may be lost",
                hint="let the namespace keep messages until the job has read them (its retention, or a "
                "subscription). To continue with the first message, write on_removed="
                '"continue"; or start anew, without a checkpoint',
            )
        return messages


def _format_number(number: int) -> str:
    return str(MessageNumber(number))


class PulsarReader(MessageReader):
    """Reader of one partition."""

    def __init__(
        self,
        reading: PartitionReading,
        buffer: ChunkBuffer,
        position: MessagePosition,
        ctx: ReaderContext,
        partition: str,
    ) -> None:
        super().__init__(buffer, position, ctx, partition, "message_id", REJECTED, _format_number)
        self._reading = reading

    def close(self) -> None:
        self._reading.close()
