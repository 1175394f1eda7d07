"""Thread that receives the messages of a subscription, and acknowledges them at checkpoints."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from rheos.connectors.chunk_buffer import ChunkBuffer
from rheos.connectors.message_chunks import MessagePosition, MessageReader
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.mqtt.client_options import MqttOptions
from rheos.connectors.mqtt.connection import LOGGER, MqttConnection, MqttMessage
from rheos.connectors.reading_thread import ReadingThread
from rheos.core.connectors.contract import Polled, ReaderContext
from rheos.core.connectors.rejected_records import rejected_schema

FIELDS: Mapping[str, pa.DataType] = {"retained": pa.bool_(), "topic": pa.string()}
"""Fields of a message that may be columns."""
REJECTED = rejected_schema(
    pa.field("client_id", pa.string(), nullable=False), pa.field("message", pa.int64(), nullable=False)
)
_STEADY_S = 5.0
"""Seconds after which a connection is a success. If two clients have the same id, brokers close the
connection of each when the other connects."""
_WAIT_S = 0.1
_ROOM_WITHIN_S = 0.5


@dataclass(frozen=True)
class SubscribedRows:
    """Configuration of a subscription. Frozen: it is sent to the workers."""

    options: MqttOptions
    decoding: PayloadDecoding
    filters: tuple[str, ...]
    client_id: str
    keeps_s: int
    """Seconds for which the broker keeps messages while the job is down."""
    waits: bool
    """Whether messages are acknowledged at checkpoints, not when they are read."""
    retained: bool
    """Whether a new subscription receives the retained messages."""
    retry_for_ms: int


@dataclass(slots=True)
class _OpenMessage:
    """A message that was received but not acknowledged."""

    number: int
    packet: int
    content: int
    """Hash of topic and payload."""


class UnacknowledgedMessages:
    """Messages that were received but not acknowledged, by their packet ids.

    After an interrupted connection, the broker sends them again with the same packet ids. They are not
    new then. Their number is bounded, since a packet id has 16 bits.
    """

    def __init__(self) -> None:
        self._received: dict[int, _OpenMessage] = {}
        """Messages of this connection, in their order."""
        self._before: dict[int, _OpenMessage] = {}
        """Messages of earlier connections that the broker has not sent again."""

    def reconnected(self, is_session_kept: bool) -> None:
        """Expect the messages of the connection that has ended, if the broker has kept the session."""
        if is_session_kept:
            self._before |= self._received
        else:
            self._before = {}
        self._received = {}

    def is_new(self, message: MqttMessage, number: int) -> bool:
        """Note a message, and return whether it was not received before.

        Args:
            message: the message.
            number: its number if it is new.
        """
        if not message.packet:
            return True
        content = hash((message.topic, message.payload))
        before = self._before.pop(message.packet, None)
        is_new = before is None or not message.again or before.content != content
        if is_new or before is None:
            before = _OpenMessage(number, message.packet, content)
        self._received.pop(message.packet, None)
        self._received[message.packet] = before
        return is_new

    def taken_to(self, number: int) -> list[int]:
        """Forget the messages of this connection up to a number, and return their packet ids."""
        found: list[int] = []
        for message in self._received.values():
            if message.number > number:
                break
            found.append(message.packet)
        for packet in found:
            del self._received[packet]
        return found


class MqttReading(ReadingThread):
    """Reading of one subscription in a thread.

    Args:
        of: the rows.
        position: position of a checkpoint; None for a new job. Numbers of messages continue after it.
    """

    def __init__(
        self, of: SubscribedRows, position: MessagePosition | None, ctx: ReaderContext
    ) -> None:
        super().__init__("rheos-mqtt", ctx, of.retry_for_ms, LOGGER)
        self._of = of
        self._ctx = ctx
        self._number = 0 if position is None else position.after
        """Number of the last message that was received."""
        self._complete = self._number
        """Number of the last message to acknowledge."""
        self._lock = threading.Lock()
        """Lock for `_complete`."""
        self._begin = MessagePosition(self._number)
        self._unacknowledged = UnacknowledgedMessages()
        self._decoder = of.decoding.decoder()
        self._doing = f"the topic {', '.join(of.filters)} cannot be read"

    def start(self) -> MqttReader:
        """Start the thread, and return the reader of its rows."""
        reader = MqttReader(self, self.buffer, self._begin, self._ctx, self._of)
        self.run()
        return reader

    def acknowledge(self, number: int) -> None:
        """Let the thread acknowledge all messages up to a number."""
        with self._lock:
            self._complete = max(self._complete, number)

    # --- in the thread
    # ------------------------------------------------------------------------------

    def read(self) -> None:
        """Read until the buffer is closed."""
        of = self._of
        connection = MqttConnection(of.options, self._doing, of.client_id, of.keeps_s)
        try:
            self._unacknowledged.reconnected(connection.open())
            connection.subscribe(of.filters, 1 if of.retained else 2)
            steady_s: float | None = time.monotonic() + _STEADY_S
            while not self.buffer.is_closing:
                if steady_s is not None and time.monotonic() > steady_s:
                    self.patience.restore()
                    steady_s = None
                if self.buffer.wait_for_room(_ROOM_WITHIN_S):
                    connection.step(_WAIT_S)
                    arrived, connection.arrived = connection.arrived, []
                    self._give(arrived)
                else:
                    connection.keep_alive()
                self._acknowledge(connection)
            self._acknowledge(connection)
        finally:
            connection.close()

    def _give(self, arrived: Sequence[MqttMessage]) -> None:
        new: list[MqttMessage] = []
        for message in arrived:
            if self._unacknowledged.is_new(message, self._number + len(new) + 1):
                new.append(message)
        if not new:
            return
        before = MessagePosition(self._number)
        self._number += len(new)
        numbers = np.arange(before.after + 1, self._number + 1, dtype=np.int64)
        payloads = [message.payload for message in new]
        field = partial(_column, messages=new)
        decoding, name = self._of.decoding, self._of.client_id
        self.buffer.give(decoding.chunk(name, numbers, payloads, field, self._decoder, before))

    def _acknowledge(self, connection: MqttConnection) -> None:
        for packet in self._unacknowledged.taken_to(self._complete):
            connection.acknowledge(packet)


def _column(name: str, messages: Sequence[MqttMessage]) -> pa.Array:
    if name == "topic":
        return pa.array([message.topic for message in messages], pa.string())
    return pa.array([message.retained for message in messages], pa.bool_())


class MqttReader(MessageReader):
    """Reader of one subscription."""

    def __init__(
        self,
        reading: MqttReading,
        buffer: ChunkBuffer,
        position: MessagePosition,
        ctx: ReaderContext,
        of: SubscribedRows,
    ) -> None:
        super().__init__(buffer, position, ctx, of.client_id, "message", REJECTED)
        self._reading = reading
        self._waits = of.waits

    def poll(self, max_rows: int) -> Polled:
        polled = super().poll(max_rows)
        if not self._waits and isinstance(self._position, MessagePosition):
            self._reading.acknowledge(self._position.after)
        return polled

    def close(self) -> None:
        self._reading.close()
