"""Thread that reads a stream into the buffer of its reader."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rheos.connectors.chunk_buffer import ChunkBuffer
from rheos.connectors.message_chunks import MessagePosition, MessageReader, progress_chunk
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.nats.client_options import NatsOptions
from rheos.connectors.nats.messages import REJECTED, decoded_chunk
from rheos.connectors.nats.session import LOGGER, NatsConnection, NatsSession
from rheos.connectors.nats.stream_pull import StreamEnds, StreamMessage, StreamPull, stream_ends
from rheos.connectors.reading_thread import ReadingThread
from rheos.core.connectors.contract import ReaderContext
from rheos.core.errors import InputError


class JetStreamSplit(msgspec.Struct, frozen=True, array_like=True):
    """Payload of a split."""

    stream: str
    created_us: int
    """Time at which the stream was created."""
    after: int = 0
    """The source begins after this message; 0 for the first one."""
    since_ms: int | None = None
    """Time at which it begins instead, if it has no position."""
    end: int | None = None
    """Number of the last message to read; None for a source without an end."""


@dataclass(frozen=True)
class StreamRows:
    """Configuration of the rows to read. Frozen: it is sent to the workers."""

    options: NatsOptions
    decoding: PayloadDecoding
    subject: str | None
    continues: bool
    """Whether to continue after messages were removed."""
    retry_for_ms: int


class StreamReading(ReadingThread):
    """Reading of one stream in a thread.

    Args:
        of: the rows.
        split: what to read.
        position: position of a checkpoint; None for a new job.
    """

    def __init__(
        self,
        of: StreamRows,
        split: JetStreamSplit,
        position: MessagePosition | None,
        ctx: ReaderContext,
    ) -> None:
        super().__init__("rheos-nats", ctx, of.retry_for_ms, LOGGER)
        self._of = of
        self._split = split
        has_read = position is not None and position != MessagePosition()
        self._since_ms = None if has_read else split.since_ms
        self._at = MessagePosition(split.after) if position is None else position
        self._is_behind = bool(self._at.after)
        """Whether messages after the position are still to be read, as far as is known."""
        self._decoder = of.decoding.decoder()
        self._is_finished = False
        self._session = NatsSession(of.options, f"the stream {split.stream!r} cannot be read")
        self._ctx = ctx

    def start(self) -> JetStreamReader:
        """Start the thread, and return the reader of its rows."""
        reader = JetStreamReader(self, self.buffer, self._at, self._ctx, self._split.stream)
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
        split, session = self._split, self._session
        pull = StreamPull(
            split.stream,
            self._of.subject,
            self._at.after,
            self._since_ms,
            waits=split.end is None,
        )
        session.call(pull.open)
        self._check(self._ends())
        while self.buffer.wait_until_room():
            messages = session.call(pull.take)
            self.patience.restore()
            if messages:
                self._give(messages)
            else:
                self._is_finished = self._advance(pull)
            if self._is_finished:
                break
        session.call(pull.close)

    def _give(self, messages: list[StreamMessage]) -> None:
        split, end = self._split, self._split.end
        if self._is_behind and messages[-1].number - self._at.after > len(messages):
            self._check(self._ends())
        self._is_behind = messages[-1].pending > 0
        if end is not None:
            self._is_finished = messages[-1].number >= end
            messages = [each for each in messages if each.number <= end]
            if not messages:
                return
        chunk = decoded_chunk(self._of.decoding, split.stream, messages, self._decoder, self._at)
        self.buffer.give(chunk)
        self._at, self._since_ms = MessagePosition(messages[-1].number), None

    def _advance(self, pull: StreamPull) -> bool:
        """Advance beyond messages of other subjects. Returns whether the source is at its end."""
        last = self._ends().last
        if self._at.partly is not None or not self._session.call(pull.is_exhausted):
            return False
        self._is_behind = False
        if last > self._at.after:
            self.buffer.give(progress_chunk(self._of.decoding.schema, last))
            self._at, self._since_ms = MessagePosition(last), None
        return self._split.end is not None

    def _ends(self) -> StreamEnds:
        async def asked(connection: NatsConnection) -> StreamEnds:
            return await stream_ends(connection, self._split.stream)

        return self._session.call(asked)

    def _check(self, ends: StreamEnds) -> None:
        """Raise InputError if the stream no longer has the messages after the position."""
        stream, after = self._split.stream, self._at.after
        if ends.created_us != self._split.created_us or ends.last < after:
            raise InputError(
                f"the stream {stream!r} was created anew, and the job is at sequence {after} of the "
                "former one",
                hint="to read the messages that exist now, start the job anew, without a checkpoint",
            )
        if self._is_behind and ends.first > after + 1:
            self.buffer.count("removed")
            if not self._of.continues:
                raise InputError(
                    f"the stream {stream!r} has removed the messages {after + 1} to {ends.first - 1}, "
                    f"and the job is at {after}: messages may be lost",
                    hint="let the stream keep messages until the job has read them (max_age, "
                    "max_bytes, max_msgs). To continue with the first message, write on_removed="
                    '"continue"; or start anew, without a checkpoint',
                )
            self._is_behind = False


class JetStreamReader(MessageReader):
    """Reader of one stream."""

    def __init__(
        self,
        reading: StreamReading,
        buffer: ChunkBuffer,
        position: MessagePosition,
        ctx: ReaderContext,
        stream: str,
    ) -> None:
        super().__init__(buffer, position, ctx, stream, "sequence", REJECTED)
        self._reading = reading

    def close(self) -> None:
        self._reading.close()
