"""Thread that reads a stream into the buffer of its reader."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import msgspec

from rheos.connectors.calls.outside_calls import thread
from rheos.connectors.chunk_buffer import ChunkBuffer
from rheos.connectors.message_chunks import MessagePosition, MessageReader, progress_chunk
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.nats.client_options import NatsOptions
from rheos.connectors.nats.messages import REJECTED, decoded_chunk
from rheos.connectors.nats.session import LOGGER, NatsConnection, NatsSession
from rheos.connectors.nats.stream_pull import StreamEnds, StreamMessage, StreamPull, stream_ends
from rheos.connectors.outage_patience import Patience
from rheos.core.connectors.contract import ReaderContext
from rheos.core.errors import InputError, RheosError, UnavailableError, unexpected

_ROOM_WITHIN_S = 1.0
_END_WITHIN_S = 10.0


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


class StreamReading:
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
        self._of = of
        self._split = split
        self._since_ms = split.since_ms if position is None else None
        self._at = MessagePosition(split.after) if position is None else position
        self._is_behind = bool(self._at.after)
        """Whether messages after the position are still to be read, as far as is known."""
        self._buffer = ChunkBuffer(ctx)
        self._decoder = of.decoding.decoder()
        self._is_finished = False
        self._session = NatsSession(of.options, f"the stream {split.stream!r} cannot be read")
        self._patience = Patience(of.retry_for_ms, lambda: self._buffer.count("retries"), LOGGER)
        self._thread: threading.Thread | None = None
        self._ctx = ctx

    def start(self) -> JetStreamReader:
        """Start the thread, and return the reader of its rows."""
        self._thread = thread(self._run, "rheos-nats")
        reader = JetStreamReader(self, self._buffer, self._at, self._ctx, self._split.stream)
        self._thread.start()
        return reader

    def close(self) -> None:
        """End the thread."""
        self._buffer.close()
        if self._thread is not None:
            self._thread.join(_END_WITHIN_S)

    # --- in the thread
    # ------------------------------------------------------------------------------

    def _run(self) -> None:
        failed: RheosError | None = None
        try:
            while not self._buffer.is_closing and not self._is_finished:
                try:
                    self._read()
                except UnavailableError as error:
                    self._patience.spend(error)
        except RheosError as error:
            failed = error
        except Exception as error:
            failed = unexpected(error)
        self._session.close()
        self._buffer.end(failed)

    def _read(self) -> None:
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
        while self._waits_for_room():
            messages = session.call(pull.take)
            self._patience.restore()
            if messages:
                self._give(messages)
            else:
                self._is_finished = self._advance(pull)
            if self._is_finished:
                break
        session.call(pull.close)

    def _waits_for_room(self) -> bool:
        while not self._buffer.is_closing and not self._buffer.wait_for_room(_ROOM_WITHIN_S):
            pass
        return not self._buffer.is_closing

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
        self._buffer.give(chunk)
        self._at, self._since_ms = MessagePosition(messages[-1].number), None

    def _advance(self, pull: StreamPull) -> bool:
        """Advance beyond messages of other subjects. Returns whether the source is at its end."""
        last = self._ends().last
        if self._at.partly is not None or not self._session.call(pull.is_exhausted):
            return False
        self._is_behind = False
        if last > self._at.after:
            self._buffer.give(progress_chunk(self._of.decoding.schema, last))
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
            self._buffer.count("removed")
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
