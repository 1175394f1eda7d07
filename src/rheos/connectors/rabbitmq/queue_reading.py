"""Thread that receives the messages of a queue, and acknowledges them at checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from rheos.connectors.acknowledging import AcknowledgedReading, AcknowledgedRows
from rheos.connectors.message_chunks import MessagePosition
from rheos.connectors.rabbitmq.client_options import RabbitmqOptions
from rheos.connectors.rabbitmq.session import LOGGER, RabbitmqConnection, RabbitmqSession
from rheos.core.connectors.contract import ReaderContext
from rheos.core.connectors.rejected_records import rejected_schema
from rheos.core.errors import InputError

FIELDS: Mapping[str, pa.DataType] = {
    "exchange": pa.string(),
    "redelivered": pa.bool_(),
    "routing_key": pa.string(),
}
"""Fields of a message that may be columns."""
REJECTED = rejected_schema(
    pa.field("queue", pa.string(), nullable=False), pa.field("message", pa.int64(), nullable=False)
)
HEARTBEAT_S = 30
_STREAM_OFFSET = "x-stream-offset"
_WAIT_S = 0.1
_GLANCE_S = 0.001
"""Time for the events of the connection while no message can arrive."""


@dataclass(frozen=True, kw_only=True)
class QueueRows(AcknowledgedRows):
    """Configuration of the rows to read. Frozen: it is sent to the workers."""

    options: RabbitmqOptions
    prefetch: int


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A message that the server has delivered."""

    routing_key: str
    exchange: str
    redelivered: bool
    payload: bytes
    offset: int = -1
    """Place in a stream; -1 for other queues."""


class QueueConsumer:
    """A consumer of a queue on one connection. The server numbers its deliveries from 1.

    Args:
        queue: name of the queue.
        prefetch: maximum number of deliveries that are not acknowledged.
        start: where to begin in a stream; None if the queue is not a stream.
    """

    def __init__(self, queue: str, prefetch: int, start: str | int | datetime | None = None) -> None:
        self._queue = queue
        self._prefetch = prefetch
        self._start = start
        self._arrived: list[QueueMessage] = []
        self._arrives: asyncio.Event
        self._failed: BaseException | None = None

    async def open(self, connection: RabbitmqConnection) -> None:
        """Begin to consume."""
        channel, self._arrives = connection.channel, asyncio.Event()
        connection.on_lost = self._arrives.set
        # Raises if the queue does not exist.
        await connection.answer(
            lambda on: channel.queue_declare(self._queue, passive=True, callback=on)
        )
        await connection.answer(
            lambda on: channel.basic_qos(prefetch_count=self._prefetch, callback=on)
        )
        channel.add_on_cancel_callback(self._on_cancel)
        arguments = None if self._start is None else {_STREAM_OFFSET: self._start}
        await connection.answer(
            lambda on: channel.basic_consume(
                self._queue, self._on_message, arguments=arguments, callback=on
            )
        )

    async def take(
        self, connection: RabbitmqConnection, delivered: int, within_s: float = _WAIT_S
    ) -> list[QueueMessage]:
        """Acknowledge the first deliveries, and return those that have arrived.

        Args:
            connection: the connection.
            delivered: number of the last delivery to acknowledge; 0 for none.
            within_s: how long to wait for an arrival, in seconds.

        Returns:
            The messages in their order; an empty list if none arrives within a moment.
        """
        if delivered:
            connection.channel.basic_ack(delivered, multiple=True)
        if not self._arrived:
            self._arrives.clear()
            try:
                await asyncio.wait_for(self._arrives.wait(), within_s)
            except TimeoutError:
                return []
        if connection.lost is not None:
            raise connection.lost
        if self._failed is not None:
            raise self._failed
        arrived, self._arrived = self._arrived, []
        return arrived

    def _on_message(self, channel: Any, method: Any, properties: Any, payload: bytes) -> None:
        offset = (properties.headers or {}).get(_STREAM_OFFSET, -1)
        if (self._start is None) != (offset == -1):
            self._failed = self._kind_error()
        self._arrived.append(
            QueueMessage(method.routing_key, method.exchange, bool(method.redelivered), payload, offset)
        )
        self._arrives.set()

    def _kind_error(self) -> InputError:
        if self._start is None:
            return InputError(
                f"{self._queue!r} is a stream, whose messages are not acknowledged",
                hint=f'write stream="{self._queue}"',
            )
        return InputError(
            f"{self._queue!r} is not a stream", hint=f'write queue="{self._queue}" and no start='
        )

    def _on_cancel(self, method: Any) -> None:
        self._failed = ConnectionError(
            "the server has ended the consumer: the queue was deleted or moved"
        )
        self._arrives.set()


class QueueReading(AcknowledgedReading):
    """Reading of one queue in a thread.

    Args:
        of: the rows.
        queue: name of the queue.
        position: position of a checkpoint; None for a new job.
        ctx: context of the reader.
    """

    def __init__(
        self, of: QueueRows, queue: str, position: MessagePosition | None, ctx: ReaderContext
    ) -> None:
        super().__init__("rheos-rabbitmq", queue, of, position, ctx, LOGGER)
        self._queue = queue
        self._prefetch = of.prefetch
        self._session = RabbitmqSession(of.options, f"the queue {queue!r} cannot be read", HEARTBEAT_S)

    # --- in the thread
    # ------------------------------------------------------------------------------

    def disconnect(self) -> None:
        self._session.close()

    def read(self) -> None:
        """Read until the buffer is closed."""
        consumer = QueueConsumer(self._queue, self._prefetch)
        self._session.call(consumer.open)
        self.patience.restore()
        before = self.number
        """Number of the last message of earlier connections: deliveries are numbered after it."""
        acknowledged = before
        while self.buffer.wait_until_room():
            within_s = _WAIT_S
            if self.number - acknowledged >= self._prefetch and self.complete <= acknowledged:
                # The server delivers nothing before an acknowledgement.
                self.wait_for_checkpoint(_WAIT_S)
                within_s = _GLANCE_S
            complete = max(self.complete, acknowledged)
            delivered = complete - before if complete > acknowledged else 0
            arrived = self._session.call(partial(consumer.take, delivered=delivered, within_s=within_s))
            acknowledged = complete
            if arrived:
                field = partial(message_field, messages=arrived, fields=FIELDS)
                self.give([each.payload for each in arrived], field)
        if (complete := self.complete) > acknowledged:
            self._session.call(partial(consumer.take, delivered=complete - before))


def message_field(
    name: str, messages: Sequence[QueueMessage], fields: Mapping[str, pa.DataType]
) -> pa.Array:
    """Return a field of messages.

    Args:
        name: Name of the field.
        messages: The messages.
        fields: Types of the fields.

    Returns:
        The values.
    """
    return pa.array([getattr(message, name) for message in messages], fields[name])
