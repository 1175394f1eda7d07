"""Thread that reads a stream of RabbitMQ into the buffer of its reader. A position is an offset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import msgspec
import numpy as np
import pyarrow as pa

from rheos.connectors.message_chunks import MessagePosition, MessageReader
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.rabbitmq.client_options import RabbitmqOptions
from rheos.connectors.rabbitmq.queue_reading import (
    HEARTBEAT_S,
    QueueConsumer,
    QueueMessage,
    message_field,
)
from rheos.connectors.rabbitmq.session import LOGGER, RabbitmqSession
from rheos.connectors.reading_thread import ReadingThread
from rheos.core.connectors.contract import ReaderContext
from rheos.core.connectors.rejected_records import rejected_schema
from rheos.core.errors import InputError

STREAM_FIELDS: Mapping[str, pa.DataType] = {
    "exchange": pa.string(),
    "offset": pa.int64(),
    "routing_key": pa.string(),
}
"""Fields of a stream's message that may be columns."""
STREAM_REJECTED = rejected_schema(
    pa.field("stream", pa.string(), nullable=False), pa.field("offset", pa.int64(), nullable=False)
)
BEFORE_FIRST = MessagePosition(-1)
"""Position of a reader that has read nothing."""


class StreamStart(msgspec.Struct, frozen=True, array_like=True):
    """Payload of a split: where a reader without a position begins."""

    offset: int = 0
    since_ms: int | None = None
    """Time at which it begins instead."""

    @property
    def argument(self) -> str | int | datetime:
        """Return it as the server understands it."""
        if self.since_ms is not None:
            return datetime.fromtimestamp(self.since_ms / 1000, UTC)
        return self.offset or "first"


@dataclass(frozen=True)
class RabbitmqStreamRows:
    """Configuration of the rows to read. Frozen: it is sent to the workers."""

    options: RabbitmqOptions
    decoding: PayloadDecoding
    prefetch: int
    continues: bool
    """Whether to continue after messages were removed."""
    retry_for_ms: int


class RabbitmqStreamReading(ReadingThread):
    """Reading of one stream in a thread. It acknowledges what is in the buffer, which lets the server
    send more, and changes nothing in the stream.

    Args:
        of: the rows.
        stream: name of the stream.
        start: where to begin without a position.
        position: position of a checkpoint; None for a new job.
        ctx: context of the reader.
    """

    def __init__(
        self,
        of: RabbitmqStreamRows,
        stream: str,
        start: StreamStart,
        position: MessagePosition | None,
        ctx: ReaderContext,
    ) -> None:
        super().__init__("rheos-rabbitmq", ctx, of.retry_for_ms, LOGGER)
        self._of = of
        self._stream = stream
        self._start = start
        self._at = BEFORE_FIRST if position is None else position
        self._ctx = ctx
        self._decoder = of.decoding.decoder()
        doing = f"the stream {stream!r} cannot be read"
        self._session = RabbitmqSession(of.options, doing, HEARTBEAT_S)

    def start(self) -> RabbitmqStreamReader:
        """Start the thread, and return the reader of its rows."""
        reader = RabbitmqStreamReader(self, self._at, self._ctx, self._stream)
        self.run()
        return reader

    # --- in the thread
    # ------------------------------------------------------------------------------

    def disconnect(self) -> None:
        self._session.close()

    def read(self) -> None:
        """Read until the buffer is closed."""
        wanted = self._wanted()
        start = self._start.argument if wanted is None else wanted
        consumer = QueueConsumer(self._stream, self._of.prefetch, start)
        self._session.call(consumer.open)
        self.patience.restore()
        delivered = acknowledged = 0
        while self.buffer.wait_until_room():
            more = delivered if delivered > acknowledged else 0
            arrived = self._session.call(partial(consumer.take, delivered=more))
            acknowledged = delivered
            if arrived:
                delivered += len(arrived)
                self._give(arrived)

    def _give(self, arrived: list[QueueMessage]) -> None:
        wanted = self._wanted()
        if wanted is not None:
            self._check(wanted, arrived[0].offset)
        numbers = np.array([message.offset for message in arrived], np.int64)
        payloads = [message.payload for message in arrived]
        field = partial(message_field, messages=arrived, fields=STREAM_FIELDS)
        decoding = self._of.decoding
        self.buffer.give(
            decoding.chunk(self._stream, numbers, payloads, field, self._decoder, self._at)
        )
        self._at = MessagePosition(int(numbers[-1]))

    def _wanted(self) -> int | None:
        """Return the offset of the next message; None if none was read."""
        if self._at == BEFORE_FIRST:
            return None
        return self._at.after + 1 if self._at.partly is None else self._at.partly

    def _check(self, wanted: int, first: int) -> None:
        """Raise InputError if the server has removed the next message."""
        if first == wanted:
            return
        self.buffer.count("removed")
        if not self._of.continues:
            raise InputError(
                f"the stream {self._stream!r} has removed the messages {wanted} to {first - 1}, which "
                "the job has not read",
                hint="let the stream keep messages until the job has read them (x-max-age, "
                "x-max-length-bytes). To continue with the first message, write "
                'on_removed="continue"; or start anew, without a checkpoint',
            )


class RabbitmqStreamReader(MessageReader):
    """Reader of one stream."""

    def __init__(
        self, reading: RabbitmqStreamReading, position: MessagePosition, ctx: ReaderContext, stream: str
    ) -> None:
        super().__init__(reading.buffer, position, ctx, stream, "offset", STREAM_REJECTED)
        self._reading = reading

    def close(self) -> None:
        self._reading.close()
